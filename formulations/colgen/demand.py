"""Demand on a GPU type: the workloads of an instance as one GPU type serves them, in arrays for the pricing kernels."""

from typing import NamedTuple

import numpy as np

from instances import GOODPUT_STEP, Objective, SloRule
from instances.arrays import Floats, Ints
from instances.continuous import largest_loads
from instances.tables import Tables
from instances.tolerance import widened
from instances.view import View


class DemandOnGpu(NamedTuple):
    """Workloads, or classes of identical ones, as seen from one GPU type.

    Every SLO rule but ``p99`` and ``attainment`` sets two limits on a batch: its longest time, and the rate that its
    period permits.

    Attributes
    ----------
    tables
        Tables of the GPU type.
    model
        Row of each workload's model, shape (workloads,).
    copies
        Number of identical workloads that each entry stands for, shape (workloads,).
    rate_rps, slo_ms
        Rate and latency SLO of one workload, shape (workloads,).
    longest_ms
        Longest latency of a batch whose workload has the gpulet alone, shape (workloads, largest batch + 1).
    budget_ms
        Longest GPU time of such a batch, -inf if infeasible, shape (workloads, largest batch + 1, 1). If the budgets
        depend on the share, the last axis has length share units + 1.
    requests
        Requests completed per full batch, shape (workloads, largest batch + 1): the batch itself. For decoding, which
        takes many steps per request, it is the largest load of so many places, divided by the number of steps.
    overhead_ms
        Time added to the GPU time for the period of a batch, shape (models, largest batch + 1).
    latency_buffer
        Factor on every predicted latency.
    steps
        Number of equal steps of a workload's rate; a slot serves a whole number of them. 0 permits any part.
    waits_for_batch
        Whether the first request of a batch waits for the others, so that low rates violate the SLO.
    """

    tables: Tables
    model: Ints
    copies: Floats
    rate_rps: Floats
    slo_ms: Floats
    longest_ms: Floats
    budget_ms: Floats
    requests: Floats
    overhead_ms: Floats
    latency_buffer: float
    steps: int
    waits_for_batch: bool


def demand_of(view: View, workloads: Ints, copies: Floats) -> DemandOnGpu:
    """Return the demand of workloads under any SLO rule but ``p99`` and ``attainment``.

    ``workloads`` has positions in the instance, and ``copies`` the number of identical workloads that each stands for.
    """
    instance, tables = view.instance, view.tables
    batch = np.arange(tables.transfer_ms.shape[1])
    model, slo_ms = view.model[workloads], view.slo_ms[workloads]
    assembly = instance.slo_rule is SloRule.ASSEMBLY
    if assembly:
        # A rate r with t_inf <= 1000 b / r and t_inf <= SLO - 1000 (b - 1) / r exists iff (2b - 1) t_inf <= b SLO.
        longest_ms = slo_ms[:, None] * batch / np.maximum(2 * batch - 1, 1)
    else:
        longest_ms = np.repeat(slo_ms[:, None] / 2.0, len(batch), axis=1)
    steps = view.steps[workloads]
    longest_ms[steps > 0] = slo_ms[steps > 0, None]
    loads = largest_loads(len(batch) - 1, instance.may_miss) if steps.any() else batch
    requests = np.where(steps[:, None] > 0, loads / np.maximum(steps, 1)[:, None], batch.astype(np.float64))
    budget_ms = widened(longest_ms / instance.latency_buffer - tables.transfer_ms[model])
    budget_ms[(batch == 0) | (batch > tables.max_batch[model][:, None])] = -np.inf
    return DemandOnGpu(
        tables,
        model,
        copies,
        view.rate_rps[workloads],
        slo_ms,
        longest_ms,
        budget_ms[:, :, None],
        requests,
        tables.exposed_ms if instance.slo_rule is SloRule.HALF_SLO else tables.transfer_ms,
        instance.latency_buffer,
        round(1.0 / GOODPUT_STEP) if instance.objective is Objective.GOODPUT else 0,
        assembly,
    )
