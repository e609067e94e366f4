"""Services on GPUs that do not suffice: served rates, services turned away, and the benefit of one more GPU."""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, cast

from bench.api import Outcome, Run
from bench.fleet.answer import gpus_in_words
from bench.fleet.solving import scheduler
from bench.judging.judge import judge, planned_rps
from instances import PART_STEPS, GpuPool, Instance, Objective, Partition, Plan, Workload
from instances.compiled import CompilationTime, compilation_time


@dataclass(frozen=True, slots=True)
class Preferences:
    """Importance of the services, by id.

    Attributes
    ----------
    weight
        Value of a served request; 1 for a service that is not listed.
    priority
        Services of a larger priority are served first; 0 for a service that is not listed.
    """

    weight: Mapping[str, float] = field(default_factory=dict)
    priority: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PriorityStage:
    """Services of one priority, and how much of their weighted rate is served and can be served.

    Attributes
    ----------
    weighted_rps, bound_rps
        Sum of weight times served rate, and a certified upper bound on it, given the rates of the earlier stages;
        requests per second.
    scope
        Plans to which the bound applies, in words.
    """

    priority: int
    weighted_rps: float
    bound_rps: float
    scope: str


@dataclass(frozen=True, slots=True)
class Budgeted:
    """Plan for GPUs that do not suffice.

    Attributes
    ----------
    instance
        The served services at their served rates.
    served_rps
        Served rate of every service, 0 for a service that is turned away.
    stages
        One stage for each priority, the largest first.
    """

    plan: Plan
    instance: Instance
    served_rps: Mapping[str, float]
    stages: Sequence[PriorityStage]


@dataclass(frozen=True, slots=True)
class OneMoreGpu:
    """GPU type whose addition helps most, and the plan with it."""

    gpu_type: str
    budgeted: Budgeted


class _ValueScheduler(Protocol):
    """Scheduler that can serve the requests of the most value on a pool that does not suffice."""

    def most_valuable(self, instance: Instance, value: Sequence[float], whole: Sequence[str], run: Run) -> Outcome: ...


def can_turn_away(instance: Instance) -> bool:
    """Return whether plans may serve a part of the requests: counted GPUs with shares, and no language models."""
    counted = all(pool.count is not None for pool in instance.gpus)
    return counted and instance.partition is Partition.SHARES and not instance.services


def within_budget(
    instance: Instance, preferences: Preferences, seconds: float, start: Plan | None = None
) -> Budgeted | None:
    """Return the plan that serves the most weighted rate of each priority in turn; ``None`` if none was found in time.

    A later stage keeps the rates that earlier stages serve, but may place them anew. The compilation of kernels, once
    per installation, does not count as time.

    Parameters
    ----------
    instance
        Instance with the objective ``cost`` whose GPUs all have counts.
    start
        Plan for fewer GPUs, if there is one.
    """
    with compilation_time() as compilation:
        return _within_budget(instance, preferences, seconds, start, compilation)


def _within_budget(
    instance: Instance, preferences: Preferences, seconds: float, start: Plan | None, compilation: CompilationTime
) -> Budgeted | None:
    """Return the answer of ``within_budget``; the time of compiling kernels does not count."""
    deadline = time.monotonic() + seconds
    priority_of = {workload.id: preferences.priority.get(workload.id, 0) for workload in instance.workloads}
    served_rps: dict[str, float] = {}
    stages: list[PriorityStage] = []
    plan = start
    priorities = sorted(set(priority_of.values()), reverse=True)
    for position, priority in enumerate(priorities):
        ids = [name for name, value in priority_of.items() if value == priority]
        limit_s = (deadline + compilation.seconds - time.monotonic()) / (len(priorities) - position)
        solved_stage = _solve_stage(instance, preferences, served_rps, ids, limit_s, plan)
        if solved_stage is None:
            return None
        plan, outcome_bound_rps, scope = solved_stage
        rates = planned_rps(plan)
        # The values in ``_solve_stage`` make every fixed service worth more than all of ``ids``; this is a safeguard.
        if any(not math.isclose(rates.get(name, 0.0), rate, rel_tol=1e-6) for name, rate in served_rps.items() if rate):
            return None
        served_rps |= {name: rates.get(name, 0.0) for name in ids}
        weighted_rps = math.fsum(preferences.weight.get(name, 1.0) * served_rps[name] for name in ids)
        stages.append(PriorityStage(priority, weighted_rps, max(weighted_rps, outcome_bound_rps), scope))
    assert plan is not None
    admitted = admitted_instance(instance, served_rps)
    return Budgeted(plan, admitted, served_rps, stages) if judge(plan, admitted).feasible else None


