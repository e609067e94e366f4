"""Bound from the workloads alone: each at its best configuration on any GPU type, without neighbours.

The bound holds for every plan: neighbours never shorten a batch, and the shares on a GPU sum to at most the whole GPU.
"""

from bench.api import Bound
from formulations.problem import Offer, Problem
from formulations.rounding import sum_rounded_down, sum_rounded_up
from instances import Objective
from instances.costs import next_cost


def bound_alone(problem: Problem) -> Bound:
    """Return a certified bound on the objective of every plan, without search."""
    objective = problem.instance.objective
    terms = []
    for workload in range(len(problem.rates)):
        values = [
            _best_alone(objective, offer, workload)
            for offer in problem.offers
            if offer.configurations[workload].size and offer.count
        ]
        if values:
            terms.append(min(values) if objective.minimised else max(values))
    if objective.minimised:
        return Bound(next_cost(max(0.0, sum_rounded_down(terms)), problem.instance), certified=True)
    return Bound(sum_rounded_up(terms), certified=True)


def _best_alone(objective: Objective, offer: Offer, workload: int) -> float:
    """Return the part of a GPU's price that the workload needs, or the most throughput or requests it can add."""
    configurations, tables = offer.configurations[workload], offer.view.tables
    if objective is Objective.COST:
        return offer.view.gpu.price_per_hour * float(configurations.units.min()) / tables.share_units
    if objective is Objective.GOODPUT:
        return float(configurations.rate_rps.max())
    row, batch = int(offer.view.model[workload]), configurations.batch
    busy_ms = tables.active_ms[row, batch, configurations.units] + tables.exposed_ms[row, batch]
    return float((1000.0 * batch / busy_ms).max())
