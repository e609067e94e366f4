"""Tables of the distance of plans from the optimum: certified bounds, proven optima, and proofs by instance size."""

from dataclasses import replace

from bench.ledger.bound_scope import claim_in_words
from bench.ledger.gap import gaps
from bench.ledger.row import Row
from reports.claim import Query, QueryTable, duration, query
from reports.need import Need
from reports.papers.gpulet_schedulers import elastic_need, ideal_need
from reports.papers.igniter_plans import IGNITER_PARAMETERS
from reports.papers.optimum import SCALING as SCALING_NEEDS
from reports.quantities import certified_bound, proven_gpus, workload_count
from reports.runs import Runs, the_instance
from reports.selection import instances_of

_SPATIAL = ("colgen.plan_class=spatial",)
WORK_LIMITS = {
    "64gpu-cost": 30_000_000,
    "64gpu-pool": 30_000_000,
    "64gpu-capacity": 30_000_000,
    "64gpu-goodput": 30_000_000,
    "igniter-mix-1000-s0": 100_000_000,
}
"""Work limit of column generation, by instance. The other searches end by their number of rounds."""

_SPLIT_WORK, _TURNS_WORK = 5_000_000, 15_000_000
"""Work limits of column generation for plans of the classes ``split`` and ``spatio-temporal``."""

_LONG_LIMIT_S, _LONGEST_LIMIT_S = 900.0, 3_600.0
"""Time limits in seconds; the longest is for the largest instance. Work limits or rounds always end the run first."""


def large_instance_need(scheduler: str, instance: str) -> Need:
    """Return the ``Need`` of one run: a scheduler on an instance of ``WORK_LIMITS``."""
    parameters = {"colgen": _SPATIAL, "igniter": IGNITER_PARAMETERS}.get(scheduler, ())
    if scheduler == "igniter":
        return Need(instance, (scheduler,), parameters=parameters)
    limit_s = _LONGEST_LIMIT_S if WORK_LIMITS[instance] > WORK_LIMITS["64gpu-cost"] else _LONG_LIMIT_S
    work = WORK_LIMITS[instance] if scheduler == "colgen" else None
    return Need(instance, (scheduler,), parameters=parameters, time_limit_s=limit_s, work_limit=work)


def plan_text(row: Row) -> str:
    """Return the value of a run's plan (GPUs under ``cost``), and the number of violations if there are any."""
    if row.value is None:
        return "no plan"
    text = f"{row.gpus_used} GPUs" if row.objective == "cost" else _value_text(row, row.value)
    return text if row.feasible else f"{text}, {row.violations} violations"


def bound_text(row: Row) -> str:
    """Return a run's certified bound (whole GPUs under ``cost``); "none" without a bound."""
    certified = certified_bound(row)
    if certified is None:
        return "none"
    return f"≥ {proven_gpus(row)} GPUs" if row.objective == "cost" else f"≤ {_value_text(row, certified)}"


def gap_text(row: Row, bounding: Row) -> str:
    """Return the gap of the plan of ``row`` to the certified bound of ``bounding``."""
    relative_gap = gaps([row], [bounding], the_instance(row.instance))[row.key].gap
    return "–" if relative_gap is None else f"{100.0 * relative_gap:.1f} %"


def _value_text(row: Row, number: float) -> str:
    return f"{number:.3f}" if row.objective == "scale" else f"{number:,.0f} req/s"


def _time_text(row: Row) -> str:
    return f" ({duration(row.decision_s)})"


@query
def _colgen_cell(runs: Runs, need: Need) -> str:
    row = runs.row(need)
    claim = f", {claim_in_words(row)}" if row.status == "optimal" else ""
    return f"{plan_text(row)}{_time_text(row)}{claim}"


@query
def _gap_cell(runs: Runs, need: Need, bounding: Need) -> str:
    """Return the plan of a run; in brackets its gap to a certified bound, or "optimal", and the decision time."""
    row = runs.row(need)
    distance = "optimal" if row.status == "optimal" else gap_text(row, runs.row(bounding))
    return f"{plan_text(row)} ({distance}, {duration(row.decision_s)})"


_LARGE_SCHEDULERS = ("igniter", "local-search", "ruin-recreate", "colgen")
"""Schedulers of ``GAPS``; ``colgen`` gives the bound."""