def admitted_instance(instance: Instance, served_rps: Mapping[str, float]) -> Instance:
    """Return the instance of the served services at their served rates."""
    workloads = tuple(
        replace(workload, rate_rps=served_rps[workload.id])
        for workload in instance.workloads
        if served_rps[workload.id]
    )
    return replace(instance, workloads=workloads)


def _solve_stage(
    instance: Instance,
    preferences: Preferences,
    fixed_rps: Mapping[str, float],
    ids: Sequence[str],
    seconds: float,
    start: Plan | None,
) -> tuple[Plan, float, str] | None:
    """Return a plan for the fixed services and ``ids``, an upper bound on the weighted rate of ``ids``, and its scope.

    The fixed services are those that earlier stages serve, at the rates ``fixed_rps``.
    """
    fixed = [name for name, rate in fixed_rps.items() if rate]
    rate_of = {workload.id: workload.rate_rps for workload in instance.workloads}
    weights = {name: preferences.weight.get(name, 1.0) for name in ids}
    most_weighted_rps = math.fsum(weight * rate_of[name] for name, weight in weights.items())
    # One step of a fixed service is worth more than all of ``ids`` together.
    value_of = {**{name: 1.01 * PART_STEPS * most_weighted_rps / fixed_rps[name] for name in fixed}, **weights}
    workloads = tuple(
        replace(workload, rate_rps=fixed_rps.get(workload.id, workload.rate_rps))
        for workload in instance.workloads
        if workload.id in value_of
    )
    stage_instance = replace(instance, objective=Objective.GOODPUT, workloads=workloads)
    values = [value_of[workload.id] for workload in workloads]
    colgen = cast(_ValueScheduler, scheduler("colgen"))
    run = Run(deadline=time.monotonic() + seconds, start=start)
    outcome = colgen.most_valuable(stage_instance, values, fixed, run)
    if outcome.plan is None:
        return None
    bound = most_weighted_rps
    scope = "spatial"
    if outcome.bound is not None and outcome.bound.certified:
        worth_of_fixed = math.fsum(value_of[name] * fixed_rps[name] for name in fixed)
        # The subtraction rounds by less than this fraction of the larger number.
        bound = min(most_weighted_rps, outcome.bound.value - worth_of_fixed + 1e-9 * worth_of_fixed)
        # Services are served in steps, so below the least one nothing is served.
        if bound < min(weight * rate_of[name] for name, weight in weights.items()) / PART_STEPS:
            bound = 0.0
        scope = str(outcome.bound.plan_class)
    return outcome.plan, bound, scope


def one_more_gpu(instance: Instance, preferences: Preferences, budgeted: Budgeted, seconds: float) -> OneMoreGpu | None:
    """Return the GPU type that helps most if one is added; ``None`` if no type was found to help in time."""
    best: OneMoreGpu | None = None
    for pool in instance.gpus:
        larger_pools = tuple(
            GpuPool(other.type, (other.count or 0) + 1) if other is pool else other for other in instance.gpus
        )
        with_one_more = within_budget(
            replace(instance, gpus=larger_pools), preferences, seconds / len(instance.gpus), budgeted.plan
        )
        best_so_far = best.budgeted if best else budgeted
        if with_one_more is not None and _comparable_rates(with_one_more) > _comparable_rates(best_so_far):
            best = OneMoreGpu(pool.type.name, with_one_more)
    return best


