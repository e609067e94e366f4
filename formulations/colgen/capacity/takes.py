"""What each (workload, share) gains in throughput and takes at least, on a GPU inside a box.

Throughputs are ratios, so shares above the least ones matter: a choice is now (workload, share). Inside a box of total
interference (``formulations.colgen.boxes``) its gain is the most throughput of any batch at the box's floors. As
demands grow with a workload's own throughput, every (share, batch) is filed under the smallest share whose best gain
reaches its own, which keeps the demand of a choice close to what its gain really costs.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.boxes import MARGIN
from instances.interference import gpu_time_ms
from instances.tables import Tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class CapacityTakes(NamedTuple):
    """What each (workload, permitted share) gains and takes in each box; see ``capacity_takes``.

    Attributes
    ----------
    box
        Shape (boxes, 5).
    units, gain, l2, power
        Shape (boxes, workloads * permitted shares).
    """

    box: Floats
    units: NDArray[np.int16]
    gain: Floats
    l2: Floats
    power: Floats


@njit(cache=True)
def capacity_takes(
    tables: Tables,
    model: Ints,
    budget_ms: Floats,
    box: Floats,
    units: NDArray[np.int16],
    gain: Floats,
    l2: Floats,
    power: Floats,
) -> None:
    """Write for each (workload, permitted share) the most throughput and the least demands in a box.

    Parameters
    ----------
    tables
        Of the GPU type.
    model
        Row of each workload's model, shape (workloads,).
    budget_ms
        Shape (workloads, largest batch + 1); -inf where the batch is impossible.
    box
        Residents, L2 floor and ceiling, power floor and ceiling.
    units, gain, l2, power
        Written, shape (workloads * permitted shares,); ``share_units + 1`` units where there is nothing to gain.
    """
    shares = len(tables.permitted)
    residents = int(box[0])
    l2_floor, power_floor = box[1], box[3]
    batches = budget_ms.shape[1]
    rates = np.empty((shares, batches))
    for w in range(len(model)):
        m = model[w]
        base = w * shares
        for j in range(shares):
            u = tables.permitted[j]
            best = gain[base + j - 1] if j > 0 else 0.0
            units[base + j], l2[base + j], power[base + j] = tables.share_units + 1, np.inf, np.inf
            for b in range(1, batches):
                rates[j, b] = 0.0
                if budget_ms[w, b] <= 0.0:
                    continue
                others_l2 = max(0.0, l2_floor - tables.l2_pct[m, b, u])
                time_ms = gpu_time_ms(tables, m, b, u, residents, others_l2, 0.0, power_floor)
                if time_ms <= budget_ms[w, b] * (1.0 + MARGIN):
                    rates[j, b] = 1000.0 * b / (time_ms + tables.exposed_ms[m, b])
                    best = max(best, rates[j, b])
            gain[base + j] = best
        for j in range(shares):
            for b in range(1, batches):
                if rates[j, b] > 0.0:
                    filed = base + np.searchsorted(gain[base : base + shares], rates[j, b])
                    units[filed] = tables.permitted[filed - base]
                    l2[filed] = min(l2[filed], tables.l2_pct[m, b, tables.permitted[j]])
                    power[filed] = min(power[filed], tables.power_w[m, b, tables.permitted[j]])
