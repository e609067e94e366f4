"""Plans over a day: the least cost of every window, the best sequence of plans, and the certified bound of the day."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bench.fleet.solving import Solve, plan_of, solved
from bench.judging.judge import judge
from bench.ledger.bound_scope import scope_of
from bench.ledger.row import Row
from bench.online.plan_switch import aligned
from bench.runner.listener import Listener
from bench.simulation.exchange import identity
from instances import InputError, Instance, Plan, PlanClass
from instances.costs import next_cost

ENOUGH, LONGER = 0.05, 2.0
"""Gap above which a window is solved once more, and the factor on its time limit."""

START_S = 60.0
"""Time for which a started process and the one that it replaces both take their share."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window of the day.

    Attributes
    ----------
    best
        Its cheapest known plan.
    cost_per_hour, bound_per_hour
        Cost of this plan, and certified least cost, in dollars.
    chosen
        Plan of the sequence, at the positions of the GPUs of the plan before.
    started
        Processes that start when the window begins.
    """

    instance: Instance
    best: Plan
    cost_per_hour: float
    bound_per_hour: float
    chosen: Plan
    started: int


@dataclass(frozen=True, slots=True)
class PlannedDay:
    """A sequence of plans.

    Attributes
    ----------
    cost, switching
        Dollars of the whole day, switching included, and of switching alone.
    bound
        Certified least dollars of the day, without switching.
    constant
        Dollars of a day on the GPUs of the dearest window.
    """

    windows: tuple[Window, ...]
    cost: float
    switching: float
    bound: float
    constant: float


def planned_day(
    instances: Sequence[Instance], window_s: float, time_limit_s: float, listener: Listener | None = None
) -> PlannedDay:
    """Solve every window and choose the cheapest sequence among the windows' plans.

    ``window_s`` is the length of a window, and ``time_limit_s`` the limit of its first solve.

    Raises
    ------
    InputError
        If a window has no plan.
    """
    distinct = {each.workloads: each for each in instances}
    best = _least(list(distinct.values()), time_limit_s, listener)
    by_rates = dict(zip(distinct, best, strict=True))
    plans = [replace(by_rates[each.workloads].plan, instance=each.name) for each in instances]
    costs = [by_rates[each.workloads].cost for each in instances]
    bounds = [by_rates[each.workloads].bound for each in instances]
    hours = window_s / 3600.0
    usable = [_usable(instance, plans, costs) for instance in instances]
    path = _cheapest_path(usable, instances[0], hours)
    windows, switching, before = [], 0.0, None
    for w, choice in enumerate(path):
        chosen = usable[w][choice]
        started, dollars = (0, 0.0) if before is None else _switch(before, chosen, instances[w])
        chosen = chosen if before is None else aligned(chosen, before)
        windows.append(Window(instances[w], plans[w], costs[w], bounds[w], chosen, started))
        switching, before = switching + dollars, chosen
    serving = math.fsum(judge(each.chosen, each.instance).cost_per_hour for each in windows) * hours
    return PlannedDay(
        tuple(windows),
        serving + switching,
        switching,
        math.fsum(bounds) * hours,
        max(costs) * hours * len(costs),
    )


@dataclass(frozen=True, slots=True)
class _Least:
    """The cheapest known plan of a window, its cost per hour, and the certified least cost."""

    plan: Plan
    cost: float
    bound: float


def _least(instances: Sequence[Instance], time_limit_s: float, listener: Listener | None) -> list[_Least]:
    """Return the cheapest plan of every instance.

    If the gap stays open on a pool of one GPU type, CP-SAT searches for a plan on the least number of GPUs that is not
    excluded. That there is none counts only if CP-SAT's class of plans contains that of the bound.
    """
    found = []
    rows = solved([Solve(each, time_limit_s=time_limit_s) for each in instances], None, listener)
    for row, instance in zip(rows, instances, strict=True):
        plan = plan_of(row)
        if plan is None or not row.feasible or row.cost_per_hour is None:
            raise InputError(instance.name, f"no plan was found: {row.reason or row.termination}")
        certified = row.bound if row.bound is not None and row.bound_certified else 0.0
        bound = min(next_cost(certified, instance), row.cost_per_hour)
        found.append(_Least(plan, row.cost_per_hour, bound))
    open_ = [
        (position, max(1, round(each.bound / instance.gpus[0].type.price_per_hour)))
        for position, (each, instance) in enumerate(zip(found, instances, strict=True))
        if each.bound < (1.0 - ENOUGH) * each.cost and len(instance.gpus) == 1
    ]
    few = [_with_count(instances[position], count) for position, count in open_]
    tried = solved([Solve(each, "cpsat", LONGER * time_limit_s) for each in few], None, listener)
    for (position, count), row in zip(open_, tried, strict=True):
        plan, known = plan_of(row), found[position]
        price = instances[position].gpus[0].type.price_per_hour
        if plan is not None and row.feasible and row.cost_per_hour is not None and row.cost_per_hour < known.cost:
            found[position] = _Least(plan, row.cost_per_hour, min(known.bound, row.cost_per_hour))
        elif row.status == "infeasible" and _class_of(row).contains(_class_of(rows[position])):
            found[position] = replace(known, bound=min(price * (count + 1), known.cost))
    return found


def _class_of(row: Row) -> PlanClass:
    """Return the class of plans that the claims of a row are about."""
    return scope_of(row).plan_class


def _with_count(instance: Instance, count: int) -> Instance:
    (pool,) = instance.gpus
    return replace(instance, gpus=(replace(pool, count=count),))


def _usable(instance: Instance, plans: Sequence[Plan], costs: Sequence[float]) -> dict[int, Plan]:
    """Return the plans that serve a window, by the window that they were made for; the window's own is always one."""
    own = next(i for i, plan in enumerate(plans) if plan.instance == instance.name)
    found = {own: plans[own]}
    for other, plan in enumerate(plans):
        # A plan for twice the cost never pays for the switches that it saves.
        known = any(plan.gpus == plans[each].gpus for each in found)
        if not known and costs[own] <= costs[other] < 2.0 * costs[own]:
            adapted = _at_rates_of(plan, instance)
            if judge(adapted, instance).feasible:
                found[other] = adapted
    return found


