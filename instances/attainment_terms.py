"""Terms of the SLO rule ``attainment``: the fraction of requests to serve in time, and the assumed arrivals."""

import re
from typing import NamedTuple, Protocol

from instances.budget import SloRule
from instances.errors import InputError

DEFAULT_ATTAINMENT = 0.99
"""Fraction of the requests to serve within the SLO; at 0.99 the P99 latency is within the SLO."""

LEAST_ATTAINMENT, MOST_ATTAINMENT = 0.5, 0.9999
"""Range of the attainment."""

POISSON = "poisson"
"""Name of Poisson arrivals in instance files."""

LEAST_CV, MOST_CV = 0.1, 10.0
"""Range of the coefficient of variation of gamma arrivals."""


class AttainmentTerms(NamedTuple):
    """Terms of the rule, the same for all workloads of an instance.

    Attributes
    ----------
    attainment
        Fraction of the requests that must be served within the SLO.
    cv
        Coefficient of variation of the gaps between arrivals; 1 for Poisson arrivals.
    dropping
        Whether servers drop requests that would be late; otherwise they serve all.
    """

    attainment: float
    cv: float
    dropping: bool = True

    @property
    def may_miss(self) -> float:
        """Largest fraction of the requests that may miss the SLO."""
        return 1.0 - self.attainment

    def thinned(self, fraction: float) -> "AttainmentTerms":
        """Return the terms of a slot that gets each request of its workload with probability ``fraction``."""
        # A gap at the slot is the sum of a geometrically distributed number of gaps at the workload.
        return self if self.cv == 1.0 else self._replace(cv=(fraction * self.cv**2 + 1.0 - fraction) ** 0.5)


def burstiness(arrivals: str) -> float:
    """Return the coefficient of variation of the arrivals ``poisson`` or ``gamma:CV``.

    Raises
    ------
    InputError
        If ``arrivals`` is neither of them, or the coefficient is out of range.
    """
    if arrivals == POISSON:
        return 1.0
    match = re.fullmatch(r"gamma:(\d+(?:\.\d*)?|\.\d+)", arrivals, re.ASCII)
    if match is None or not LEAST_CV <= float(match[1]) <= MOST_CV:
        expected = f'"{POISSON}" or "gamma:CV" with a CV from {LEAST_CV:g} to {MOST_CV:g}'
        raise InputError("arrivals", f'is "{arrivals}"; expected {expected}')
    return float(match[1])


class HasTerms(Protocol):
    """Fields of an instance, or of an instance file, that the terms depend on."""

    @property
    def slo_rule(self) -> SloRule: ...  # noqa: D102
    @property
    def objective(self) -> str: ...  # noqa: D102
    @property
    def attainment(self) -> float: ...  # noqa: D102
    @property
    def arrivals(self) -> str: ...  # noqa: D102


def terms_mismatch(instance: HasTerms, has_applications: bool) -> tuple[str, str] | None:
    """Return a field that contradicts the SLO rule, and its problem; ``None`` if all fields agree."""
    if instance.slo_rule != SloRule.ATTAINMENT:
        for name, value, default in (
            ("attainment", instance.attainment, DEFAULT_ATTAINMENT),
            ("arrivals", instance.arrivals, POISSON),
        ):
            if value != default:
                problem = f'is given, but slo_rule "{instance.slo_rule}" does not use it'
                return name, f'{problem}; remove it or choose "{SloRule.ATTAINMENT}"'
        return None
    if instance.objective == "colocation":
        return "slo_rule", f'is "{SloRule.ATTAINMENT}"; best-effort jobs have no SLO'
    if has_applications:
        return "slo_rule", f'is "{SloRule.ATTAINMENT}"; the arrivals at later stages of applications are not known'
    if not LEAST_ATTAINMENT <= instance.attainment <= MOST_ATTAINMENT:
        expected = f"expected a number from {LEAST_ATTAINMENT:g} to {MOST_ATTAINMENT:g}"
        return "attainment", f"is {instance.attainment:g}; {expected}"
    try:
        burstiness(instance.arrivals)
    except InputError as error:
        return "arrivals", error.problem
    return None
