"""Branch-and-bound search of one box for patterns worth more than a threshold, or a proof that none exists."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.interference_boxes import RESIDENTS, may_fit
from formulations.colgen.spatial.choices import Choices
from formulations.colgen.spatial.relaxation import Buffers, relax_box
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.least_shares import raise_to_feasible
from instances.tables import Tables

BATCHES_LIMIT = 256
"""Node limit of the batch search for one set of residents; a set undecided at the limit counts in the bound."""

HALVES_LIMIT = 4096
"""The same limit where budgets depend on the share, and dozens of batches are undominated."""


class Found(NamedTuple):
    """Patterns found, one per row.

    Attributes
    ----------
    stored
        Number of patterns so far, shape (1,).
    size
        Number of residents of each pattern, shape (patterns,).
    choice, batch
        Choice and batch of each resident, shape (patterns, most residents).
    value
        Sum of the residents' profits, shape (patterns,).
    """

    stored: Ints
    size: Ints
    choice: Ints
    batch: Ints
    value: Floats


@compiled
def decide(tables: Tables, merged: Tables, choices: Choices, chosen: Ints, batch: Ints) -> int:
    """Decide whether the chosen workloads fit on one GPU at their rates with some of their batches.

    Parameters
    ----------
    tables, merged
        Tables of the GPU type, and the same with one growth.
    chosen
        The choices, shape (residents,).
    batch
        Output if they fit, shape (residents,).

    Returns
    -------
    int
        1 if they fit, 0 if no batches make them fit, -1 if the node limit was reached.
    """
    residents = len(chosen)
    first, end = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64)
    model, pick = choices.model[chosen], np.empty(residents, dtype=np.int64)
    for j in range(residents):
        first[j], end[j] = choices.option[chosen[j]], choices.option[chosen[j] + 1]
    if not _may_fit(merged, choices, model, first, end, pick):
        return 0
    if _fit(tables, choices, chosen, pick, batch):
        return 1
    if choices.budget_ms.shape[1] > 1:
        return _decide_by_halves(tables, merged, choices, chosen, model, first, end, pick, batch)
    # Depth first over the batches of one resident after another: fixing a batch only raises the least demands.
    nodes, depth = 0, 0
    end[0] = first[0]
    while depth >= 0:
        k = chosen[depth]
        if end[depth] == choices.option[k + 1]:
            first[depth] = choices.option[k]
            depth -= 1
            continue
        first[depth], end[depth] = end[depth], end[depth] + 1
        nodes += 1
        if nodes > BATCHES_LIMIT:
            return -1
        if _may_fit(merged, choices, model, first, end, pick):
            if _fit(tables, choices, chosen, pick, batch):
                return 1
            if depth < residents - 1:
                depth += 1
                end[depth] = first[depth]
    return 0


@compiled
def _decide_by_halves(
    tables: Tables,
    merged: Tables,
    choices: Choices,
    chosen: Ints,
    model: Ints,
    first: Ints,
    end: Ints,
    pick: Ints,
    batch: Ints,
) -> int:
    """Decide by halving the options of the resident that has the most: neighbouring batches are similar."""
    residents = len(chosen)
    # Each level halves one range of options, and the stack has one open half per level.
    levels = 2
    for j in range(residents):
        width = end[j] - first[j]
        while width > 1:
            levels, width = levels + 1, (width + 1) // 2
    firsts, ends = np.empty((levels, residents), dtype=np.int64), np.empty((levels, residents), dtype=np.int64)
    firsts[0], ends[0] = first, end
    nodes, stored = 0, 1
    while stored > 0:
        stored -= 1
        first[:], end[:] = firsts[stored], ends[stored]
        nodes += 1
        if nodes > HALVES_LIMIT:
            return -1
        if not _may_fit(merged, choices, model, first, end, pick):
            continue
        if _fit(tables, choices, chosen, pick, batch):
            return 1
        widest = np.argmax(end - first)
        if end[widest] - first[widest] == 1:
            continue
        middle = (first[widest] + end[widest]) // 2
        for half in range(2):
            firsts[stored + half], ends[stored + half] = first, end
        # The half with the least share comes last, so it is searched first.
        lower = stored + 1 if pick[widest] < middle else stored
        ends[lower, widest] = middle
        firsts[2 * stored + 1 - lower, widest] = middle
        stored += 2
    return 0


@compiled
def _may_fit(merged: Tables, choices: Choices, model: Ints, first: Ints, end: Ints, pick: Ints) -> bool:
    return may_fit(merged, model, first, end, choices.batch, choices.lower_units, choices.budget_ms, pick)


@compiled
def _fit(tables: Tables, choices: Choices, chosen: Ints, pick: Ints, batch: Ints) -> bool:
    """Return whether the chosen workloads fit with the options in ``pick``; their batches are written to ``batch``."""
    residents = len(chosen)
    model, units = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64)
    budget = np.empty((residents, choices.budget_ms.shape[1]))
    memory = 0.0
    for j in range(residents):
        model[j] = choices.model[chosen[j]]
        batch[j], units[j] = choices.batch[pick[j]], choices.lower_units[pick[j]]
        for u in range(budget.shape[1]):
            budget[j, u] = choices.budget_ms[pick[j], u]
        memory += tables.memory_mib[model[j], batch[j]]
    return memory <= tables.memory_limit_mib and raise_to_feasible(tables, model, batch, budget, units, residents)


@compiled
def _agrees(choices: Choices, chosen: Ints, depth: int, w: int, last: bool) -> bool:
    """Return whether ``w`` may follow the chosen workloads: no conflicting pair, every required partner present."""
    workloads = len(choices.mate_after)
    mate_met = choices.mate_before[w] < 0
    for d in range(depth):
        other = choices.workload[chosen[d]]
        mate = choices.mate_after[other]
        if choices.apart[w, other] or (last and w < mate < workloads):
            return False
        if mate < w and not _holds(choices, chosen, depth, mate):
            return False
        mate_met = mate_met or other == choices.mate_before[w]
    return mate_met and not (last and choices.mate_after[w] < workloads)


@compiled
def _holds(choices: Choices, chosen: Ints, depth: int, workload: int) -> bool:
    for d in range(depth):
        if choices.workload[chosen[d]] == workload:
            return True
    return False


@compiled
def _grows(tables: Tables, merged: Tables, choices: Choices, chosen: Ints) -> bool:
    """Return whether the chosen workloads still fit if a part is larger by a step.

    The larger pattern is worth no less, and its box finds it or counts it in its bound, so it replaces this one.
    """
    batch, grown = np.empty(len(chosen), dtype=np.int64), chosen.copy()
    for j in range(len(chosen)):
        w = choices.workload[chosen[j]]
        if choices.covering and chosen[j] > choices.first[w]:
            grown[j] -= 1
            if decide(tables, merged, choices, grown, batch) > 0:
                return True
            grown[j] += 1
    return False


@compiled
def search_box(
    tables: Tables,
    merged: Tables,
    choices: Choices,
    box: Floats,
    of: Ints,
    units: NDArray[np.int16],
    l2: Floats,
    power: Floats,
    profit: Floats,
    threshold: float,
    multipliers: Floats,
    node_limit: int,
    patience: int,
    pattern_limit: int,
    buffers: Buffers,
    found: Found,
) -> tuple[float, int, bool]:
    """Search one box depth first over the workloads in order; the completion table gives the upper bounds.

    Parameters
    ----------
    tables, merged
        See ``decide``.
    box
        A row of ``LeastDemands.box``.
    of, units, l2, power
        Entries of the box, see ``LeastDemands``.
    profit
        Profit of each choice.
    threshold, multipliers
        See ``relax_box``.
    node_limit, patience, pattern_limit
        Limits on the nodes visited, on those visited since the last pattern was found, and on the patterns.

    Returns
    -------
    bound : float
        Upper bound on the worth of the box's patterns that were not found; ``threshold`` if the search was complete.
    nodes : int
        Number of nodes visited.
    idle : bool
        Whether the patience ended the search.
    """
    residents, capacity = int(box[RESIDENTS]), tables.share_units
    workload = choices.workload[of]
    bound, l2_cap, power_cap, contenders = relax_box(
        workload, box, capacity, units, l2, power, profit[of], threshold, multipliers, buffers
    )
    if bound <= threshold:
        return threshold, 0, False
    worth, group, table = buffers.worth, buffers.group, buffers.table
    offset = multipliers[0] * l2_cap + multipliers[1] * power_cap
    at = np.full(residents, -1, dtype=np.int64)  # the contender tried at each depth
    chosen = np.empty(residents, dtype=np.int64)
    sum_worth = np.zeros(residents + 1)
    sum_l2 = np.zeros(residents + 1)
    sum_power = np.zeros(residents + 1)
    left = np.full(residents + 1, capacity, dtype=np.int64)
    batch = np.empty(residents, dtype=np.int64)
    last_row = min(found.stored[0] + pattern_limit, len(found.value))
    undecided = threshold
    nodes, last_found, decided_last = 0, 0, -1
    depth = 0
    while depth >= 0:
        at[depth] += 1
        j, need = at[depth], residents - depth
        # The table does not increase with the group, so no later contender completes to more than this.
        if j >= contenders or (sum_worth[depth] + table[group[j], need, left[depth]] + offset <= threshold):
            depth -= 1
            continue
        k = buffers.choice[j]
        w, u = workload[k], units[k]
        if (
            u > left[depth]
            or sum_worth[depth] + worth[k] + table[group[j] + 1, need - 1, left[depth] - u] + offset <= threshold
            or sum_l2[depth] + l2[k] > l2_cap
            or sum_power[depth] + power[k] > power_cap
        ):
            continue
        previous = choices.copy_of[w]
        if previous >= 0 and (depth == 0 or choices.workload[chosen[depth - 1]] != previous):
            continue
        if not _agrees(choices, chosen, depth, w, need == 1) or (need == 1 and of[k] == decided_last):
            continue
        nodes += 1
        if nodes > node_limit or nodes - last_found > patience:
            return max(undecided, bound), nodes, nodes <= node_limit
        chosen[depth] = of[k]
        if need > 1:
            depth += 1
            decided_last = -1
            at[depth] = buffers.first[group[j] + 1] - 1
            sum_worth[depth] = sum_worth[depth - 1] + worth[k]
            sum_l2[depth] = sum_l2[depth - 1] + l2[k]
            sum_power[depth] = sum_power[depth - 1] + power[k]
            left[depth] = left[depth - 1] - u
            continue
        value = 0.0
        for d in range(residents):
            value += profit[chosen[d]]
        if value <= threshold:
            continue
        decided, decided_last = decide(tables, merged, choices, chosen, batch), of[k]
        if decided < 0:
            undecided = max(undecided, value)
        if decided <= 0:
            continue
        if not _grows(tables, merged, choices, chosen):
            row = found.stored[0]
            found.size[row] = residents
            found.choice[row, :residents], found.batch[row, :residents] = chosen, batch
            found.value[row] = value
            found.stored[0], last_found = row + 1, nodes
            if row + 1 >= last_row:
                return max(undecided, bound), nodes, False
        if choices.covering:
            at[depth] = buffers.first[group[j] + 1] - 1  # smaller parts of the last resident cover less
    return undecided, nodes, False
