"""The gap of a plan to the best one that is known."""

from collections.abc import Iterable, Sequence
from statistics import fmean

from bench.ledger.gap import relative_gap
from bench.ledger.row import Row

UNSOLVED = 1.0
"""The gap of a run without a feasible plan, whatever the reason: as bad as a cost without limit."""


def achieved(row: "Row") -> float | None:
    """Return the value of a run's plan if it is feasible by the judge, otherwise ``None``.

    Of a scenario set it is the number of scenarios served, which counts even where other plans break constraints.
    """
    return row.value if row.feasible or row.scenarios is not None else None


def best_known(rows: "Iterable[Row]") -> float | None:
    """Return the best feasible value among runs of one instance, ``None`` if no run has one."""
    found = [(row.objective, value) for row in rows if (value := achieved(row)) is not None]
    if not found:
        return None
    values = [value for _, value in found]
    return min(values) if found[0][0] == "cost" else max(values)


def gap_to_best(value: float | None, best: float | None) -> float:
    """Return the gap of ``value`` to the best known one of its instance.

    ``g = |value - best| / max(|value|, |best|)``, 0 where both are 0, and 1 without a value: the primal gap of
    T. Berthold, "Measuring the impact of primal heuristics", Operations Research Letters 41, 2013. ``1 / (1 - g)`` is
    the factor to the best one: by how much a cost is larger, or a throughput smaller.
    """
    return UNSOLVED if value is None or best is None else min(UNSOLVED, relative_gap(value, best))


def mean_gap(seeds: "Sequence[Row]", best: float | None) -> float:
    """Return the mean gap to ``best`` of runs that differ in nothing but their seeds: one result of one instance."""
    return fmean(gap_to_best(achieved(row), best) for row in seeds)
