"""Verdict of the test whether a plan holds."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from statistics import NormalDist
from typing import Any

from bench.simulation.load import Overload

POOLED_MARGIN = 0.001
"""Largest permitted distance of the attainment of all requests below the target."""

LEVEL = 0.05
"""Probability that a plan whose workloads all miss exactly the allowed fraction does not pass."""

POOLED_QUANTILE = NormalDist().inv_cdf(1.0 - LEVEL)
"""Standard errors below the permitted distance at which all requests together are late."""


@dataclass(frozen=True, slots=True)
class Attained:
    """Attainment of one workload.

    Attributes
    ----------
    requests, seconds
        Measured requests, and the measured time of all its simulations together.
    attainment, standard_error
        Fraction served within the SLO, and the standard error of this fraction.
    detectable
        Smallest fraction not in time at which the test would find the workload late with a probability of ``POWER``
        (``bench.holding.attainment``).
    late
        Whether the attainment is below the target.
    unclear
        Whether the test cannot tell, because a workload that clearly misses the target may have passed it.
    load
        Least load of a server of the workload, if that alone proves that the attainment is below the target.
    """

    workload: str
    requests: int
    seconds: float
    attainment: float
    standard_error: float
    detectable: float
    late: bool
    unclear: bool
    load: float | None = None

    @property
    def measured_rps(self) -> float:
        """Measured requests per second."""
        return self.requests / self.seconds


@dataclass(frozen=True, slots=True)
class Holding:
    """Result of the test of a plan.

    Attributes
    ----------
    target
        Attainment that every workload must reach.
    dropping
        Whether the servers drop requests that can no longer meet their SLO.
    seconds
        Measured time of each simulation of all workloads.
    workloads
        Results of the workloads with a rate above 0.
    """

    target: float
    dropping: bool
    seconds: float
    workloads: tuple[Attained, ...]

    @property
    def late(self) -> tuple[Attained, ...]:
        """Workloads below the target, lowest attainment first."""
        return tuple(sorted((one for one in self.workloads if one.late), key=lambda one: one.attainment))

    @property
    def unclear(self) -> tuple[Attained, ...]:
        """Workloads of which the test cannot tell, the least certain first."""
        return tuple(sorted((one for one in self.workloads if one.unclear), key=lambda one: -one.detectable))

    @property
    def attainment(self) -> float:
        """Attainment of the requests of all workloads together."""
        total = sum(one.measured_rps for one in self.workloads)
        return sum(one.measured_rps * one.attainment for one in self.workloads) / total if total else 1.0

    @property
    def standard_error(self) -> float:
        """Standard error of ``attainment``."""
        total = sum(one.measured_rps for one in self.workloads)
        parts = (one.measured_rps * one.standard_error for one in self.workloads)
        return math.hypot(*parts) / total if total else 0.0

    @property
    def detectable(self) -> float:
        """Largest ``detectable`` of the workloads that are not late."""
        return max((one.detectable for one in self.workloads if not one.late), default=0.0)

    @property
    def holds(self) -> bool | None:
        """Whether the plan holds; ``None`` if the test cannot tell."""
        together = self.attainment + POOLED_QUANTILE * self.standard_error
        if self.late or together < self.target - POOLED_MARGIN:
            return False
        return None if self.unclear else True

    @property
    def requests(self) -> int:
        """Measured requests of all workloads."""
        return sum(one.requests for one in self.workloads)

    def to_json(self) -> dict[str, Any]:
        """Return the result as JSON values."""
        return {
            "holds": self.holds,
            "dropping": self.dropping,
            "target": self.target,
            "attainment": self.attainment,
            "detectable": self.detectable,
            "requests": self.requests,
            "late": len(self.late),
            "unclear": len(self.unclear),
            "workloads": [asdict(one) for one in self.workloads],
        }


def with_overloads(found: Sequence[Attained], overloads: Sequence[Overload], allowed: float) -> list[Attained]:
    """Return the results with those workloads late of which the loads alone prove that they miss more than ``allowed``.

    If a server has several workloads, that with the lowest attainment is late.
    """
    by_name = {one.workload: one for one in found}
    for over in overloads:
        if over.missed <= allowed:
            continue
        own = sorted((by_name[name] for name in over.workloads if name in by_name), key=lambda one: one.attainment)
        for one in [one for one in own if one.late] or own[:1]:
            # A server that drops requests serves at most this fraction of them.
            most = min(one.attainment, 1.0 - over.missed) if over.missed < 1.0 else one.attainment
            by_name[one.workload] = replace(one, attainment=most, late=True, unclear=False, load=over.load)
    return list(by_name.values())
