"""Pictures of the first page: tested plans by instance, and results over the size of instances by suite."""

from collections.abc import Sequence
from typing import Any

from reports.charts.palette import GREEN, scheduler_look
from reports.charts.scales import Scale
from reports.charts.series import ChartSeries
from reports.page.curves import METRICS, checked_plans, scaling
from reports.page.instance_pictures import variants_of
from reports.page.instance_results import InstanceResults
from reports.page.pictures import Picture, series_picture

_FILLS = {True: GREEN, False: "#FFFFFF"}
"""Fill of plans that hold, and of plans that do not hold, as in the figure ``hold``."""


def hold_pictures(all_results: Sequence[InstanceResults]) -> dict[str, Picture]:
    """Return the tested plans of each instance: GPUs over workloads that keep their attainment."""
    return {
        instance: series_picture(
            f"hold-{number}",
            f"GPUs over workloads that keep their attainment, {instance}",
            [
                ChartSeries(
                    scheduler,
                    scheduler_look(scheduler),
                    [(plan.attaining_pct, float(plan.gpus)) for plan in plans if plan.holds is holds],
                    words=[plan.words for plan in plans if plan.holds is holds],
                    line="",
                    fill=_FILLS[holds],
                )
                for scheduler, plans in plans_of.items()
                for holds in sorted({plan.holds for plan in plans})
            ],
            Scale("Workloads that keep their attainment (%)", domain=(-2.0, 102.0), unit=" % of the workloads"),
            Scale(
                "GPUs",
                domain=(0.0, 1.1 * max(plan.gpus for plans in plans_of.values() for plan in plans)),
                unit=" GPUs",
            ),
        )
        for number, (instance, plans_of) in enumerate(checked_plans(all_results).items())
    }


def scaling_pictures(all_results: Sequence[InstanceResults]) -> dict[str, dict[str, Picture | None]]:
    """Return pictures by suite and metric: results over the number of workloads."""
    return {
        suite: {metric: _scaling_picture(f"scaling-{number}-{metric}", suite, curves, metric) for metric in METRICS}
        for number, (suite, curves) in enumerate(scaling(all_results).items())
    }


def _scaling_picture(name: str, suite: str, curves: Sequence[dict[str, Any]], metric: str) -> Picture | None:
    """Return medians and ranges of a metric over the number of workloads; ``None`` if no run has the metric."""
    variants = variants_of((curve["name"], curve["scheduler"]) for curve in curves)
    series = []
    for curve in curves:
        points = [point for point in curve["points"] if point[metric] is not None]
        chart_series = ChartSeries(
            curve["name"],
            scheduler_look(curve["scheduler"]),
            [(float(point["workloads"]), point[metric][1]) for point in points],
            variant=variants[curve["name"]],
            words=[f"{point['runs']} run{'s' * (point['runs'] != 1)}" for point in points],
            spans=[(point[metric][0], point[metric][2]) for point in points],
        )
        series += [chart_series] if points else []
    if not series:
        return None
    label = f"{METRICS[metric]} over the number of workloads, {suite}"
    y = Scale(METRICS[metric], log=metric == "decision_s", unit=" s" if metric == "decision_s" else " %")
    return series_picture(name, label, series, Scale("Workloads", log=True, unit=" workloads"), y)