def _at_rates_of(plan: Plan, instance: Instance) -> Plan:
    """Return a plan that serves the rates of ``instance``, each slot in proportion."""
    planned: dict[str, float] = {}
    for _, _, slot in plan.slots():
        planned[slot.workload] = planned.get(slot.workload, 0.0) + slot.rate_rps
    factor = {w.id: w.rate_rps / planned[w.id] for w in instance.workloads if w.id in planned}
    return replace(plan.scaled(factor), instance=instance.name)


def _cheapest_path(usable: Sequence[dict[int, Plan]], instance: Instance, hours: float) -> list[int]:
    """Return the plan of every window that minimises the cost with switching, by dynamic programming."""

    def serving(plan: Plan) -> float:
        return hours * instance.cost_per_hour(plan.gpus)

    totals = [{choice: serving(plan) for choice, plan in usable[0].items()}]
    came: list[dict[int, int]] = [{}]
    for before, now in pairwise(usable):
        total, origin = {}, {}
        for choice, plan in now.items():
            found = {
                earlier: totals[-1][earlier] + (0.0 if earlier == choice else _switch(there, plan, instance)[1])
                for earlier, there in before.items()
            }
            origin[choice] = min(found, key=lambda earlier, found=found: found[earlier])  # type: ignore[misc]
            total[choice] = found[origin[choice]] + serving(plan)
        totals.append(total)
        came.append(origin)
    last = min(totals[-1], key=lambda choice: totals[-1][choice])
    path = [last]
    for origin in reversed(came[1:]):
        path.append(origin[path[-1]])
    return path[::-1]


def _switch(before: Plan, after: Plan, instance: Instance) -> tuple[int, float]:
    """Return the number of processes to start, and the dollars of their shares while both plans run."""
    types = {pool.type.name: pool.type for pool in instance.gpus}
    started, dollars = 0, 0.0
    for position, gpu in enumerate(aligned(after, before).gpus):
        there = [identity(one) for one in before.gpus[position].gpulets] if position < len(before.gpus) else []
        for one in gpu.gpulets:
            if identity(one) in there:
                there.remove(identity(one))
                continue
            started += 1
            kind = types[gpu.type]
            dollars += kind.price_per_hour * one.share_units / kind.share_units * START_S / 3600.0
    return started, dollars
