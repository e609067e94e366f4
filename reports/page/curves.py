"""Data of pictures: plans and bounds of a run over time, results by size of the instance, and tested plans."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from bench.formatting import servers
from bench.ledger.gap import reachable
from bench.ledger.row import Row
from instances.grouping import grouped
from reports.page.instance_results import InstanceResults
from reports.quantities import certified_bound

Point = tuple[float, float]
"""Time in seconds, and percent worse than the reference."""

_LARGEST_PCT = 1e9
"""Largest drawn distance in percent; a larger distance is drawn as this one."""

_LARGEST_VALUE = 1e290
"""Largest number in a mean; a ledger from elsewhere can have larger numbers, whose sums would be infinite."""

_MIN_SIZES = 3
"""Smallest number of different sizes of a suite's instances for a curve."""


def reference(instance_results: InstanceResults) -> tuple[float, str] | None:
    """Return the value with which plans and bounds over time are compared, and its name.

    The reference is the best known plan, since a bound applies to the plans of one class only. Without a feasible plan,
    the reference is the best certified bound; without a bound, ``None``.
    """
    if instance_results.best_known is not None:
        return instance_results.best_known, "the best known plan"
    bounds = [bound.value for bound in instance_results.bounds.values() if bound is not None]
    # If no bound applies to a plan, the bounds that the runs themselves state are taken.
    bounds = bounds or [bound for row in instance_results.rows if (bound := certified_bound(row)) is not None]
    return ((max if instance_results.minimised else min)(bounds), "the best certified bound") if bounds else None


def progress(row: Row, instance_results: InstanceResults, reference_value: float) -> dict[str, list[Point]]:
    """Return the feasible ``plans`` and the certified ``bounds`` of a run over time.

    A point is (seconds, percent worse than ``reference_value``).
    """

    def worse_pct(value: float) -> float:
        if not reference_value:
            return 0.0
        distance = value - reference_value if instance_results.minimised else reference_value - value
        return round(max(-_LARGEST_PCT, min(_LARGEST_PCT, 100.0 * distance / abs(reference_value))), 3)

    points = list(row.trajectory or ())
    if row.value is not None and row.feasible and row.decision_s is not None:
        points.append({"t_s": row.decision_s, "value": row.value, "feasible": True, "bound": None})
    plans = [
        (point["t_s"], worse_pct(point["value"]))
        for point in points
        if point["value"] is not None and point["feasible"]
    ]
    bounds = [
        (point["t_s"], worse_pct(reachable(point["bound"], instance_results.minimised, instance_results.instance)))
        for point in points
        if point.get("bound_certified")
    ]
    # The larger the percentage of a bound, the tighter is the bound.
    return {"plans": _best_so_far(plans, min), "bounds": _best_so_far(bounds, max)}


def _best_so_far(points: Iterable[Point], better: Callable[[float, float], float]) -> list[Point]:
    """Return a point for each change of the best value so far; ``better`` returns the better of two values."""
    steps: list[Point] = []
    for t_s, value in sorted(points):
        best = better(value, steps[-1][1]) if steps else value
        if not steps or best != steps[-1][1]:
            steps.append((float(f"{t_s:.4g}"), best))
    return steps


METRICS = {
    "decision_s": "Decision time (s)",
    "behind_pct": "Behind the best known plan (%)",
    "late_pct": "Requests not in time (%)",
}
"""Quantities drawn over the number of workloads, with their labels."""


def scaling(all_results: Sequence[InstanceResults]) -> dict[str, list[dict[str, Any]]]:
    """Return the curves of entrants over the number of workloads or jobs, by suite.

    A suite has no curves if its instances have fewer than three sizes. A curve has the entrant's ``name``, its
    ``scheduler`` and its ``points``. A point has the number of ``workloads`` (or jobs), the number of ``runs`` and, for
    each of ``METRICS``, (lowest, median, highest) over the runs, or ``None`` without a value.
    """
    suites = grouped(
        (instance_results.suite, instance_results)
        for instance_results in all_results
        if instance_results.instance is not None
    )
    return {
        suite: _curves(suite_results)
        for suite, suite_results in suites.items()
        if len(set(map(_size, suite_results))) >= _MIN_SIZES
    }


