"""Data of pictures: plans and bounds of a run over time, results against the size of instances, and tested plans."""

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

_MOST_PCT = 1e9
"""Largest drawn distance in percent; a larger one is drawn as this."""

_MOST = 1e290
"""Largest number in a mean; a ledger from elsewhere can have larger ones, whose sums are infinite."""

_LEAST_SIZES = 3
"""Least number of sizes among a suite's instances for a curve."""


def reference(case: InstanceResults) -> tuple[float, str] | None:
    """Return the reference of plans and bounds over time, and its name.

    The reference is the best known plan. All plans can be compared with it, while bounds hold for the plans of one
    class only. Without a plan that meets all constraints it is the best certified bound; ``None`` without either.
    """
    if case.best_known is not None:
        return case.best_known, "the best known plan"
    bounds = [bound.value for bound in case.bounds.values() if bound is not None]
    bounds = bounds or [bound for row in case.rows if (bound := certified_bound(row)) is not None]
    return ((max if case.minimised else min)(bounds), "the best certified bound") if bounds else None


def progress(row: Row, case: InstanceResults, by: float) -> dict[str, list[Point]]:
    """Return the feasible ``plans`` and the certified ``bounds`` of a run as (seconds, percent worse than ``by``)."""

    def worse_pct(value: float) -> float:
        distance = value - by if case.minimised else by - value
        return round(max(-_MOST_PCT, min(_MOST_PCT, 100.0 * distance / abs(by))), 3) if by else 0.0

    points = list(row.trajectory or ())
    if row.value is not None and row.feasible and row.decision_s is not None:
        points.append({"t_s": row.decision_s, "value": row.value, "feasible": True, "bound": None})
    plans = [(p["t_s"], worse_pct(p["value"])) for p in points if p["value"] is not None and p["feasible"]]
    bounds = [
        (p["t_s"], worse_pct(reachable(p["bound"], case.minimised, case.instance)))
        for p in points
        if p.get("bound_certified")
    ]
    return {"plans": _best_so_far(plans, min), "bounds": _best_so_far(bounds, max)}


def _best_so_far(points: Iterable[Point], better: Callable[[float, float], float]) -> list[Point]:
    kept: list[Point] = []
    for t_s, value in sorted(points):
        best = better(value, kept[-1][1]) if kept else value
        if not kept or best != kept[-1][1]:
            kept.append((float(f"{t_s:.4g}"), best))
    return kept


METRICS = {
    "decision_s": "Decision time (s)",
    "behind_pct": "Behind the best known plan (%)",
    "late_pct": "Requests not in time (%)",
}
"""Quantities drawn against the number of workloads, with their labels."""


def scaling(cases: Sequence[InstanceResults]) -> dict[str, list[dict[str, Any]]]:
    """Return by suite the curves of its entrants against the number of workloads.

    Suites with instances of fewer than three sizes have none. A curve has the entrant's ``name``, its ``scheduler``,
    and ``points`` with ``workloads``, ``runs`` and, for each of ``METRICS``, (lowest, median, highest) of the runs or
    ``None``.
    """
    suites = grouped((case.suite, case) for case in cases if case.instance is not None)
    return {suite: _curves(own) for suite, own in suites.items() if len(set(map(_size, own))) >= _LEAST_SIZES}


def _size(case: InstanceResults) -> int:
    return 0 if case.instance is None else len(case.instance.workloads) or len(case.instance.jobs)


def _curves(cases: Sequence[InstanceResults]) -> list[dict[str, Any]]:
    timed = [(case, row) for case in cases for row in case.rows if row.decision_s is not None]
    runs = grouped(((case.entrants[row.key], row.scheduler), (case, row)) for case, row in timed)
    return [
        {
            "name": name,
            "scheduler": scheduler,
            "points": [
                {"workloads": size, "runs": len(found), **_metrics(found)}
                for size, found in sorted(grouped((_size(case), (case, row)) for case, row in own).items())
            ],
        }
        for (name, scheduler), own in sorted(runs.items())
    ]


def _metrics(runs: Sequence[tuple[InstanceResults, Row]]) -> dict[str, tuple[float, float, float] | None]:
    return {
        "decision_s": _spread(row.decision_s for _, row in runs),
        "behind_pct": _spread(percent(case.behind_best(row)) for case, row in runs),
        "late_pct": _spread(percent(row.sim_violation_rate) for _, row in runs),
    }


def percent(fraction: float | None) -> float | None:
    """Return a fraction in percent."""
    return None if fraction is None else 100.0 * _limited(fraction)


def _limited(value: float) -> float:
    return max(-_MOST, min(_MOST, value))


def _known(values: Iterable[float | None]) -> list[float]:
    return [_limited(value) for value in values if value is not None]


def _spread(values: Iterable[float | None]) -> tuple[float, float, float] | None:
    known = _known(values)
    if not known:
        return None
    return tuple(float(f"{value:.4g}") for value in (min(known), median(known), max(known)))  # type: ignore[return-value]


def mean(values: Iterable[float | None]) -> float | None:
    """Return the mean of the known values; ``None`` if there are none."""
    known = _known(values)
    return fmean(known) if known else None


@dataclass(frozen=True, slots=True, order=True)
class CheckedPlan:
    """Plan of a run with ``bench run --check-holds``; ``kept_pct`` of its workloads keep their attainment."""

    kept_pct: float
    gpus: int
    holds: bool
    words: str


def checked_plans(cases: Sequence[InstanceResults]) -> dict[str, dict[str, list[CheckedPlan]]]:
    """Return the tested plans of each instance, by its name and by scheduler."""
    found: dict[str, dict[str, list[CheckedPlan]]] = {}
    for case in cases:
        plans: dict[str, list[CheckedPlan]] = defaultdict(list)
        for row in case.rows:
            if row.holds is not None and row.gpus_used is not None and case.instance is not None:
                kept_pct = 100.0 * (1.0 - (row.late_workloads or 0) / len(case.instance.workloads))
                on = servers(case.instance.dropping)
                words = f"{'holds' if row.holds else 'late'} on {on}; headroom {row.headroom or 1.0:g}"
                plans[row.scheduler].append(CheckedPlan(kept_pct, row.gpus_used, row.holds, words))
        if plans:
            found[case.name] = {scheduler: sorted(own) for scheduler, own in plans.items()}
    return found
