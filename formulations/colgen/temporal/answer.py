"""Outcome of ``colgen`` for the class ``spatio-temporal``: a certified bound without a plan of its own."""

import math

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.temporal.relaxation import RELAXATIONS, TemporalRelaxation
from formulations.colgen.temporal.turns import SLOTS
from formulations.problem import TOO_FEW
from instances import Instance, Objective, Plan, PlanClass, SloRule

BOUND_ONLY = "colgen computes only a bound on plans that take turns; colgen@NAME passes on the plan of NAME"


def turns_obstacle(instance: Instance) -> str:
    """Return the reason why no bound on plans that take turns is available; empty if one is."""
    if instance.objective not in RELAXATIONS:
        return f"{instance.objective} has no bound on plans that take turns"
    if instance.slo_rule is SloRule.P99:
        return "p99 has no bound on plans that take turns: the rate that a gpulet can serve is known by simulation only"
    if instance.objective is not Objective.COST and any(pool.count is None for pool in instance.gpus):
        return f"{instance.objective} needs a number of GPUs for every type of the pool"
    return ""


def bound_on_turns(instance: Instance, run: Run) -> Outcome:
    """Bound the value of plans with up to three slots per gpulet and any number of gpulets per workload.

    A given start plan is returned as the plan.

    Parameters
    ----------
    instance
        Instance for which ``turns_obstacle`` returns no reason.
    run
        Limits of the run.
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
    """Return the price of all GPUs of the pool; infinite if some type has no limit."""
    return math.fsum(
        pool.type.price_per_hour * (math.inf if pool.count is None else pool.count) for pool in instance.gpus
    )
