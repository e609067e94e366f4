"""The states of the two stages (InSS Sec. 5.1 and 5.2) and the safe actions of the first.

``placement``: what the actor of workload i sees when its turn comes, shape (clusters, 4 + 4 K + I), all float32:

=========  ======  ===============  ==========================================================================
symbol     places  range            meaning
=========  ======  ===============  ==========================================================================
lambda_i   1       [0, inf)         its forecast rate over its root-mean-square throughput
g_i        1       [0, inf)         its queue (requests) over the same times one second
p_i        1       (0, 1]           the least part of a GPU on which it serves lambda_i alone; 1 too where none is
                                    enough. The paper names p_i without a definition; this one is its demand.
W_i        1       [0, inf)         sum of lambda and g, as above, over i and the workloads after it
u_k        K       [0, 1]           memory of the workloads already placed on GPU k over the GPU's
L_{i,k}    K       [0, inf)         L2 demand of those, over 100 percent
E_{i,k}    K       [0, inf)         DRAM demand of those, over 100 percent
(ours)     K       [0, inf)         sum of p over those
(ours)     I       [0, inf)         everyone's lambda, as above
=========  ======  ===============  ==========================================================================

The paper's state does not have the last two: memory and contention do not tell how much of a GPU's shares is asked for,
nor W_i who asks next. Shares and batches are decided later: memory is that of the largest batch, demands are those
alone at p_i.

``allocation``: what the actor of GPU k sees, shape (clusters, K, 3 I + 1), float32: for every workload whether it is
there (0 or 1); lambda, 0 where absent; g, 0 where absent; and u_k of all that were placed.
"""

import numpy as np
from numpy.typing import NDArray

from rl.cluster import Cluster

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]


def placement_size(workloads: int, gpus: int) -> int:
    """Return the length of a placement state."""
    return 4 + 4 * gpus + workloads


def allocation_size(workloads: int) -> int:
    """Return the length of an allocation state."""
    return 3 * workloads + 1


class Placing:
    """Workloads being placed one after another, in many clusters at once.

    Parameters
    ----------
    cluster
        What is placed, and where.
    rates_rps, queued
        The state of section 3.3, shape (clusters, workloads).
    """

    def __init__(self, cluster: Cluster, rates_rps: Floats, queued: Ints) -> None:
        clusters, workloads = rates_rps.shape
        self._cluster = cluster
        self._units = cluster.least_units(rates_rps)
        self._rate = rates_rps / cluster.rms_rps
        self._queue = queued / cluster.rms_rps
        work = self._rate + self._queue
        self._waiting = np.cumsum(work[:, ::-1], axis=1)[:, ::-1]
        self.gpu = np.full((clusters, workloads), -1, dtype=np.int64)
        self._used_mib = np.zeros((clusters, cluster.gpus))
        self._residents = np.zeros((clusters, cluster.gpus), dtype=np.int64)
        self._demand = np.zeros((clusters, cluster.gpus))
        self._l2_pct = np.zeros((clusters, cluster.gpus))
        self._dram_pct = np.zeros((clusters, cluster.gpus))

    def state(self, i: int) -> Singles:
        """Return the placement state of workload ``i``, shape (clusters, 4 + 4 K + I)."""
        tables = self._cluster.tables
        own = (self._rate[:, i], self._queue[:, i], self._units[:, i] / tables.share_units, self._waiting[:, i])
        gpus = (
            self._used_mib / tables.memory_limit_mib,
            self._l2_pct / 100.0,
            self._dram_pct / 100.0,
            self._demand / tables.share_units,
        )
        return np.concatenate([np.stack(own, axis=1), *gpus, self._rate], axis=1).astype(np.float32)

    def safe(self, i: int) -> Flags:
        """Return which places can take workload ``i``, by memory and by the number of residents.

        Shape (clusters, places). Nowhere, where it may be left out, comes last.
        """
        tables = self._cluster.tables
        fits = self._used_mib + self._cluster.memory_mib[i] <= tables.memory_limit_mib
        nowhere = np.ones((len(fits), self._cluster.places - self._cluster.gpus), dtype=np.bool_)
        return np.concatenate([fits & (self._residents < tables.share_units), nowhere], axis=1)

    def place(self, i: int, gpu: Ints) -> None:
        """Put workload ``i`` on a GPU of each cluster, -1 for none; shape (clusters,)."""
        cluster = self._cluster
        self.gpu[:, i] = gpu
        units = self._units[:, i]
        there = gpu[:, None] == np.arange(cluster.gpus)
        self._used_mib += there * cluster.memory_mib[i]
        self._residents += there
        self._demand += there * units[:, None]
        self._l2_pct += there * cluster.alone_l2_pct[i, units][:, None]
        self._dram_pct += there * cluster.alone_dram_pct[i, units][:, None]

    def allocation(self) -> Singles:
        """Return the allocation states once everything is placed, shape (clusters, K, 3 I + 1)."""
        there = np.swapaxes(self.gpu[:, :, None] == np.arange(self._cluster.gpus), 1, 2)  # (clusters, K, I)
        used = (self._used_mib / self._cluster.tables.memory_limit_mib)[:, :, None]
        parts = (there, there * self._rate[:, None], there * self._queue[:, None], used)
        return np.concatenate(parts, axis=2).astype(np.float32)
