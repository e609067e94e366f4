"""Largest throughput and least demand of every (model, share, batch) inside a box of total interference."""

from typing import NamedTuple

import numpy as np
from numba import njit

from formulations.colgen.boxes import MARGIN
from instances.arrays import Floats, Ints
from instances.interference import gpu_time_ms
from instances.tables import Tables


class CapacityMarket(NamedTuple):
    """Pricing problem of ``capacity`` on one GPU type: tables, latency budgets and the charge of each workload.

    Attributes
    ----------
    tables
        Tables of the GPU type, with one growth.
    model
        Row of each workload's model, shape (workloads,); identical workloads are adjacent.
    budget_ms
        Latency budget, shape (workloads, largest batch + 1); -inf if the batch is infeasible.
    copy_of
        The preceding workload if it is identical to this one, else -1, shape (workloads,). A GPU takes identical
        workloads in order (symmetry breaking).
    charge
        Charge for each workload, requests per second, shape (workloads,); negative if the workload's dual rewards it.
    """

    tables: Tables
    model: Ints
    budget_ms: Floats
    copy_of: Ints
    charge: Floats


class BoxOptions(NamedTuple):
    """Options (model, share, batch) in one box, indexed ``[model, index of the permitted share, batch]``.

    Attributes
    ----------
    time_ms
        Least GPU time; infinite if the option is infeasible in the box.
    rate_rps
        Largest throughput.
    worth
        Throughput minus the multiplier charges for the demands.
    """

    time_ms: Floats
    rate_rps: Floats
    worth: Floats


def empty_options(tables: Tables) -> BoxOptions:
    """Return buffers of the right shape."""
    models, batches = tables.transfer_ms.shape
    shape = (models, len(tables.permitted), batches)
    return BoxOptions(np.full(shape, np.inf), np.zeros(shape), np.full(shape, -np.inf))


@njit(cache=True)
def optimistic(tables: Tables, box: Floats, options: BoxOptions) -> None:
    """Write times and throughputs at the floors of a box: optimistic for every GPU inside it.

    Parameters
    ----------
    tables
        Tables of the GPU type.
    box
        Residents, L2 floor and ceiling, power floor and ceiling.
    options
        Output in ``time_ms`` and ``rate_rps``.
    """
    residents = int(box[0])
    l2_cap, power_cap = box[2] * (1.0 + MARGIN), box[4] * (1.0 + MARGIN)
    for m in range(len(tables.kernels)):
        for j in range(len(tables.permitted)):
            u = tables.permitted[j]
            for b in range(1, tables.max_batch[m] + 1):
                l2, power = tables.l2_pct[m, b, u], tables.power_w[m, b, u]
                options.time_ms[m, j, b] = np.inf
                if l2 <= l2_cap and power <= power_cap and tables.memory_mib[m, b] <= tables.memory_limit_mib:
                    others_l2 = max(0.0, box[1] - l2)
                    time_ms = gpu_time_ms(tables, m, b, u, residents, others_l2, 0.0, max(box[3], power))
                    options.time_ms[m, j, b] = time_ms * (1.0 - MARGIN)
                    options.rate_rps[m, j, b] = 1000.0 * b / (time_ms * (1.0 - MARGIN) + tables.exposed_ms[m, b])


@njit(cache=True)
def loss_rps(tables: Tables, box: Floats, model: int, batch: int, units: int) -> tuple[float, float]:
    """Return the throughput by which the floors overrate an option against the L2 ceiling and the power ceiling."""
    residents, exposed_ms = int(box[0]), tables.exposed_ms[model, batch]
    l2, power = tables.l2_pct[model, batch, units], tables.power_w[model, batch, units]
    others_low, others_high = max(0.0, box[1] - l2), max(0.0, box[2] - l2)
    power_low, power_high = max(box[3], power), max(box[4], power)
    best_ms = gpu_time_ms(tables, model, batch, units, residents, others_low, 0.0, power_low)
    l2_ms = gpu_time_ms(tables, model, batch, units, residents, others_high, 0.0, power_low)
    power_ms = gpu_time_ms(tables, model, batch, units, residents, others_low, 0.0, power_high)
    best = 1000.0 * batch / (best_ms + exposed_ms)
    return best - 1000.0 * batch / (l2_ms + exposed_ms), best - 1000.0 * batch / (power_ms + exposed_ms)