def _comparable_rates(budgeted: Budgeted) -> tuple[float, ...]:
    """Return the weighted rates of the stages, rounded so that equal rates compare as equal."""
    return tuple(round(stage.weighted_rps, 6) for stage in budgeted.stages)


def served_line(budgeted: Budgeted, instance: Instance) -> str:
    """Return the GPUs, their price, and the services that are served, those in part with their percentage."""
    whole, partly = [], []
    for workload in instance.workloads:
        served_pct = _served_pct(budgeted, workload)
        if served_pct > 99.99:
            whole.append(workload.id)
        elif served_pct > 0.0:
            partly.append(f"{workload.id} {served_pct:.0f} %")
    cost = instance.cost_per_hour(budgeted.plan.gpus)
    all_rps = math.fsum(workload.rate_rps for workload in instance.workloads)
    part = f"{math.fsum(budgeted.served_rps.values()):,.5g} of {all_rps:,.5g} req/s"
    in_full = f"in full {', '.join(whole)}" if whole else "nobody in full"
    return f"served: {part} on {gpus_in_words(budgeted.plan)} for ${cost:,.2f}/h: {'; '.join([in_full, *partly])}"


def turned_away_line(budgeted: Budgeted, instance: Instance) -> str:
    """Return the rates that are turned away."""
    away = []
    for workload in instance.workloads:
        missing_rps = workload.rate_rps - budgeted.served_rps[workload.id]
        if _served_pct(budgeted, workload) <= 99.99:
            everything = "all of its " if not budgeted.served_rps[workload.id] else ""
            away.append(f"{workload.id} {everything}{missing_rps:,.5g} req/s")
    return f"turned away: {', '.join(away) or 'nobody'}"


def one_more_line(one_more: OneMoreGpu | None, budgeted: Budgeted, instance: Instance) -> str:
    """Return the GPU type of which one more helps most, and what changes."""
    if one_more is None:
        return "one more GPU: of no type did one more serve more in the time allowed"
    changes = []
    for workload in instance.workloads:
        before, after = _served_pct(budgeted, workload), _served_pct(one_more.budgeted, workload)
        if abs(after - before) > 0.01:
            changes.append(f"{workload.id} {before:.0f} to {after:.0f} %")
    pool = instance.pool(one_more.gpu_type)
    price = "" if pool is None else f" (${pool.type.price_per_hour:,.2f}/h)"
    return f"one more GPU: a further {one_more.gpu_type}{price} helps most: {', '.join(changes)}"


def budget_proof_line(budgeted: Budgeted) -> str:
    """Return how much more weighted rate no plan of the class serves, for every priority."""
    proofs = []
    for stage in budgeted.stages:
        name = f"priority {stage.priority}: " if len(budgeted.stages) > 1 else ""
        if stage.bound_rps <= stage.weighted_rps * (1.0 + 1e-6):
            proofs.append(f"{name}no plan serves more")
            continue
        gap_pct = math.ceil(1e3 * (1.0 - stage.weighted_rps / stage.bound_rps)) / 10.0
        numbers = f"{stage.weighted_rps:,.5g} of at most {stage.bound_rps:,.5g} req/s"
        proofs.append(f"{name}within {gap_pct:.1f} % of the most that any plan can serve, {numbers}")
    classes = ", ".join(dict.fromkeys(stage.scope for stage in budgeted.stages))
    given = ", given the rates of higher priorities" if len(budgeted.stages) > 1 else ""
    return f"proven: {'; '.join(proofs)}, by weighted rate in the class {classes}{given}"


def _served_pct(budgeted: Budgeted, workload: Workload) -> float:
    return 100.0 * budgeted.served_rps[workload.id] / workload.rate_rps
