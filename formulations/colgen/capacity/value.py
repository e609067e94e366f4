"""Throughput of a set of workloads on one GPU: a fast lower bound by the one-GPU kernels."""

import numpy as np

from formulations.colgen.fitting import may_fit
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.least_shares import least_shares
from instances.spare_shares import spend_spare_shares
from instances.tables import Tables


@compiled
def value_pattern(
    tables: Tables, model: Ints, budget_ms: Floats, workload: Ints, batch: Ints, units: Ints, node_limit: int
) -> float:
    """Return the throughput of one GPU with these residents, by coordinate ascent over batches and spare shares.

    Parameters
    ----------
    tables, model, budget_ms
        See ``DemandOnGpu``.
    workload
        The residents, shape (residents,).
    batch, units
        Batches to start from, and shares; overwritten with the best ones found.
    node_limit
        Node limit of each distribution of spare shares.

    Returns
    -------
    float
        Requests per second; -1 if the residents do not fit with the batches tried.
    """
    count = len(workload)
    rows = model[workload]
    budget = np.empty((count, budget_ms.shape[2]))
    trial_units = np.empty(count, dtype=np.int64)
    trial = batch.copy()
    best = -1.0
    improved = True
    first = True
    while improved:
        improved = False
        # Resident -1 stands for the batches to start from, which are tried once.
        for i in range(-1 if first else 0, count):
            for step in (-1, 1, 2, 4):
                if i < 0 and step != 1:
                    continue
                trial[:] = batch
                if i >= 0:
                    trial[i] += step
                    if trial[i] < 1 or trial[i] >= budget_ms.shape[1]:
                        continue
                possible = True
                for j in range(count):
                    budget[j] = budget_ms[workload[j], trial[j]]
                    possible = possible and budget[j].max() > 0.0
                if not possible or not least_shares(tables, rows, trial, budget, trial_units):
                    continue
                value, _ = spend_spare_shares(tables, rows, trial, budget, trial_units, node_limit)
                if value > best * (1.0 + 1e-12):
                    best = value
                    batch[:] = trial
                    units[:] = trial_units
                    improved = i >= 0 or improved
        first = False
    return best


@compiled
def may_fit_at_some_batches(merged: Tables, model: Ints, budget_ms: Floats, workload: Ints, batch: Ints) -> bool:
    """Return whether a set of workloads may fit on one GPU at some batches; ``False`` proves that it cannot.

    The batches of the least shares are written to ``batch``: a good start for ``value_pattern``.
    """
    batches = budget_ms.shape[1]
    budget_of_option = budget_ms.reshape(-1, budget_ms.shape[2])
    batch_of = np.arange(len(budget_of_option)) % batches
    least_alone, first = np.ones(len(budget_of_option), dtype=np.int64), workload * batches + 1
    floors = np.zeros(2)
    fits = may_fit(
        merged, model[workload], first, first + batches - 1, batch_of, least_alone, budget_of_option, floors, batch
    )
    batch[:] = batch % batches
    return fits
