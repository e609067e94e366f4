"""Distance of plans from the optimum: certified bounds, proven optima, and size limits of proofs."""

from dataclasses import replace

from bench.ledger.bound_scope import claim_in_words
from bench.ledger.gap import gaps
from bench.ledger.row import Row
from reports.claim import Query, QueryTable, duration, query
from reports.need import Need
from reports.papers.gpulet_schedulers import elastic, ideal
from reports.papers.igniter_plans import IGNITER
from reports.papers.optimum import SCALING as SCALING_NEEDS
from reports.quantities import certified_bound, proven_gpus, size_of
from reports.runs import Runs, the_instance
from reports.selection import instances_of

_SPATIAL = ("colgen.plan_class=spatial",)
LARGE = {
    "64gpu-cost": 30_000_000,
    "64gpu-pool": 30_000_000,
    "64gpu-capacity": 30_000_000,
    "64gpu-goodput": 30_000_000,
    "igniter-mix-1000-s0": 100_000_000,
}
"""Work limit of column generation by instance. Local search needs none: its number of rounds is limited."""

_SPLIT_WORK, _TURNS_WORK = 5_000_000, 15_000_000

_GENEROUS_S, _PATIENT_S = 900.0, 3_600.0
"""Time limits, the second for the largest instance. Work limits and rounds end every run before then."""


def on_large(scheduler: str, instance: str) -> Need:
    """Return the ``Need`` of one run: a scheduler on one of the instances of ``LARGE``."""
    parameters = {"colgen": _SPATIAL, "igniter": IGNITER}.get(scheduler, ())
    if scheduler == "igniter":
        return Need(instance, (scheduler,), parameters=parameters)
    limit_s = _PATIENT_S if LARGE[instance] > LARGE["64gpu-cost"] else _GENEROUS_S
    work = LARGE[instance] if scheduler == "colgen" else None
    return Need(instance, (scheduler,), parameters=parameters, time_limit_s=limit_s, work_limit=work)


def value(row: Row) -> str:
    """Return the value of a run's plan (GPUs under ``cost``), with the number of violations if it has any."""
    if row.value is None:
        return "no plan"
    worth = f"{row.gpus_used} GPUs" if row.objective == "cost" else _worth(row, row.value)
    return worth if row.feasible else f"{worth}, {row.violations} violations"


def bound(row: Row) -> str:
    """Return a run's certified bound (whole GPUs under ``cost``), or "none"."""
    certified = certified_bound(row)
    if certified is None:
        return "none"
    return f"≥ {proven_gpus(row)} GPUs" if row.objective == "cost" else f"≤ {_worth(row, certified)}"


def gap(row: Row, bounding: Row) -> str:
    """Return the gap of the plan of ``row`` to the certified bound of ``bounding``."""
    found = gaps([row], [bounding], the_instance(row.instance))[row.key].gap
    return "–" if found is None else f"{100.0 * found:.1f} %"


def _worth(row: Row, number: float) -> str:
    return f"{number:.3f}" if row.objective == "scale" else f"{number:,.0f} req/s"


def _after(row: Row) -> str:
    return f" ({duration(row.decision_s)})"


@query
def _colgen(runs: Runs, need: Need) -> str:
    row = runs.row(need)
    claim = f", {claim_in_words(row)}" if row.status == "optimal" else ""
    return f"{value(row)}{_after(row)}{claim}"


def _large_line(instance: str) -> tuple[str | Query, ...]:
    plain, search, exact = (on_large(scheduler, instance) for scheduler in ("igniter", "local-search", "colgen"))
    return (
        instance,
        lambda runs: value(runs.row(plain)),
        lambda runs: f"{value(runs.row(search))}{_after(runs.row(search))}",
        _colgen(exact),
        lambda runs: bound(runs.row(exact)),
        *(lambda runs, need=need: gap(runs.row(need), runs.row(exact)) for need in (plain, search, exact)),
    )


GAPS = QueryTable(
    (
        "instance",
        "igniter",
        "local-search",
        "colgen",
        "certified bound",
        "gap of igniter",
        "gap of local-search",
        "gap of colgen",
    ),
    [_large_line(instance) for instance in LARGE],
)


def _class_line(instance: str, plan_class: str) -> tuple[str | Query, ...]:
    need = Need(
        instance,
        ("colgen",),
        parameters=(f"colgen.plan_class={plan_class}",),
        time_limit_s=_GENEROUS_S,
        work_limit=_CLASS_WORK[plan_class],
    )
    return instance, plan_class, _colgen(need), lambda runs: bound(runs.row(need))


_CLASS_WORK = {"spatial": LARGE["64gpu-cost"], "split": _SPLIT_WORK}
CLASSES = QueryTable(
    ("instance", "plans", "best plan", "certified bound"),
    [_class_line(instance, kind) for instance in ("igniter-12", "64gpu-cost") for kind in _CLASS_WORK],
)


def _sizes() -> list[int]:
    return sorted({len(instance.workloads) for instance in instances_of(SCALING_NEEDS).values()})


@query
def _solved(runs: Runs, scheduler: str, size: int) -> str:
    (asked,) = [need for need in SCALING_NEEDS if need.schedulers == (scheduler,)]
    need = replace(asked, parameters=_SPATIAL if scheduler == "colgen" else ())
    rows = [row for row in runs.rows(need) if size_of(row) == size]
    proven = [row for row in rows if row.status == "optimal"]
    longest = max((row.decision_s for row in proven if row.decision_s is not None), default=None)
    return f"{len(proven)} of {len(rows)}{'' if longest is None else f' ({duration(longest)})'}"


SCALING = QueryTable(
    ("workloads", "cpsat", "colgen"),
    [(str(size), _solved("cpsat", size), _solved("colgen", size)) for size in _sizes()],
)

_TURNS = ("scen1", "scen2", "scen3", "scen4", "scen5", "equal", "long-only", "short-skew", "game", "traffic")


def _turns_line(instance: str) -> tuple[str | Query, ...]:
    once, twice = (elastic(instance, "atc22", interference=True, second_pass=again) for again in (False, True))
    best = ideal(instance)
    exact = Need(
        instance,
        ("colgen",),
        parameters=("colgen.plan_class=spatio-temporal",),
        time_limit_s=_GENEROUS_S,
        work_limit=_TURNS_WORK,
    )
    return (
        instance,
        lambda runs: value(runs.row(once)),
        lambda runs: value(runs.row(twice)),
        lambda runs: f"{value(runs.row(best))}{_after(runs.row(best))}",
        lambda runs: value(runs.row(exact)),
        lambda runs: f"{bound(runs.row(exact))}{_after(runs.row(exact))}",
        *(lambda runs, need=need: gap(runs.row(need), runs.row(exact)) for need in (once, twice, best, exact)),
    )


PLANS_IN_TURNS = QueryTable(
    (
        "instance",
        "elastic-partitioning",
        "second pass",
        "ideal",
        "colgen",
        "certified bound",
        "gap of elastic-partitioning",
        "gap of second pass",
        "gap of ideal",
        "gap of colgen",
    ),
    [_turns_line(f"gpulet-{name}") for name in _TURNS],
)
