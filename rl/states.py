"""States of the two stages (InSS Sec. 5.1 and 5.2), and safe actions of the first stage.

``placement`` is the input of workload i's actor in its turn, shape (clusters, 4 + 4 K + I), float32:

=========  ======  ===============  ==========================================================================
symbol     size    range            meaning
=========  ======  ===============  ==========================================================================
lambda_i   1       [0, inf)         its forecast rate, divided by ``Cluster.rms_rps``
g_i        1       [0, inf)         its queue (requests), divided by ``Cluster.rms_rps`` times one second
p_i        1       (0, 1]           the least part of a GPU that serves lambda_i alone; 1 if even a whole GPU cannot.
                                    The paper names p_i without a definition.
W_i        1       [0, inf)         sum of lambda and g over i and the workloads after it
u_k        K       [0, 1]           memory of the workloads already placed on GPU k, divided by the GPU's memory
L_{i,k}    K       [0, inf)         L2 demand of these workloads, divided by 100 percent
E_{i,k}    K       [0, inf)         DRAM demand of these workloads, divided by 100 percent
(ours)     K       [0, inf)         sum of p over these workloads
(ours)     I       [0, inf)         lambda of all workloads
=========  ======  ===============  ==========================================================================

The paper's state does not have the last two rows; only ``further_inputs`` adds them. They are added because memory and
contention do not show how many shares of a GPU are used, and W_i does not show which workloads follow. Shares and
batches are decided later. Until then, memory is that of the largest batch, and demands are those of a workload alone
with the part p_i of a GPU.

``allocation`` is the input of GPU k's actor, shape (clusters, K, 3 I + 1), float32. For every workload it has a flag (1
if the workload is on this GPU), then lambda and g (0 if it is not). The last number is u_k after all placements.
"""

import numpy as np

from instances.arrays import Flags, Floats, Ints, Singles
from instances.compiled import compiled
from rl.cluster import Cluster


def placement_size(workloads: int, gpus: int, further_inputs: bool = True) -> int:
    """Return the length of a placement state."""
    return 4 + 4 * gpus + workloads if further_inputs else 4 + 3 * gpus


def allocation_size(workloads: int) -> int:
    """Return the length of an allocation state."""
    return 3 * workloads + 1


_MEMORY, _RESIDENTS = 0, 4
"""Positions of the demands that must not exceed the GPU: memory and number of residents."""


class Placing:
    """Placement of workloads one after another, in many clusters at once.

    Parameters
    ----------
    rates_rps, queued
        Forecast rates and waiting requests (InSS Sec. 3.3), shape (clusters, workloads).
    further_inputs
        Whether states have the inputs that the paper does not have.

    Attributes
    ----------
    states, safe
        State and safe choices of each workload's turn so far, shape (clusters, workloads, 4 + 4 K + I) and (clusters,
        workloads, choices).
    gpu
        GPU of each workload, -1 for none, shape (clusters, workloads).
    """

    def __init__(self, cluster: Cluster, rates_rps: Floats, queued: Ints, further_inputs: bool = True) -> None:
        clusters, workloads = rates_rps.shape
        tables, units = cluster.tables, cluster.least_units(rates_rps)
        rows = np.arange(workloads)
        self._cluster = cluster
        self._rate = rates_rps / cluster.rms_rps
        self._queue = queued / cluster.rms_rps
        work = self._rate + self._queue
        work_from_i_on = np.cumsum(work[:, ::-1], axis=1)[:, ::-1]
        self._features = np.stack([self._rate, self._queue, units / tables.share_units, work_from_i_on], axis=2)
        demands = (
            np.broadcast_to(cluster.memory_mib, units.shape),
            cluster.alone_l2_pct[rows, units],
            cluster.alone_dram_pct[rows, units],
            units,
            np.ones_like(units),
        )
        self._demand = np.stack(demands, axis=2, dtype=np.float64)  # demand on a GPU, (clusters, I, 5)
        self._capacity = np.array([tables.memory_limit_mib, 100.0, 100.0, tables.share_units, tables.share_units])
        self._used = np.zeros((clusters, len(self._capacity), cluster.gpus))
        self._any_safe = np.ones(clusters, dtype=np.bool_)
        size = placement_size(workloads, cluster.gpus, further_inputs)
        self.states = np.empty((clusters, workloads, size), dtype=np.float32)
        self.safe = np.empty((clusters, workloads, cluster.choices), dtype=np.bool_)
        self.gpu = np.full((clusters, workloads), -1, dtype=np.int64)

    def turn(self, i: int) -> tuple[Singles, Flags]:
        """Return the state and the safe choices of workload ``i`` in its turn, and store them.

        A GPU is a safe choice if it has enough memory and a share unit for one more resident. If requests may be
        rejected, the last choice means no GPU and is always safe. If no choice is safe, all are marked as safe, and
        ``place`` gives the workload no GPU.

        Returns
        -------
        state, safe
            Shape (clusters, 4 + 4 K + I) and (clusters, choices).
        """
        state, safe = self.states[:, i], self.safe[:, i]
        _write_turn(
            self._features[:, i],
            self._demand[:, i],
            self._used,
            self._capacity,
            self._rate,
            state,
            safe,
            self._any_safe,
        )
        return state, safe

    def place(self, i: int, choice: Ints) -> None:
        """Place workload ``i`` by its choice in each cluster, shape (clusters,); at a rate of 0 it gets no GPU."""
        _place(self._demand[:, i], self._rate[:, i], choice, self._any_safe, self._used, self.gpu[:, i])

    def allocation(self) -> Singles:
        """Return the allocation states after all placements, shape (clusters, K, 3 I + 1)."""
        on_gpu = np.swapaxes(self.gpu[:, :, None] == np.arange(self._cluster.gpus), 1, 2)  # (clusters, K, I)
        memory = (self._used[:, _MEMORY] / self._capacity[_MEMORY])[:, :, None]
        parts = (on_gpu, on_gpu * self._rate[:, None], on_gpu * self._queue[:, None], memory)
        return np.concatenate(parts, axis=2).astype(np.float32)


@compiled
def _write_turn(
    features: Floats,
    demand: Floats,
    used: Floats,
    capacity: Floats,
    rate: Floats,
    state: Singles,
    safe: Flags,
    any_safe: Flags,
) -> None:
    """Write the state and the safe choices of one workload in every cluster, and whether any choice is safe."""
    clusters, _, gpus = used.shape
    further_inputs = state.shape[1] > 4 + 3 * gpus
    for n in range(clusters):
        state[n, :4] = features[n]
        for part in range(4 if further_inputs else 3):
            for k in range(gpus):
                state[n, 4 + part * gpus + k] = used[n, part, k] / capacity[part]
        if further_inputs:
            state[n, 4 + 4 * gpus :] = rate[n]
        safe[n] = True
        for k in range(gpus):
            for part in (_MEMORY, _RESIDENTS):
                if used[n, part, k] + demand[n, part] > capacity[part]:
                    safe[n, k] = False
        any_safe[n] = safe[n].any()
        if not any_safe[n]:
            safe[n] = True


@compiled
def _place(demand: Floats, rate: Floats, choice: Ints, any_safe: Flags, used: Floats, gpu: Ints) -> None:
    """Write the GPU of one workload in each cluster, -1 for none, and add its demand there."""
    _, parts, gpus = used.shape
    for n in range(len(choice)):
        gpu[n] = choice[n] if any_safe[n] and rate[n] > 0.0 and choice[n] < gpus else -1
        if gpu[n] >= 0:
            for part in range(parts):
                used[n, part, gpu[n]] += demand[n, part]
