"""Tables of InSS's agent: capacity, distance from the optimum, its plans as starts of a search, and larger clusters."""

import math
from statistics import fmean, median

from reports.claim import Query, QueryTable, duration, query
from reports.need import Need
from reports.papers.inss_clusters import (
    SMALL_CLUSTER,
    TIMED_ON_FOUR_GPUS,
    VARIANTS,
    Quantity,
    mean_of,
    median_decision_ms,
    rows_of,
)
from reports.papers.inss_schedulers import trained
from reports.quantities import certified_bound, not_in_time_pct
from reports.runs import Runs

_LONG_LIMIT_S = 600.0
"""Time limit in seconds, so long that the work limit always ends the run first."""

_BOUND_NEED = Need(
    "4gpu", ("colgen",), parameters=("colgen.plan_class=spatial",), time_limit_s=_LONG_LIMIT_S, work_limit=10_000_000
)


_ON_FOUR_GPUS = {**SMALL_CLUSTER, **VARIANTS}


@query
def _mean(runs: Runs, label: str, quantity: Quantity, format_string: str) -> str:
    mean = mean_of(rows_of(runs, _ON_FOUR_GPUS, label), quantity)
    return "–" if mean is None else format_string.format(mean)


def _decision_s(runs: Runs, label: str) -> float | None:
    if label in TIMED_ON_FOUR_GPUS:
        time_ms = median_decision_ms(runs, label)
        return None if time_ms is None else time_ms / 1000.0
    return mean_of(rows_of(runs, _ON_FOUR_GPUS, label), lambda row: row.decision_s)


def _capacity_line(label: str) -> tuple[str | Query, ...]:
    return (
        label,
        _mean(label, lambda row: row.value, "{:,.0f} req/s"),
        _mean(label, lambda row: row.violations, "{:g}"),
        _mean(label, not_in_time_pct, "{:.1f} %"),
        _mean(label, lambda row: row.gpus_used, "{:g}"),
        lambda runs: duration(_decision_s(runs, label)),
    )


def _best_bound(runs: Runs) -> str:
    bound = certified_bound(runs.row(_BOUND_NEED))
    return "none" if bound is None else f"≤ {bound:,.0f} req/s"


CAPACITY = QueryTable(
    ("`4gpu`", "capacity", "constraints broken", "not in time", "GPUs", "decision"),
    [*(_capacity_line(label) for label in _ON_FOUR_GPUS), ("certified bound (`colgen`)", _best_bound, "", "", "", "")],
)

_UNSEEN = "4gpu-unseen"
_UNSEEN_BOUNDS_NEED = Need(_UNSEEN, ("colgen",), time_limit_s=_LONG_LIMIT_S, work_limit=5_000_000)

_ON_DRAWN_INSTANCES = {
    "`ts`": Need(_UNSEEN, ("ts",), parameters=trained("ts", 0)),
    "`ts`, likeliest decision only": Need(_UNSEEN, ("ts",), parameters=trained("ts", 0, drawn=0)),
    "`ts+repair`": Need(_UNSEEN, ("ts+repair",)),
    "`bin-packing`": Need(_UNSEEN, ("bin-packing",)),
    "`igniter`": Need(_UNSEEN, ("igniter",)),
}


@query
def _percent_of_bound(runs: Runs, label: str, smallest: bool = False) -> str:
    """Return the value in percent of the certified bound: the mean over all drawn instances, or the smallest.

    An instance without a certified bound counts as 0 %.
    """
    rows, bound_rows = runs.rows_of_each([_ON_DRAWN_INSTANCES[label], _UNSEEN_BOUNDS_NEED])
    bound = {row.instance: certified_bound(row) for row in bound_rows}
    percentages = [100.0 * (row.value or 0.0) / (bound.get(row.instance) or math.inf) for row in rows]
    return f"{min(percentages) if smallest else fmean(percentages):.1f} %"


@query
def _mean_on_drawn(runs: Runs, label: str, quantity: Quantity, format_string: str) -> str:
    return format_string.format(mean_of(runs.rows(_ON_DRAWN_INSTANCES[label]), quantity))


@query
def _typical_decision(runs: Runs, label: str) -> str:
    return duration(median(row.decision_s or 0.0 for row in runs.rows(_ON_DRAWN_INSTANCES[label])))


UNSEEN = QueryTable(
    (
        "scheduler, on a hundred draws",
        "mean fraction of the optimum",
        "least fraction",
        "constraints broken",
        "not in time",
        "median decision",
    ),
    [
        (
            label,
            _percent_of_bound(label),
            _percent_of_bound(label, smallest=True),
            _mean_on_drawn(label, lambda row: row.violations, "{:g}"),
            _mean_on_drawn(label, not_in_time_pct, "{:.2f} %"),
            _typical_decision(label),
        )
        for label in _ON_DRAWN_INSTANCES
    ],
)


@query
def _value_after_work(runs: Runs, instance: str, scheduler: str, work_limit: int) -> str:
    row = runs.row(Need(instance, (scheduler,), time_limit_s=_LONG_LIMIT_S, work_limit=work_limit))
    return "no plan" if row.value is None else f"{row.value:,.0f} req/s"


WARM = QueryTable(
    ("instance, search rounds, pricing nodes", "`local-search`", "`local-search@ts`", "`colgen`", "`colgen@ts`"),
    [
        (
            f"`{instance}`, {rounds:,}, {nodes:,}",
            *(_value_after_work(instance, scheduler, rounds) for scheduler in ("local-search", "local-search@ts")),
            *(_value_after_work(instance, scheduler, nodes) for scheduler in ("colgen", "colgen@ts")),
        )
        for instance in ("4gpu-goodput", "inss-8gpu", "inss-64gpu")
        for rounds, nodes in ((1_000, 200_000), (10_000, 2_000_000))
    ],
)


@query
def _value_and_time(runs: Runs, instance: str, scheduler: str) -> str:
    row = runs.row(Need(instance, (scheduler,), parameters=trained(scheduler, 0)))
    if row.value is None:
        return "no plan"
    return f"{row.value:,.0f} req/s, {not_in_time_pct(row) or 0.0:.2f} % not in time, {duration(row.decision_s)}"


LAYERS = QueryTable(
    ("instance", "`ts`: workloads dealt evenly", "`ts-hierarchy`: workloads dealt by a trained layer"),
    [
        (f"`{instance}`", _value_and_time(instance, "ts"), _value_and_time(instance, "ts-hierarchy"))
        for instance in ("inss-8gpu", "inss-16gpu", "inss-32gpu", "inss-64gpu")
    ],
)
