"""Lower bound on the cost of every plan, from compute and from memory alone and without a search."""

import math
from typing import NamedTuple

import numpy as np

from instances import GpuPool, Instance
from instances.arrays import Floats
from instances.costs import next_cost
from instances.tolerance import widened
from instances.view import View

_SAFETY = 1e-9
"""Relative tolerance for rounding and for the tolerance of constraints; bounds are lowered by four times this."""


class LowerBound(NamedTuple):
    """Lower bound on the cost of every plan of any class, in dollars per hour, and the resource that it comes from."""

    cost_per_hour: float
    resource: str


def lower_bound(instance: Instance) -> LowerBound:
    """Return the larger of two bounds on the cost of serving everything.

    Compute: a batch occupies its share of a GPU for its active time, and each of its requests accounts for an equal
    part of this. The smallest such part over all batches and shares is the least that a request needs, since neighbours
    never shorten a batch. Unless slots take turns, each slot also holds a share that is large enough for its SLO.
    Memory: every workload needs at least one process with the memory of batch 1.

    A workload that no GPU of the pool can serve adds nothing to the bounds.
    """
    compute, memory = (
        np.array([fractions_on(View.of(instance, pool.type)) for pool in _on_offer(instance)])
        for fractions_on in (_compute_fractions, _memory_fractions)
    )
    price = np.array([pool.type.price_per_hour for pool in _on_offer(instance)])
    bounds = []
    for fraction, resource in ((compute, "compute"), (memory, "memory")):
        cheapest = (fraction * price[:, None]).min(axis=0)
        needed = math.fsum(cheapest[np.isfinite(cheapest)]) * (1.0 - 4.0 * _SAFETY)
        bounds.append(LowerBound(next_cost(needed, instance), resource))
    return max(bounds, key=lambda bound: bound.cost_per_hour)


def _on_offer(instance: Instance) -> list[GpuPool]:
    return [pool for pool in instance.gpus if pool.count != 0]


def _compute_fractions(view: View) -> Floats:
    """Return the least fraction of a GPU that each workload needs, shape (workloads,); infinite if none serves it."""
    tables, instance = view.tables, view.instance
    units = tables.permitted
    batch = np.arange(1, tables.active_ms.shape[1])
    fractions = np.full(len(instance.workloads), np.inf)
    for workload, model in enumerate(view.model.tolist()):
        active_ms = tables.active_ms[model, 1:][:, units]
        in_time = active_ms <= widened(float(view.slo_ms[workload]))
        if not in_time.any():
            continue
        # Requests that may be late need not be served; a decoding step finishes no more than batch / steps requests.
        served_rps = view.rate_rps[workload] * (1.0 - instance.may_miss) * max(1, int(view.steps[workload]))
        # One entry for each batch and share: the share, times the fraction of the time in which it is busy.
        busy = served_rps * active_ms / (1000.0 * batch[:, None])
        area = np.where(in_time, busy * units[None, :], np.inf).min() / tables.share_units
        least_share = units[in_time.any(axis=0)].min() / tables.share_units
        fractions[workload] = area if instance.takes_turns else max(area, least_share)
    return fractions


def _memory_fractions(view: View) -> Floats:
    """Return the least fraction of a GPU's memory that each workload needs, shape (workloads,)."""
    fractions: Floats = view.tables.memory_mib[view.model, 1] / view.tables.memory_limit_mib
    return fractions
