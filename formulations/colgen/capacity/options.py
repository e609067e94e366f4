"""Largest throughput and least demand of every (model, share, batch) inside a box of total interference."""

from typing import NamedTuple

import numpy as np
from numba import njit

from formulations.colgen.boxes import MARGIN
from instances.arrays import Floats, Ints
from instances.interference import gpu_time_ms
from instances.tables import Tables


class CapacityMarket(NamedTuple):
    """What one GPU type offers the workloads of an instance, and what each is charged for a place.

    Attributes
    ----------
    tables
        Of the GPU type, with one growth.
    model
        Row of each workload's model, shape (workloads,); identical workloads stand side by side.
    budget_ms
        Shape (workloads, largest batch + 1); -inf where the batch is impossible.
    copy_of
        The workload before, where it is identical to this one, else -1, shape (workloads,). GPUs take copies in order.
    charge
        Of each workload, requests per second, shape (workloads,); negative for workloads that are paid to be taken.
    """

    tables: Tables
    model: Ints
    budget_ms: Floats
    copy_of: Ints
    charge: Floats


class BoxOptions(NamedTuple):
    """The (model, share, batch) options in one box, indexed ``[model, place of the permitted share, batch]``.

    Attributes
    ----------
    time_ms
        Least GPU time; infinite where the option is too large for the box.
    rate_rps
        Most throughput.
    worth
        Throughput less what multipliers charge for the demands.
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
    """Write times and throughputs at the floors of a box, which no GPU inside it can better.

    Parameters
    ----------
    tables
        Of the GPU type.
    box
        Residents, L2 floor and ceiling, power floor and ceiling.
    options
        ``time_ms`` and ``rate_rps`` are written.
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
    """How far the floors overrate an option against the L2 ceiling and against the power ceiling of a box."""
    residents, exposed_ms = int(box[0]), tables.exposed_ms[model, batch]
    l2, power = tables.l2_pct[model, batch, units], tables.power_w[model, batch, units]
    others_low, others_high = max(0.0, box[1] - l2), max(0.0, box[2] - l2)
    power_low, power_high = max(box[3], power), max(box[4], power)
    best_ms = gpu_time_ms(tables, model, batch, units, residents, others_low, 0.0, power_low)
    l2_ms = gpu_time_ms(tables, model, batch, units, residents, others_high, 0.0, power_low)
    power_ms = gpu_time_ms(tables, model, batch, units, residents, others_low, 0.0, power_high)
    best = 1000.0 * batch / (best_ms + exposed_ms)
    return best - 1000.0 * batch / (l2_ms + exposed_ms), best - 1000.0 * batch / (power_ms + exposed_ms)