def _large_line(instance: str) -> tuple[str | Query, ...]:
    """Return the line of an instance in ``GAPS``."""
    needs = {scheduler: large_instance_need(scheduler, instance) for scheduler in _LARGE_SCHEDULERS}
    bounding = needs["colgen"]
    cells = [_gap_cell(need, bounding) for need in needs.values()]
    return instance, *cells, lambda runs: bound_text(runs.row(bounding))


GAPS = QueryTable(
    ("instance", *_LARGE_SCHEDULERS, "certified bound"),
    [_large_line(instance) for instance in WORK_LIMITS],
)


def _class_line(instance: str, plan_class: str) -> tuple[str | Query, ...]:
    """Return the line of an instance and a plan class in ``CLASSES``."""
    need = Need(
        instance,
        ("colgen",),
        parameters=(f"colgen.plan_class={plan_class}",),
        time_limit_s=_LONG_LIMIT_S,
        work_limit=_CLASS_WORK[plan_class],
    )
    return instance, plan_class, _colgen_cell(need), lambda runs: bound_text(runs.row(need))


_CLASS_WORK = {"spatial": WORK_LIMITS["64gpu-cost"], "split": _SPLIT_WORK}
CLASSES = QueryTable(
    ("instance", "plans", "best plan", "certified bound"),
    [_class_line(instance, kind) for instance in ("igniter-12", "64gpu-cost") for kind in _CLASS_WORK],
)


def _sizes() -> list[int]:
    return sorted({len(instance.workloads) for instance in instances_of(SCALING_NEEDS).values()})


@query
def _solved_cell(runs: Runs, scheduler: str, size: int) -> str:
    """Return the number of proven optima at a number of workloads, with the longest decision time of these runs."""
    (scheduler_need,) = [need for need in SCALING_NEEDS if need.schedulers == (scheduler,)]
    need = replace(scheduler_need, parameters=_SPATIAL if scheduler == "colgen" else ())
    rows = [row for row in runs.rows(need) if workload_count(row) == size]
    proven = [row for row in rows if row.status == "optimal"]
    longest = max((row.decision_s for row in proven if row.decision_s is not None), default=None)
    return f"{len(proven)} of {len(rows)}{'' if longest is None else f' ({duration(longest)})'}"


SCALING = QueryTable(
    ("workloads", "cpsat", "colgen"),
    [(str(size), _solved_cell("cpsat", size), _solved_cell("colgen", size)) for size in _sizes()],
)

_TURNS_INSTANCES = (
    *("scen1", "scen2", "scen3", "scen4", "scen5", "equal", "long-only", "short-skew", "game-table3", "traffic-table3"),
)
"""Instances of ``PLANS_IN_TURNS``, without the prefix of their names.

`gpulet-game` is left out: its plans put six LeNets on one gpulet, and the bounds hold for at most three slots.
"""


def _turns_line(instance: str) -> tuple[str | Query, ...]:
    """Return the line of an instance in ``PLANS_IN_TURNS``."""
    one_pass, two_passes = (
        elastic_need(instance, "atc22", interference=True, second_pass=second_pass) for second_pass in (False, True)
    )
    ideal_scheduler_need = ideal_need(instance)
    colgen_need = Need(
        instance,
        ("colgen",),
        parameters=("colgen.plan_class=spatio-temporal",),
        time_limit_s=_LONG_LIMIT_S,
        work_limit=_TURNS_WORK,
    )
    return (
        instance,
        lambda runs: plan_text(runs.row(one_pass)),
        lambda runs: plan_text(runs.row(two_passes)),
        lambda runs: f"{plan_text(runs.row(ideal_scheduler_need))}{_time_text(runs.row(ideal_scheduler_need))}",
        lambda runs: plan_text(runs.row(colgen_need)),
        lambda runs: f"{bound_text(runs.row(colgen_need))}{_time_text(runs.row(colgen_need))}",
        *(
            lambda runs, need=need: gap_text(runs.row(need), runs.row(colgen_need))
            for need in (one_pass, two_passes, ideal_scheduler_need, colgen_need)
        ),
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
    [_turns_line(f"gpulet-{name}") for name in _TURNS_INSTANCES],
)
