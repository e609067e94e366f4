"""Answer of ``colgen`` for the class ``spatio-temporal``: a certified bound, and no plan of its own."""

import math

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.temporal.relaxation import RELAXATIONS, TemporalRelaxation
from formulations.colgen.temporal.turns import SLOTS
from formulations.problem import TOO_FEW
from instances import Instance, Objective, Plan, PlanClass, SloRule

BOUND_ONLY = "plans that take turns are bounded, not looked for; colgen@NAME hands on the plan of NAME"


def turns_obstacle(instance: Instance) -> str:
    """Say why there is no bound on plans that take turns; empty if nothing speaks against one."""
    if instance.objective not in RELAXATIONS:
        return f"{instance.objective} has no bound on plans that take turns"
    if instance.slo_rule is SloRule.P99:
        return "p99 has no bound on plans that take turns: how much a gpulet serves is known by simulation only"
    if instance.objective is not Objective.COST and any(pool.count is None for pool in instance.gpus):
        return f"{instance.objective} needs a pool with a number of GPUs"
    return ""


def bound_on_turns(instance: Instance, run: Run) -> Outcome:
    """Bound what plans can be worth whose gpulets hold up to three slots and whose workloads are in many of them.

    A plan that was handed over is handed on.

    Parameters
    ----------
    instance
        With nothing in ``turns_obstacle``'s way.
    run
        Its terms.
    """
    if not instance.workloads:
        return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, True, PlanClass.SPATIO_TEMPORAL))
    relaxation = RELAXATIONS[instance.objective](instance, run)
    unservable = relaxation.unservable() if instance.objective is Objective.COST else []
    if unservable:
        asked = instance.workloads[unservable[0]]
        return Outcome(Status.INFEASIBLE, reason=f"{asked.id}: no GPU of the pool serves {asked.model} at any rate")
    relaxation.solve(lambda: run.report(bound=_bound(relaxation)))
    statistics = {"iterations": float(relaxation.iterations), "contents": float(len(relaxation.contents))}
    if instance.objective is Objective.COST and relaxation.bound > _whole_pool(instance) * (1.0 + 1e-9):
        return Outcome(Status.INFEASIBLE, statistics=statistics, reason=TOO_FEW)
    bound = _bound(relaxation)
    if run.start is None:
        return Outcome(Status.UNKNOWN, None, bound, statistics, BOUND_ONLY)
    return Outcome(Status.FEASIBLE, run.start, bound, statistics)


def _bound(relaxation: TemporalRelaxation) -> Bound | None:
    value = relaxation.bound
    return Bound(value, True, PlanClass.SPATIO_TEMPORAL, slots_per_gpulet=SLOTS) if math.isfinite(value) else None


def _whole_pool(instance: Instance) -> float:
    """Price of all GPUs of the pool, infinite if any type has no limit."""
    return math.fsum(
        pool.type.price_per_hour * (math.inf if pool.count is None else pool.count) for pool in instance.gpus
    )
