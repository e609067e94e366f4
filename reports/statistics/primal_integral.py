"""Primal integral: the gap of a run's plan, integrated over time."""

from itertools import pairwise

from bench.ledger.row import Row
from reports.statistics.best_known import UNSOLVED, achieved, gap_to_best


def gap_over_time(row: Row, best: float | None) -> list[tuple[float, float]]:
    """Return ``(seconds, gap)`` at each decrease of the gap between a run's best feasible plan so far and ``best``.

    The first entry is (0, 1). The plans are those that the run reported during the search, with the judge's values, and
    its last one.
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
    """Return the gap at a time, from the steps of ``gap_over_time``."""
    return min(gap for since_s, gap in steps if since_s <= t_s)


def primal_integral(steps: list[tuple[float, float]], horizon_s: float) -> float:
    """Return the primal integral in seconds, from 0 (the best plan at once) to ``horizon_s`` (no plan until then).

    ``P(T) = sum_i g(t_(i-1)) (min(t_i, T) - t_(i-1))`` over the times at which the gap ``g`` falls, ``g = 1`` before
    the first feasible plan (Berthold 2013, Sec. 2). ``P(T) / T`` is the mean gap over the time limit.

    Parameters
    ----------
    steps
        Result of ``gap_over_time``.
    horizon_s
        ``T``: the same for all compared runs, usually their time limit. Later steps do not count.
    """
    ends = [*(min(t_s, horizon_s) for t_s, _ in steps), horizon_s]
    return sum(gap * (end - start) for (_, gap), (start, end) in zip(steps, pairwise(ends), strict=True))
