"""Gaps of plans and bounds to the best known plan, at the end of a run and over time."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from statistics import fmean

from bench.ledger.gap import relative_gap
from bench.ledger.row import Row

UNSOLVED = 1.0
"""Gap of a run without a feasible plan, for any reason. An infinite cost would have the same gap."""

TOLERANCE = 1e-6
"""Differences of gaps, and relative differences of values, up to this are rounding errors."""

_AT_LIMIT = 0.95
"""Fraction of the time limit from which the limit counts as used up: solvers return somewhat before their limit."""


def used_up_limit(row: Row) -> bool:
    """Return whether a run used up its time limit."""
    return row.decision_s is not None and row.decision_s >= _AT_LIMIT * row.time_limit_s


def achieved(row: Row) -> float | None:
    """Return the value of a run's plan if it is feasible by the judge, otherwise ``None``.

    The value for a scenario set is the number of scenarios served. It counts even if the plans of other scenarios break
    constraints.
    """
    return row.value if row.feasible or row.scenarios is not None else None


def best_known(rows: Iterable[Row]) -> float | None:
    """Return the best value of a feasible plan among runs on one instance, ``None`` without a feasible plan."""
    values_with_objective = [(row.objective, value) for row in rows if (value := achieved(row)) is not None]
    if not values_with_objective:
        return None
    values = [value for _, value in values_with_objective]
    objective = values_with_objective[0][0]
    return min(values) if objective == "cost" else max(values)


def gap_to_best(value: float | None, best: float | None) -> float:
    """Return the gap of ``value`` to the best known value of its instance.

    ``g = |value - best| / max(|value|, |best|)``, 0 if both are 0, and 1 without a value: the primal gap of
    T. Berthold, "Measuring the impact of primal heuristics", Operations Research Letters 41, 2013. The value is
    ``1 / (1 - g)`` times the best cost, or the best throughput is ``1 / (1 - g)`` times the value.
    """
    return UNSOLVED if value is None or best is None else min(UNSOLVED, relative_gap(value, best))


def mean_gap(rows: Sequence[Row], best: float | None) -> float:
    """Return the mean gap to ``best`` of runs that differ only in their seeds."""
    return fmean(gap_to_best(achieved(row), best) for row in rows)


def gap_over_time(row: Row, best: float | None) -> list[tuple[float, float]]:
    """Return ``(seconds, gap)`` at each decrease of the gap between a run's best feasible plan so far and ``best``.

    The first entry is (0, 1). The run's plans are those that it reported during the search, with the judge's values,
    and its final plan.
    """
    plans = [(point["t_s"], point["value"]) for point in row.trajectory if point["feasible"]]
    plans.append((row.decision_s, achieved(row)))
    steps = [(0.0, UNSOLVED)]
    for t_s, value in sorted((t_s, value) for t_s, value in plans if t_s is not None and value is not None):
        gap = gap_to_best(value, best)
        if gap < steps[-1][1]:
            steps.append((t_s, gap))
    return steps


def gap_at(steps: list[tuple[float, float]], t_s: float) -> float:
    """Return the gap at the time ``t_s`` of at least 0 s; ``steps`` are the result of ``gap_over_time``."""
    return min(gap for since_s, gap in steps if since_s <= t_s)


def bound_gap_over_time(row: Row, best: float | None) -> list[tuple[float, float]]:
    """Return ``(seconds, gap)`` at each decrease of the gap between a run's certified bound so far and ``best``.

    The first entry is (0, 1). A bound beyond ``best``, which a narrower class of plans permits, has the gap 0.
    """
    minimised = row.objective == "cost"
    bounds = [(point["t_s"], point["bound"]) for point in row.trajectory if point["bound_certified"]]
    if row.bound_certified:
        bounds.append((row.decision_s, row.bound))
    steps = [(0.0, UNSOLVED)]
    for t_s, bound in sorted((t_s, bound) for t_s, bound in bounds if t_s is not None and bound is not None):
        beyond = best is not None and (bound > best if minimised else bound < best)
        gap = 0.0 if beyond else gap_to_best(bound, best)
        if gap < steps[-1][1]:
            steps.append((t_s, gap))
    return steps


def gap_integral(steps: list[tuple[float, float]], horizon_s: float) -> float:
    """Return the integral of a gap over time in seconds: the primal integral of plans, the dual integral of bounds.

    It is 0 for the best plan (or bound) at once, and ``horizon_s`` for none until then.
    ``P(T) = sum_i g(t_(i-1)) (min(t_i, T) - t_(i-1))`` over the times at which the gap ``g`` falls, ``g = 1`` before
    the first feasible plan (Berthold 2013, Sec. 2). ``P(T) / T`` is the mean gap over the time limit.

    Parameters
    ----------
    steps
        Result of ``gap_over_time`` or ``bound_gap_over_time``.
    horizon_s
        ``T``, which is the same for all compared runs; usually their time limit. Later steps do not count.
    """
    ends = [*(min(t_s, horizon_s) for t_s, _ in steps), horizon_s]
    return sum(gap * (end - start) for (_, gap), (start, end) in zip(steps, pairwise(ends), strict=True))
