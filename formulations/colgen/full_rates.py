"""Plans that serve each workload at its full rate, or under ``goodput`` not at all; and a bound before any budget.

Such a plan takes a fraction of the time of a run. Under ``goodput`` there are twenty times as many choices with lower
rates. If budgets depend on the share, the budgets of all batches may take longer than the run; here only the leanest
batches are tried. Under ``goodput`` such a plan is optimal if it serves every workload.
"""

import math
from dataclasses import replace

import numpy as np

from bench.api import Bound, Duals, Run
from formulations.colgen.clock import now
from formulations.colgen.column_generation import cost_bound
from formulations.colgen.spatial.packing import FIRST_FRACTION, FIRST_STALLED, run_rounds
from instances import Instance, Objective, Plan, PlanClass
from instances.configurations import BATCHES_TRIED, Rates, lean_configurations
from instances.leanest_batches import each_batch, leanest_shares
from instances.ruin_recreate.problem import PackingProblem
from instances.ruin_recreate.search import PackingSearch
from instances.view import View

BATCHES = (1, BATCHES_TRIED)
"""Numbers of batches of a workload on a GPU type in the packings for ``cost``: the budgets of each batch take time."""


def bound_of_least_shares(instance: Instance) -> tuple[Bound, Duals] | None:
    """Return a bound for ``cost`` under a rule whose budgets depend on the share, and its duals.

    Each workload pays for the least share at which any of its batches meets the rule alone on a GPU, at the price of
    the cheapest GPU type for it. The shares on a GPU sum to at most 100 %, so no GPU is paid more than its price. The
    result is ``None`` if no GPU serves some workload alone at its full rate.
    """
    count = len(instance.workloads)
    paid = np.full(count, np.inf)
    for view in (View.of(instance, pool.type) for pool in instance.gpus):
        workload, batch = each_batch(view.tables.max_batch[view.model])
        fits = view.tables.memory_mib[view.model[workload], batch] <= view.tables.memory_limit_mib
        workload, batch = workload[fits], batch[fits]
        units = leanest_shares(view, workload, workload, batch, view.rate_rps[workload], 1)
        share = np.where(units <= view.tables.share_units, units / view.tables.share_units, np.inf)
        np.minimum.at(paid, workload, share * view.gpu.price_per_hour)
    if not np.isfinite(paid).all():
        return None
    price = np.array([pool.type.price_per_hour for pool in instance.gpus])
    most = np.array([np.inf if pool.count is None else pool.count for pool in instance.gpus])
    value = cost_bound(paid, np.ones(count), price, price, most)
    return Bound(value, True, plan_class=PlanClass.SPATIAL), Duals(tuple(paid.tolist()), tuple(price.tolist()))


def full_rate(rates: Rates) -> Rates:
    """Return only the largest of the rates."""
    largest = np.array([int(np.argmax(rates.rate_rps))])
    return Rates(rates.rate_rps[largest], rates.step[largest])


def packed_by_few_batches(instance: Instance, run: Run) -> Plan | None:
    """Return the cheaper plan of packings for ``cost`` with one and with several batches, each reported at once.

    The second packing is left out if the first one takes long. For ``None``, see ``packed_at_full_rates``.
    """
    best, least_cost = None, math.inf
    for batches in BATCHES:
        began = now()
        plan = packed_at_full_rates(instance, run, batches)
        if plan is None:
            break
        cost = instance.cost_per_hour(plan.gpus)
        if cost < least_cost:
            best, least_cost = plan, cost
            run.report(plan)
        if now() - began > FIRST_FRACTION * run.remaining_s:
            break
    return best


def packed_at_full_rates(instance: Instance, run: Run, batches: int = BATCHES_TRIED) -> Plan | None:
    """Return a plan for ``goodput`` by ruin and recreate, or the first packing for ``cost``, with few batches each.

    The result is ``None`` if the time is over, or if a workload is left under ``cost``.
    """
    if run.remaining_s <= 0.0:
        return None
    must_serve_all = instance.objective is Objective.COST
    until = now() + FIRST_FRACTION * run.remaining_s
    cost_instance = replace(instance, objective=Objective.COST)  # under cost, a configuration has the full rate
    views = [View.of(cost_instance, pool.type) for pool in instance.gpus]
    workloads, rate_rps = np.arange(len(instance.workloads)), views[0].rate_rps
    by_type = [lean_configurations(view, workloads, rate_rps, batches=batches) for view in views]
    least = np.full(len(workloads), np.inf)
    for view, of_type in zip(views, by_type, strict=True):
        worth = view.gpu.price_per_hour if must_serve_all else 1.0
        np.minimum.at(least, of_type.item, worth * of_type.units / view.tables.share_units)
    servable = np.isfinite(least)
    if must_serve_all and not servable.all():
        return None
    weight, priority = (least, least) if must_serve_all else (rate_rps, np.where(servable, rate_rps / least, 0.0))
    limits = [len(workloads) if pool.count is None else min(pool.count, len(workloads)) for pool in instance.gpus]
    problem = PackingProblem.of(views, limits, by_type, weight, priority)
    search = PackingSearch(problem, np.random.default_rng(run.seed))
    search.build()
    if must_serve_all and search.waiting:
        return None
    loss, idle = search.loss, 0
    while loss > 0.0 and idle < FIRST_STALLED * len(workloads) and now() < until:
        done = run_rounds(search)
        idle = idle + max(done, 1) if search.loss == loss else 0
        loss = search.loss
    chosen = problem.configurations
    gpus = [
        views[pool].placed(chosen.workload[rows], units, chosen.batch[rows], chosen.rate_rps[rows])
        for pool, rows, units in search.gpus()
    ]
    return Plan(instance.name, tuple(gpus))


def serves_everything(instance: Instance, plan: Plan) -> bool:
    """Return whether a plan for ``goodput`` serves every workload at its full rate."""
    served_rps = {slot.workload: slot.rate_rps for _, _, slot in plan.slots()}
    return all(served_rps.get(workload.id, 0.0) >= workload.rate_rps for workload in instance.workloads)