def _size(instance_results: InstanceResults) -> int:
    """Return the number of workloads, or of jobs if there are no workloads; 0 without the instance."""
    if instance_results.instance is None:
        return 0
    return len(instance_results.instance.workloads) or len(instance_results.instance.jobs)


def _curves(all_results: Sequence[InstanceResults]) -> list[dict[str, Any]]:
    """Return the curves of one suite's entrants, over their runs with a decision time."""
    timed = [
        (instance_results, row)
        for instance_results in all_results
        for row in instance_results.rows
        if row.decision_s is not None
    ]
    runs = grouped(
        ((instance_results.entrants[row.key], row.scheduler), (instance_results, row))
        for instance_results, row in timed
    )
    return [
        {
            "name": name,
            "scheduler": scheduler,
            "points": [
                {"workloads": size, "runs": len(size_runs), **_metrics(size_runs)}
                for size, size_runs in sorted(
                    grouped(
                        (_size(instance_results), (instance_results, row)) for instance_results, row in entrant_runs
                    ).items()
                )
            ],
        }
        for (name, scheduler), entrant_runs in sorted(runs.items())
    ]


def _metrics(runs: Sequence[tuple[InstanceResults, Row]]) -> dict[str, tuple[float, float, float] | None]:
    return {
        "decision_s": _spread(row.decision_s for _, row in runs),
        "behind_pct": _spread(_in_percent(instance_results.behind_best(row)) for instance_results, row in runs),
        "late_pct": _spread(_in_percent(row.sim_violation_rate) for _, row in runs),
    }


def _in_percent(fraction: float | None) -> float | None:
    """Return a fraction in percent."""
    return None if fraction is None else 100.0 * _limited(fraction)


def _limited(value: float) -> float:
    return max(-_LARGEST_VALUE, min(_LARGEST_VALUE, value))


def _known_values(values: Iterable[float | None]) -> list[float]:
    return [_limited(value) for value in values if value is not None]


def _spread(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    """Return (lowest, median, highest) of the values that are not ``None``; ``None`` without such a value."""
    known_values = _known_values(values)
    if not known_values:
        return None
    return tuple(float(f"{value:.4g}") for value in (min(known_values), median(known_values), max(known_values)))  # type: ignore[return-value]


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the values that are not ``None``; ``None`` without such a value."""
    known_values = _known_values(values)
    return fmean(known_values) if known_values else None


@dataclass(frozen=True, slots=True, order=True)
class CheckedPlan:
    """Plan of a run with ``bench run --check-holds``, with the percentage of workloads that keep their attainment."""

    attaining_pct: float
    gpus: int
    holds: bool
    words: str


def checked_plans(all_results: Sequence[InstanceResults]) -> dict[str, dict[str, list[CheckedPlan]]]:
    """Return the checked plans of each instance, by its name and by scheduler."""
    plans_by_instance: dict[str, dict[str, list[CheckedPlan]]] = {}
    for instance_results in all_results:
        plans: dict[str, list[CheckedPlan]] = defaultdict(list)
        for row in instance_results.rows:
            if row.holds is not None and row.gpus_used is not None and instance_results.instance is not None:
                attaining_pct = 100.0 * (1.0 - (row.late_workloads or 0) / len(instance_results.instance.workloads))
                server_text = servers(instance_results.instance.dropping)
                words = f"{'holds' if row.holds else 'late'} on {server_text}; headroom {row.headroom or 1.0:g}"
                plans[row.scheduler].append(CheckedPlan(attaining_pct, row.gpus_used, row.holds, words))
        if plans:
            plans_by_instance[instance_results.name] = {
                scheduler: sorted(scheduler_plans) for scheduler, scheduler_plans in plans.items()
            }
    return plans_by_instance
