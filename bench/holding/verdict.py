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
"""Largest probability that the test finds a late workload if all workloads miss exactly the allowed fraction."""

POOLED_QUANTILE = NormalDist().inv_cdf(1.0 - LEVEL)
"""Number of standard errors by which the attainment of all requests must be too low before they count as late."""


@dataclass(frozen=True, slots=True)
class WorkloadAttainment:
    """Attainment of one workload.

    Attributes
    ----------
    requests, seconds
        Number of measured requests, and the measured time of all simulations of the workload together.
    attainment, standard_error
        Fraction served within the SLO, and the standard error of this fraction.
    detectable
        Smallest fraction not in time at which the test would find the workload late with a probability of ``POWER``
        (``bench.holding.attainment``).
    late
        Whether the attainment is below the target.
    unclear
        Whether the test cannot tell: it may not find a workload late that clearly misses the target.
    load
        Least load of a server of the workload, if this load alone proves that the attainment is below the target.
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
    workloads: tuple[WorkloadAttainment, ...]

    @property
    def late(self) -> tuple[WorkloadAttainment, ...]:
        """Workloads below the target, lowest attainment first."""
        return tuple(
            sorted((workload for workload in self.workloads if workload.late), key=lambda workload: workload.attainment)
        )

    @property
    def unclear(self) -> tuple[WorkloadAttainment, ...]:
        """Workloads about which the test cannot tell, the largest ``detectable`` first."""
        return tuple(
            sorted(
                (workload for workload in self.workloads if workload.unclear), key=lambda workload: -workload.detectable
            )
        )

    @property
    def attainment(self) -> float:
        """Attainment of the requests of all workloads together."""
        total_rps = sum(workload.measured_rps for workload in self.workloads)
        return (
            sum(workload.measured_rps * workload.attainment for workload in self.workloads) / total_rps
            if total_rps
            else 1.0
        )

    @property
    def standard_error(self) -> float:
        """Standard error of ``attainment``."""
        total_rps = sum(workload.measured_rps for workload in self.workloads)
        weighted_errors = (workload.measured_rps * workload.standard_error for workload in self.workloads)
        return math.hypot(*weighted_errors) / total_rps if total_rps else 0.0

    @property
    def detectable(self) -> float:
        """Largest ``detectable`` of the workloads that are not late."""
        return max((workload.detectable for workload in self.workloads if not workload.late), default=0.0)

    @property
    def holds(self) -> bool | None:
        """Whether the plan holds; ``None`` if the test cannot tell."""
        largest_plausible_attainment = self.attainment + POOLED_QUANTILE * self.standard_error
        if self.late or largest_plausible_attainment < self.target - POOLED_MARGIN:
            return False
        return None if self.unclear else True

    @property
    def requests(self) -> int:
        """Measured requests of all workloads."""
        return sum(workload.requests for workload in self.workloads)

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
            "workloads": [asdict(workload) for workload in self.workloads],
        }


def with_overloads(
    results: Sequence[WorkloadAttainment], overloads: Sequence[Overload], allowed: float
) -> list[WorkloadAttainment]:
    """Return the results, with workloads marked late if the loads alone prove that they miss more than ``allowed``.

    If no workload of an overloaded server is late yet, the workload with the lowest attainment is marked.
    """
    by_name = {result.workload: result for result in results}
    for overload in overloads:
        if overload.missed <= allowed:
            continue
        lowest_first = sorted(
            (by_name[name] for name in overload.workloads if name in by_name), key=lambda result: result.attainment
        )
        for result in [result for result in lowest_first if result.late] or lowest_first[:1]:
            # A server that drops requests serves at most this fraction of them.
            highest_attainment = (
                min(result.attainment, 1.0 - overload.missed) if overload.missed < 1.0 else result.attainment
            )
            by_name[result.workload] = replace(
                result, attainment=highest_attainment, late=True, unclear=False, load=overload.load
            )
    return list(by_name.values())
