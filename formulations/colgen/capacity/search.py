"""Find the filled GPUs of one box that are worth more than a threshold, or bound them.

Boxes that the relaxation does not close are searched over sets of workloads; a set that survives is valued by the
one-GPU kernels, and, where asked for, bounded by halving its box until it is known not to be worth more.
"""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.capacity.value import MULTIPLIER_ROUNDS, can_fit, set_bound, value_pattern
from formulations.colgen.relaxation import relax_box
from instances.tables import Tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SPARE_NODES = 2_000
"""Nodes of the search that spends spare shares when a set is valued."""


class FilledFound(NamedTuple):
    """Filled GPUs found, a row each: see ``Filled``; ``stored`` is how many, shape (1,)."""

    stored: Ints
    size: Ints
    workload: Ints
    batch: Ints
    units: Ints
    value: Floats


@njit(cache=True)
def search_capacity_box(
    tables: Tables,
    model: Ints,
    budget_ms: Floats,
    charge: Floats,
    box: Floats,
    units: NDArray[np.int16],
    gain: Floats,
    l2: Floats,
    power: Floats,
    threshold: float,
    multipliers: Floats,
    certify: bool,
    node_limit: int,
    pattern_limit: int,
    profit: Floats,
    worth: Floats,
    usable: NDArray[np.bool_],
    table: Floats,
    found: FilledFound,
) -> tuple[float, int]:
    """Search one box for filled GPUs worth more than ``threshold`` after their residents' charges.

    Parameters are those of ``search_box``, with the rows of ``CapacityTakes``; ``certify`` asks for bounds on the sets
    that are valued, without which the bound of a searched box stays that of its relaxation.

    Returns
    -------
    bound : float
        No filled GPU of the box other than those found is worth more.
    nodes : int
        Visited.
    """
    shares, residents, capacity = len(tables.permitted), int(box[0]), tables.share_units
    workloads = len(model)
    first = np.arange(workloads + 1) * shares
    for w in range(workloads):
        for k in range(first[w], first[w + 1]):
            profit[k] = gain[k] - charge[w]
    chosen = np.full(residents, -1, dtype=np.int64)
    bound, l2_cap, power_cap = relax_box(
        first,
        box,
        capacity,
        units,
        l2,
        power,
        profit,
        threshold,
        multipliers,
        MULTIPLIER_ROUNDS,
        worth,
        usable,
        table,
        chosen,
    )
    if bound <= threshold:
        return threshold, 0
    offset = multipliers[0] * l2_cap + multipliers[1] * power_cap
    least_units = np.full(workloads, capacity + 1)
    most_worth = np.full(workloads, -np.inf)
    for w in range(workloads):
        for k in range(first[w], first[w + 1]):
            if usable[k]:
                least_units[w] = min(least_units[w], units[k])
                most_worth[w] = max(most_worth[w], worth[k])
    # The best worth of the residents so far within s units, for each depth.
    within = np.full((residents + 1, capacity + 1), -np.inf)
    within[0, :] = 0.0
    member = np.full(residents, -1, dtype=np.int64)
    batch = np.empty(residents, dtype=np.int64)
    filled_units = np.empty(residents, dtype=np.int64)
    last_row = min(found.stored[0] + pattern_limit, len(found.value))
    undecided = threshold
    nodes = 0
    depth = 0
    while depth >= 0:
        member[depth] += 1
        w, need = member[depth], residents - depth
        best = -np.inf
        if w < workloads:
            for s in range(capacity + 1):
                best = max(best, within[depth, s] + table[w, need, capacity - s])
        if best + offset <= threshold:
            depth -= 1
            continue
        # The same with this workload at its best worth and its least share, before its shares are gone through.
        best = -np.inf
        for s in range(capacity + 1 - least_units[w]):
            best = max(best, within[depth, s] + table[w + 1, need - 1, capacity - s - least_units[w]])
        if best + most_worth[w] + offset <= threshold:
            continue
        best = -np.inf
        within[depth + 1, :] = -np.inf
        for k in range(first[w], first[w + 1]):
            if usable[k]:
                u = units[k]
                for s in range(u, capacity + 1):
                    within[depth + 1, s] = max(within[depth + 1, s], within[depth, s - u] + worth[k])
        for s in range(capacity + 1):
            best = max(best, within[depth + 1, s] + table[w + 1, need - 1, capacity - s])
        if best + offset <= threshold:
            continue
        nodes += 1
        if nodes > node_limit:
            return max(undecided, bound), nodes
        if need > 1:
            depth += 1
            member[depth] = w
            continue
        if not can_fit(tables, model, budget_ms, member, batch):
            continue
        charged = 0.0
        for j in range(residents):
            charged += charge[member[j]]
        value = value_pattern(tables, model, budget_ms, member, batch, filled_units, SPARE_NODES)
        if value - charged > threshold:
            row = found.stored[0]
            found.size[row] = residents
            found.workload[row, :residents] = member
            found.batch[row, :residents], found.units[row, :residents] = batch, filled_units
            found.value[row] = value
            found.stored[0] = row + 1
            if row + 1 >= last_row:
                return max(undecided, bound), nodes
        if certify:
            floor = max(undecided, value - charged)
            undecided = max(undecided, set_bound(tables, model, budget_ms, member, charged, box, floor))
        else:
            undecided = bound
    return undecided, nodes
