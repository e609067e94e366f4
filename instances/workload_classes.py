"""Classes of identical workloads, and the order of classes by how easy they are to serve.

A workload is easier to serve than another of the same model if its latency budget is at least as large at every batch.
A slot that is planned for a workload can serve any easier one instead.
"""

from collections.abc import Collection, Sequence

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import maximum_bipartite_matching, maximum_flow

from instances import Instance, SloRule
from instances.arrays import Flags, Floats, Ints
from instances.one_gpu import Pattern
from instances.view import View

RULES = (SloRule.HALF_SLO, SloRule.DUTY_CYCLE)
"""SLO rules under which workloads are compared: their budgets are formulas that grow with the SLO and fall with the
rate."""

MOST_PAIRS = 200_000
"""Number of pairs of a slot and a workload above which a matching is found as a maximum flow.

With fewer, SciPy's bipartite matching is faster; on larger dense graphs it takes seconds to hours, and the flow less
than a second.
"""


def identical_workloads(instance: Instance, apart: Collection[int] = ()) -> tuple[Ints, Ints, Ints]:
    """Group workloads of equal model, SLO and rate into classes; each workload in ``apart`` is a class of its own.

    Returns
    -------
    order
        Positions in the instance with identical workloads adjacent, shape (workloads,).
    copy_of
        For each place in ``order`` the preceding place if its workload is identical, else -1.
    class_of
        Class of each workload, by position in the instance.
    """
    keys = [
        (w.model, w.slo_ms, w.rate_rps, w.id if position in apart else "")
        for position, w in enumerate(instance.workloads)
    ]
    classes = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    class_of = np.array([classes[key] for key in keys], dtype=np.int64)
    order = np.argsort(class_of, kind="stable").astype(np.int64)
    copy_of = np.full(len(order), -1, dtype=np.int64)
    same = class_of[order][1:] == class_of[order][:-1]
    copy_of[1:][same] = np.flatnonzero(same)
    return order, copy_of, class_of


def exchangeable(views: Sequence[View], class_of: Ints) -> tuple[Flags, Ints] | tuple[None, None]:
    """Return the results of ``easier`` and ``nearest`` for the classes.

    Both are ``None`` if no class is easier than another, or the SLO rule is not in ``RULES``.
    """
    if not views or views[0].instance.slo_rule not in RULES:
        return None, None
    _, first = np.unique(class_of, return_index=True)
    serves = easier(views, first)
    return (serves, nearest(serves, views[0].model[first])) if serves.any() else (None, None)


def served_by(serves: Flags, class_of: Ints, patterns: Sequence[Pattern]) -> list[int]:
    """Return the workload that each slot of the patterns serves, in the order of the slots; -1 for none."""
    slots = class_of[[slot.workload for pattern in patterns for slot in pattern.residents]]
    return matched(serves, slots, class_of).tolist()


def easier(views: Sequence[View], workloads: Ints) -> Flags:
    """Mark the easier workloads of each workload: row i marks those that a slot of workload i can serve.

    Parameters
    ----------
    views
        The instance as seen from every GPU type; the budget of a batch is the same at all shares.
    workloads
        Positions in the instance, no two identical.

    Returns
    -------
    Flags
        Shape (workloads, workloads); false on the diagonal, and without cycles.
    """
    serves = np.zeros((len(workloads), len(workloads)), dtype=bool)
    for model in np.unique(views[0].model[workloads]):
        of_model = np.flatnonzero(views[0].model[workloads] == model)
        within = np.ones((len(of_model), len(of_model)), dtype=bool)
        for view in views:
            for batch in range(1, int(view.tables.max_batch[view.model[workloads[of_model[0]]]]) + 1):
                budget_ms: Floats = np.maximum(view.budget_ms(workloads[of_model], batch), 0.0)
                within &= budget_ms[:, None] <= budget_ms[None, :]
        # Of two workloads with equal budgets the first one counts as more demanding.
        serves[np.ix_(of_model, of_model)] = within & ~(within.T & np.tril(np.ones_like(within)))
    return serves


def nearest(serves: Flags, model: Ints) -> Ints:
    """Return the pairs (demanding, easier) without a workload between the two, shape (pairs, 2).

    ``model`` is the DNN model of each workload; only workloads of one model are comparable.
    """
    pairs = [np.empty((0, 2), dtype=np.int64)]
    for each_model in np.unique(model):
        of_model = np.flatnonzero(model == each_model)
        easier_of_model = serves[np.ix_(of_model, of_model)]
        steps = easier_of_model.astype(np.float32)
        has_between = steps @ steps > 0.0
        pairs.append(of_model[np.argwhere(easier_of_model & ~has_between)])
    return np.concatenate(pairs)


def matched(serves: Flags, slots: Ints, class_of: Ints) -> Ints:
    """Return the position in ``class_of`` of the workload that each slot serves, -1 for none.

    As many workloads as possible are served.

    Parameters
    ----------
    serves
        See ``easier``.
    slots
        Class of each slot.
    class_of
        Class of each workload.
    """
    possible = serves | np.eye(len(serves), dtype=bool)
    pairs = possible[np.ix_(slots, class_of)]
    if np.count_nonzero(pairs) <= MOST_PAIRS:
        return np.asarray(maximum_bipartite_matching(csr_array(pairs), perm_type="column"))
    # A matching is a flow from the source, node 0, over slots and workloads to the last node, the sink.
    slot, workload = np.nonzero(pairs)
    first, sink = 1 + len(slots), 1 + len(slots) + len(class_of)
    tail = np.concatenate([np.zeros(len(slots), dtype=np.int64), 1 + slot, np.arange(first, sink)])
    head = np.concatenate([np.arange(1, first), first + workload, np.full(len(class_of), sink)])
    graph = csr_array((np.ones(len(tail), dtype=np.int32), (tail, head)), shape=(sink + 1, sink + 1))
    flow = maximum_flow(graph, 0, sink).flow.tocoo()
    used = (flow.data > 0) & (flow.row > 0) & (flow.row < first)
    served = np.full(len(slots), -1, dtype=np.int64)
    served[flow.row[used] - 1] = flow.col[used] - first
    return served
