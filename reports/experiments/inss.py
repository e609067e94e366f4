"""Tables of InSS's agent: capacity, distance from the optimum, starts for search, and larger clusters."""

import math
from statistics import fmean, median

from reports.claim import Query, QueryTable, duration, query
from reports.need import Need
from reports.papers.inss_clusters import SMALL, Quantity, mean_of, rows_of
from reports.quantities import certified_bound, not_in_time_pct
from reports.runs import Runs

_GENEROUS_S = 600.0
"""Time limit that no run with a work limit reaches."""

_BOUND = Need(
    "4gpu", ("colgen",), parameters=("colgen.plan_class=spatial",), time_limit_s=_GENEROUS_S, work_limit=10_000_000
)


@query
def _mean(runs: Runs, label: str, of: Quantity, form: str) -> str:
    found = mean_of(rows_of(runs, SMALL, label), of)
    return "–" if found is None else form.format(found)


def _capacity(label: str) -> tuple[str | Query, ...]:
    return (
        label,
        _mean(label, lambda row: row.value, "{:,.0f} req/s"),
        _mean(label, lambda row: row.violations, "{:g}"),
        _mean(label, not_in_time_pct, "{:.1f} %"),
        _mean(label, lambda row: row.gpus_used, "{:g}"),
        lambda runs: duration(mean_of(rows_of(runs, SMALL, label), lambda row: row.decision_s)),
    )


def _best_bound(runs: Runs) -> str:
    bound = certified_bound(runs.row(_BOUND))
    return "none" if bound is None else f"≤ {bound:,.0f} req/s"


CAPACITY = QueryTable(
    ("`4gpu`", "capacity", "constraints broken", "not in time", "GPUs", "decision"),
    [*(_capacity(label) for label in SMALL), ("certified bound (`colgen`)", _best_bound, "", "", "", "")],
)

_UNSEEN = "4gpu-unseen"
_OPTIMA = Need(_UNSEEN, ("colgen",), time_limit_s=_GENEROUS_S, work_limit=5_000_000)

_DRAWN = {
    "`ts`": Need(_UNSEEN, ("ts",), parameters=("ts.drawn=63",)),
    "`ts`, likeliest decision only": Need(_UNSEEN, ("ts",), parameters=("ts.drawn=0",)),
    "`ts+repair`": Need(_UNSEEN, ("ts+repair",)),
    "`bin-packing`": Need(_UNSEEN, ("bin-packing",)),
    "`igniter`": Need(_UNSEEN, ("igniter",)),
}


@query
def _of_optimum(runs: Runs, label: str, least: bool = False) -> str:
    """Return the served percentage of the certified optimum: the mean over all draws, or the least."""
    rows, optima = runs.rows_of_each([_DRAWN[label], _OPTIMA])
    bound = {row.instance: certified_bound(row) for row in optima}
    parts = [100.0 * (row.value or 0.0) / (bound.get(row.instance) or math.inf) for row in rows]
    return f"{min(parts) if least else fmean(parts):.1f} %"


@query
def _drawn(runs: Runs, label: str, of: Quantity, form: str) -> str:
    return form.format(mean_of(runs.rows(_DRAWN[label]), of))


@query
def _typical_decision(runs: Runs, label: str) -> str:
    return duration(median(row.decision_s or 0.0 for row in runs.rows(_DRAWN[label])))


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
            _of_optimum(label),
            _of_optimum(label, least=True),
            _drawn(label, lambda row: row.violations, "{:g}"),
            _drawn(label, not_in_time_pct, "{:.2f} %"),
            _typical_decision(label),
        )
        for label in _DRAWN
    ],
)


@query
def _reached(runs: Runs, instance: str, scheduler: str, work: int) -> str:
    row = runs.row(Need(instance, (scheduler,), time_limit_s=_GENEROUS_S, work_limit=work))
    return "no plan" if row.value is None else f"{row.value:,.0f} req/s"


WARM = QueryTable(
    ("instance, search rounds, pricing nodes", "`local-search`", "`local-search@ts`", "`colgen`", "`colgen@ts`"),
    [
        (
            f"`{instance}`, {rounds:,}, {nodes:,}",
            *(_reached(instance, scheduler, rounds) for scheduler in ("local-search", "local-search@ts")),
            *(_reached(instance, scheduler, nodes) for scheduler in ("colgen", "colgen@ts")),
        )
        for instance in ("4gpu-goodput", "inss-8gpu", "inss-64gpu")
        for rounds, nodes in ((1_000, 200_000), (10_000, 2_000_000))
    ],
)


@query
def _judged(runs: Runs, instance: str, scheduler: str) -> str:
    row = runs.row(Need(instance, (scheduler,), parameters=(f"{scheduler}.training=0",)))
    if row.value is None:
        return "no plan"
    return f"{row.value:,.0f} req/s, {not_in_time_pct(row) or 0.0:.2f} % not in time, {duration(row.decision_s)}"


LAYERS = QueryTable(
    ("instance", "`ts`: workloads dealt evenly", "`ts-hierarchy`: workloads dealt by a trained layer"),
    [
        (f"`{instance}`", _judged(instance, "ts"), _judged(instance, "ts-hierarchy"))
        for instance in ("inss-8gpu", "inss-16gpu", "inss-32gpu", "inss-64gpu")
    ],
)
