"""Gap of a plan to the best known one."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from bench.ledger.gap import relative_gap
from bench.ledger.row import Row

UNSOLVED = 1.0
"""Gap of a run without a feasible plan, for any reason: that of an unlimited cost."""


def achieved(row: Row) -> float | None:
    """Return the value of a run's plan if it is feasible by the judge, otherwise ``None``.

    For a scenario set it is the number of scenarios served, which counts even if other plans break constraints.
    """
    return row.value if row.feasible or row.scenarios is not None else None


def best_known(rows: Iterable[Row]) -> float | None:
    """Return the best feasible value among runs of one instance, ``None`` if no run has one."""
    found = [(row.objective, value) for row in rows if (value := achieved(row)) is not None]
    if not found:
        return None
    values = [value for _, value in found]
    return min(values) if found[0][0] == "cost" else max(values)


def gap_to_best(value: float | None, best: float | None) -> float:
    """Return the gap of ``value`` to the best known one of its instance.

    ``g = |value - best| / max(|value|, |best|)``, 0 if both are 0, and 1 without a value: the primal gap of
    T. Berthold, "Measuring the impact of primal heuristics", Operations Research Letters 41, 2013. ``1 / (1 - g)`` is
    the factor to the best value: of a larger cost, or of a smaller throughput.
    """
    return UNSOLVED if value is None or best is None else min(UNSOLVED, relative_gap(value, best))


def mean_gap(seeds: Sequence[Row], best: float | None) -> float:
    """Return the mean gap to ``best`` of runs that differ in their seeds only: one result of one instance."""
    return fmean(gap_to_best(achieved(row), best) for row in seeds)
