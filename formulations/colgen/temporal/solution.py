"""Run of column generation for plans whose slots may take turns: the bound, plans, and the closing of the gap."""

import math

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.claims import excludes_every_plan
from formulations.colgen.clock import now, subproblem_run, work_done
from formulations.colgen.temporal.closing import can_list, close
from formulations.colgen.temporal.generation import OBJECTIVES, TemporalGeneration
from formulations.colgen.temporal.gpulet_positions import SLOTS
from formulations.colgen.temporal.search import PlanSearch
from formulations.problem import TOO_FEW
from instances import Instance, Objective, Plan, PlanClass, SloRule
from instances.continuous import CONTINUOUS

BOUND_TIME_FRACTION = 0.6
"""Fraction of the time in which column generation computes the bound."""

PLAN_TIME_FRACTION = 0.3
"""Fraction of the remaining time for the search for plans, if an enumeration on grids can close the gap afterwards."""

LONG_PLAN_TIME_FRACTION = 0.8
"""Fraction of the remaining time for the search for plans, if no enumeration on grids can follow."""


def turns_obstacle(instance: Instance, plan_class: PlanClass = PlanClass.SPATIO_TEMPORAL) -> str:
    """Return the reason why ``solve_in_turns`` does not apply to an instance; empty if it does."""
    unknown, rule = f"no bound on {plan_class} plans is known", instance.slo_rule
    if instance.objective not in OBJECTIVES:
        return f"{unknown} for {instance.objective}"
    if rule.by_share:
        return f"{unknown} for {instance.objective} under {rule}"
    if instance.services:
        return f"{unknown} under {CONTINUOUS}: decoding cannot take turns"
    if rule is SloRule.P99:
        return f"{unknown} under p99: the rate that a gpulet can serve is known by simulation only"
    if instance.objective is not Objective.COST and any(pool.count is None for pool in instance.gpus):
        return f"{instance.objective} needs a number of GPUs for every type of the pool"
    return ""


def solve_in_turns(instance: Instance, run: Run, plan_class: PlanClass, known_plan: Plan | None = None) -> Outcome:
    """Solve for plans with up to three slots per gpulet and any number of gpulets per workload.

    Parameters
    ----------
    instance
        Instance for which ``turns_obstacle`` returns no reason.
    plan_class
        ``spatio-temporal``, or ``split`` for one slot per gpulet.
    known_plan
        Feasible plan of a narrower class. The search also uses the run's start plan, which may be infeasible.
    """
    slots = 1 if plan_class is PlanClass.SPLIT else SLOTS
    if not instance.workloads:
        return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, True, plan_class=plan_class))
    generation = TemporalGeneration(instance, run, slots)
    unservable = [] if instance.objective is Objective.GOODPUT else generation.unservable()
    if unservable:
        workload = instance.workloads[unservable[0]]
        return Outcome(
            Status.INFEASIBLE, reason=f"{workload.id}: no GPU of the pool serves {workload.model} at any rate"
        )
    search = PlanSearch(generation)
    for plan in (run.start, known_plan):
        if plan is not None:
            search.add_plan(plan, feasible=plan is known_plan)
    generation.columns = [column for column, _ in search.known_contents.values()]
    generation.run = subproblem_run(run, now() + BOUND_TIME_FRACTION * run.remaining_s)
    generation.solve(lambda: run.report(bound=_bound(generation, plan_class)))
    generation.run = run
    if excludes_every_plan(generation.bound, instance):
        return Outcome(Status.INFEASIBLE, statistics=_statistics(search), reason=TOO_FEW)
    plan_time_fraction = PLAN_TIME_FRACTION if can_list(generation) else LONG_PLAN_TIME_FRACTION
    search.solve(now() + plan_time_fraction * run.remaining_s)
    if not search.proven() and run.remaining_s > 0.0:
        close(search)
        run.report(bound=_bound(generation, plan_class))
        if excludes_every_plan(generation.bound, instance):
            return Outcome(Status.INFEASIBLE, statistics=_statistics(search), reason=TOO_FEW)
    plan = search.plan or run.start or known_plan
    status = Status.UNKNOWN
    if plan is not None:
        status = Status.OPTIMAL if search.proven() else Status.FEASIBLE
    return Outcome(status, plan, _bound(generation, plan_class), _statistics(search))


def _statistics(search: PlanSearch) -> dict[str, float]:
    generation = search.generation
    return {
        "iterations": float(generation.iterations),
        "relaxed_contents": float(len(generation.columns)),
        "contents": float(len(search.known_contents)),
        "work": work_done(),
    }


def _bound(generation: TemporalGeneration, plan_class: PlanClass) -> Bound | None:
    value = generation.bound
    return (
        Bound(value, True, plan_class=plan_class, slots_per_gpulet=generation.slots) if math.isfinite(value) else None
    )
