"""Plans over a day: the least cost of every window, the best sequence of plans, and the certified bound of the day."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from bench.fleet.solving import Solve, solved
from bench.judging.judge import judge
from bench.ledger.bound_scope import scope_of
from bench.ledger.row import Row
from bench.online.plan_switch import aligned
from bench.runner.listener import Listener
from bench.simulation.exchange import identity
from instances import InputError, Instance, Plan, PlanClass
from instances.costs import next_cost

RETRY_GAP, RETRY_TIME_FACTOR = 0.05, 2.0
"""Gap above which a window is solved once more, and the factor on its time limit."""

START_S = 60.0
"""Time in which a new process and the process that it replaces both run."""


@dataclass(frozen=True, slots=True)
class Window:
    """A window of the day.

    Attributes
    ----------
    best
        Cheapest known plan of the window.
    cost_per_hour, bound_per_hour
        Cost of this plan, and certified least cost, in dollars.
    chosen
        Plan that the day uses in this window. GPUs that stay in use keep their positions from the window before.
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
    """Plans of all windows of a day, and their cost.

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

    ``window_s`` is the length of a window, and ``time_limit_s`` the time limit of a window's first solve.

    Raises
    ------
    InputError
        If a window has no plan.
    """
    distinct = {instance.workloads: instance for instance in instances}
    cheapest = _cheapest_plans(list(distinct.values()), time_limit_s, listener)
    cheapest_by_rates = dict(zip(distinct, cheapest, strict=True))
    plans = [replace(cheapest_by_rates[instance.workloads].plan, instance=instance.name) for instance in instances]
    costs = [cheapest_by_rates[instance.workloads].cost for instance in instances]
    bounds = [cheapest_by_rates[instance.workloads].bound for instance in instances]
    hours = window_s / 3600.0
    usable = [_usable_plans(instance, plans, costs) for instance in instances]
    path = _cheapest_path(usable, instances[0], hours)
    windows, switching, before = [], 0.0, None
    for index, choice in enumerate(path):
        chosen = usable[index][choice]
        started, dollars = (0, 0.0) if before is None else _switch(before, chosen, instances[index])
        chosen = chosen if before is None else aligned(chosen, before)
        windows.append(Window(instances[index], plans[index], costs[index], bounds[index], chosen, started))
        switching, before = switching + dollars, chosen
    serving = math.fsum(judge(window.chosen, window.instance).cost_per_hour for window in windows) * hours
    return PlannedDay(
        tuple(windows),
        serving + switching,
        switching,
        math.fsum(bounds) * hours,
        max(costs) * hours * len(costs),
    )


@dataclass(frozen=True, slots=True)
class _CheapestPlan:
    """The cheapest known plan of a window, its cost per hour, and the certified least cost."""

    plan: Plan
    cost: float
    bound: float


def _cheapest_plans(
    instances: Sequence[Instance], time_limit_s: float, listener: Listener | None
) -> list[_CheapestPlan]:
    """Return the cheapest plan of every instance.

    If the gap is above ``RETRY_GAP`` and the pool has one GPU type, CP-SAT searches for a plan on as few GPUs as the
    bound permits. The bound rises if CP-SAT proves that there is no such plan in a class of plans that
    contains the class of the bound.
    """
    cheapest = []
    rows = solved([Solve(instance, time_limit_s=time_limit_s) for instance in instances], None, listener)
    for row, instance in zip(rows, instances, strict=True):
        plan = row.plan
        if plan is None or not row.feasible or row.cost_per_hour is None:
            raise InputError(instance.name, f"no plan was found: {row.reason or row.termination}")
        certified = row.bound if row.bound is not None and row.bound_certified else 0.0
        bound = min(next_cost(certified, instance), row.cost_per_hour)
        cheapest.append(_CheapestPlan(plan, row.cost_per_hour, bound))
    retries = [
        (position, max(1, round(planned.bound / instance.gpus[0].type.price_per_hour)))
        for position, (planned, instance) in enumerate(zip(cheapest, instances, strict=True))
        if planned.bound < (1.0 - RETRY_GAP) * planned.cost and len(instance.gpus) == 1
    ]
    restricted = [_on_gpus(instances[position], count) for position, count in retries]
    retry_rows = solved(
        [Solve(instance, "cpsat", RETRY_TIME_FACTOR * time_limit_s) for instance in restricted], None, listener
    )
    for (position, count), row in zip(retries, retry_rows, strict=True):
        plan, previous = row.plan, cheapest[position]
        price = instances[position].gpus[0].type.price_per_hour
        if plan is not None and row.feasible and row.cost_per_hour is not None and row.cost_per_hour < previous.cost:
            cheapest[position] = _CheapestPlan(plan, row.cost_per_hour, min(previous.bound, row.cost_per_hour))
        elif row.status == "infeasible" and _class_of(row).contains(_class_of(rows[position])):
            cheapest[position] = replace(previous, bound=min(price * (count + 1), previous.cost))
    return cheapest


