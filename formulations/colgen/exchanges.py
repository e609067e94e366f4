"""Exchanges between workloads: a slot of a demanding workload serves one that is easier to serve.

A workload is easier than another of the same model if its latency budget is at least as large at every batch. The
master may then use a slot planned for the other. This changes no optimum of the linear relaxation: duals that do not
fall as workloads become more demanding are among the optimal ones (Ben Amor, Desrosiers, Valerio de Carvalho 2006,
dual-optimal inequalities). But it needs far fewer patterns, fractional or integer.
"""

from collections.abc import Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching

from instances.arrays import Flags, Floats, Ints
from instances.view import View


def easier(views: Sequence[View], workloads: Ints) -> Flags:
    """Mark which workloads are easier than which: row i has those that a slot of workload i can serve.

    Parameters
    ----------
    views
        The instance as seen from every GPU type; the budget of a batch is the same at all shares.
    workloads
        Positions in the instance, no two identical.

    Returns
    -------
    Flags
        Shape (workloads, workloads); false on the diagonal and acyclic.
    """
    serves = np.zeros((len(workloads), len(workloads)), dtype=bool)
    for model in np.unique(views[0].model[workloads]):
        own = np.flatnonzero(views[0].model[workloads] == model)
        within = np.ones((len(own), len(own)), dtype=bool)
        for view in views:
            for batch in range(1, int(view.tables.max_batch[view.model[workloads[own[0]]]]) + 1):
                budget_ms: Floats = np.maximum(view.budget_ms(workloads[own], batch), 0.0)
                within &= budget_ms[:, None] <= budget_ms[None, :]
        # Of two workloads with equal budgets the first one counts as more demanding.
        serves[np.ix_(own, own)] = within & ~(within.T & np.tril(np.ones_like(within)))
    return serves


def nearest(serves: Flags, group: Ints) -> Ints:
    """Return the pairs (demanding, easier) without others between them, shape (pairs, 2).

    Only workloads of one ``group`` are comparable.
    """
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for each in np.unique(group):
        own = np.flatnonzero(group == each)
        block = serves[np.ix_(own, own)]
        paths = block.astype(np.float32)
        pairs.append(own[np.argwhere(block & (paths @ paths == 0.0))])
    return np.concatenate(pairs)


def matched(serves: Flags, slots: Ints, places: Ints) -> Ints:
    """Return the place that each slot serves, -1 for none, such that as many as possible are served.

    Parameters
    ----------
    serves
        See ``easier``.
    slots, places
        Class of each slot, and of each workload to place.
    """
    possible = serves | np.eye(len(serves), dtype=bool)
    return np.asarray(maximum_bipartite_matching(csr_array(possible[np.ix_(slots, places)]), perm_type="column"))