def _class_of(row: Row) -> PlanClass:
    """Return the class of plans to which the claims of a row apply."""
    return scope_of(row).plan_class


def _on_gpus(instance: Instance, count: int) -> Instance:
    (pool,) = instance.gpus
    return replace(instance, gpus=(replace(pool, count=count),))


def _usable_plans(instance: Instance, plans: Sequence[Plan], costs: Sequence[float]) -> dict[int, Plan]:
    """Return the plans that serve a window, its own plan included, by the index of the window of each plan."""
    own_window = next(i for i, plan in enumerate(plans) if plan.instance == instance.name)
    usable = {own_window: plans[own_window]}
    for window, plan in enumerate(plans):
        is_duplicate = any(plan.gpus == plans[earlier].gpus for earlier in usable)
        # Plans of at least twice the cost are left out: they cost more than the switches that they avoid.
        if not is_duplicate and costs[own_window] <= costs[window] < 2.0 * costs[own_window]:
            adapted = _at_rates_of(plan, instance)
            if judge(adapted, instance).feasible:
                usable[window] = adapted
    return usable


def _at_rates_of(plan: Plan, instance: Instance) -> Plan:
    """Return a plan that serves the rates of ``instance``: the rates of a workload's slots change by one factor."""
    planned_rps: dict[str, float] = {}
    for _, _, slot in plan.slots():
        planned_rps[slot.workload] = planned_rps.get(slot.workload, 0.0) + slot.rate_rps
    factor = {
        workload.id: workload.rate_rps / planned_rps[workload.id]
        for workload in instance.workloads
        if workload.id in planned_rps
    }
    return replace(plan.scaled(factor), instance=instance.name)


def _cheapest_path(usable: Sequence[dict[int, Plan]], instance: Instance, hours: float) -> list[int]:
    """Return, for every window, the key of the usable plan with which serving and switching cost least over the day."""

    def serving(plan: Plan) -> float:
        return hours * instance.cost_per_hour(plan.gpus)

    totals = [{choice: serving(plan) for choice, plan in usable[0].items()}]
    origins: list[dict[int, int]] = [{}]
    for before, current in pairwise(usable):
        total_of, origin_of = {}, {}
        for choice, plan in current.items():
            costs = {
                earlier: totals[-1][earlier] + (0.0 if earlier == choice else _switch(earlier_plan, plan, instance)[1])
                for earlier, earlier_plan in before.items()
            }
            origin_of[choice] = min(costs, key=lambda earlier, costs=costs: costs[earlier])  # type: ignore[misc]
            total_of[choice] = costs[origin_of[choice]] + serving(plan)
        totals.append(total_of)
        origins.append(origin_of)
    last = min(totals[-1], key=lambda choice: totals[-1][choice])
    path = [last]
    for origin_of in reversed(origins[1:]):
        path.append(origin_of[path[-1]])
    return path[::-1]


def _switch(before: Plan, after: Plan, instance: Instance) -> tuple[int, float]:
    """Return the number of processes to start, and the dollars of their shares while both plans run."""
    types = {pool.type.name: pool.type for pool in instance.gpus}
    started, dollars = 0, 0.0
    for position, gpu in enumerate(aligned(after, before).gpus):
        running = [identity(gpulet) for gpulet in before.gpus[position].gpulets] if position < len(before.gpus) else []
        for gpulet in gpu.gpulets:
            if identity(gpulet) in running:
                running.remove(identity(gpulet))
                continue
            started += 1
            gpu_type = types[gpu.type]
            dollars += gpu_type.price_per_hour * gpulet.share_units / gpu_type.share_units * START_S / 3600.0
    return started, dollars
