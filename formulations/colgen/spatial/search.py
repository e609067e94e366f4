"""Branch-and-bound search of one box for patterns worth more than a threshold, or a proof that none exists.

Multipliers charge for the ceilings of the box, and dynamic programming bounds the worth of the missing residents.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.interference_boxes import (
    CONTENTION,
    POWER,
    RESIDENTS,
    best_of_table,
    by_units_of,
    climb,
    completion_table,
    contenders,
)
from formulations.colgen.pairs import may_follow
from formulations.colgen.spatial.boxes import LeastDemands
from formulations.colgen.spatial.choices import Choices
from formulations.colgen.spatial.decisions import Decisions, decide_once
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.tolerance import MARGIN

BATCHES_FRACTION = 1e-3
"""Node limit of the batch search for one set of residents, as a fraction of the node limit of the box."""

ROUNDS = 12
"""Multiplier steps in one relaxation."""


class Buffers(NamedTuple):
    """Buffers of the pricing of a box, allocated once: the worth of every choice, and the contenders.

    Contenders are the choices of the current table, in increasing order, grouped by workload.

    Attributes
    ----------
    worth
        Profit minus multiplier charges of each choice, shape (choices,).
    choice
        The contenders, shape (choices,).
    group
        Number of each contender's group, shape (choices,).
    first
        Position of each group's first contender, shape (workloads + 1,).
    slots, units, value
        Number of slots (always 1), share and worth of each contender; see ``completion_table``.
    table
        Completion table over the groups, shape (workloads + 1, residents + 1, share units + 1).
    """

    worth: Floats
    choice: Ints
    group: Ints
    first: Ints
    slots: Ints
    units: NDArray[np.int16]
    value: Floats
    table: Floats

    @classmethod
    def of(cls, workloads: int, choices: int, residents: int, share_units: int) -> "Buffers":
        """Allocate the buffers."""
        return cls(
            np.zeros(choices),
            np.zeros(choices, dtype=np.int64),
            np.zeros(choices, dtype=np.int64),
            np.zeros(workloads + 1, dtype=np.int64),
            np.ones(choices, dtype=np.int64),
            np.zeros(choices, dtype=np.int16),
            np.zeros(choices),
            np.empty((workloads + 1, residents + 1, share_units + 1)),
        )


@compiled
def complete(
    workload: Ints, units: NDArray[np.int16], residents: int, capacity: int, count: int, buffers: Buffers
) -> int:
    """Group the first ``count`` contenders by workload and fill their table; return the number of groups."""
    groups = 0
    for j in range(count):
        k = buffers.choice[j]
        if j == 0 or workload[k] != workload[buffers.choice[j - 1]]:
            buffers.first[groups] = j
            groups += 1
        buffers.group[j] = groups - 1
        buffers.units[j], buffers.value[j] = units[k], buffers.worth[k]
    buffers.first[groups] = count
    completion_table(
        buffers.first[: groups + 1],
        buffers.slots,
        buffers.units,
        buffers.value,
        True,  # exactly n slots
        residents,
        capacity,
        buffers.table,
    )
    return groups


@compiled
def relax_box(
    workload: Ints,
    capacity: int,
    least: LeastDemands,
    number: int,
    profit: Floats,
    threshold: float,
    buffers: Buffers,
) -> tuple[float, float, float, int]:
    """Bound the sum of profits in a box; stop at or below ``threshold``.

    Choices without profit are left out: the pattern without them is worth at least as much.

    Parameters
    ----------
    workload, profit
        Workload and profit of each entry of the box.
    capacity
        Share units of the GPU.
    least, number
        Boxes with their entries, and the number of the box. Its multipliers are those to start from, and are
        overwritten with those of the best bound.
    buffers
        Output. If the bound is above the threshold, the contenders are the choices that a solution above it may hold.

    Returns
    -------
    bound, contention_cap, power_cap : float
        The bound (-inf for an empty box), and the finite ceilings that it was computed with.
    contenders : int
        Number of contenders.
    """
    box, units, contention, power = (
        least.box[number],
        least.units[number],
        least.contention[number],
        least.power[number],
    )
    residents, multipliers = int(box[RESIDENTS]), least.multipliers[number]
    worth, table = buffers.worth, buffers.table
    by_units = by_units_of(units, profit, capacity)
    most_contention, power_most = 0.0, 0.0
    for k in by_units:
        most_contention, power_most = max(most_contention, contention[k]), max(power_most, power[k])
    # A ceiling above the sum of the largest demands does not bind.
    contention_cap = min(box[CONTENTION + 1], residents * most_contention) * (1.0 + MARGIN)
    power_cap = min(box[POWER + 1], residents * power_most) * (1.0 + MARGIN)
    best, chosen = np.array([np.inf, 0.0, 0.0]), np.empty(residents, dtype=np.int64)
    step, going = 0, True
    while going:
        for k in by_units:
            worth[k] = profit[k] - multipliers[0] * contention[k] - multipliers[1] * power[k]
        count = contenders(workload, units, worth, by_units, residents, buffers.choice)
        groups = complete(workload, units, residents, capacity, count, buffers)
        top = table[0, residents, capacity]
        if top == -np.inf:
            return -np.inf, contention_cap, power_cap, 0
        best_of_table(
            buffers.first[: groups + 1],
            buffers.slots,
            buffers.units,
            buffers.value,
            residents,
            capacity,
            table,
            0,
            chosen,
        )
        contention_sum, power_sum = 0.0, 0.0
        for j in chosen:
            contention_sum += contention[buffers.choice[j]]
            power_sum += power[buffers.choice[j]]
        going = climb(
            multipliers, best, top, contention_sum, power_sum, contention_cap, power_cap, threshold, step, ROUNDS
        )
        step += 1
    if best[0] <= threshold:
        return best[0], contention_cap, power_cap, 0
    offset = multipliers[0] * contention_cap + multipliers[1] * power_cap
    beside = table[0, residents - 1].copy()
    count = 0
    by_units.sort()
    for k in by_units:
        if worth[k] + beside[capacity - units[k]] + offset > threshold:
            buffers.choice[count] = k
            count += 1
    complete(workload, units, residents, capacity, count, buffers)
    return best[0], contention_cap, power_cap, count


class SearchLimits(NamedTuple):
    """Limits of the search of a box: nodes, nodes since the last pattern was found, and patterns.

    ``decision_nodes`` limits the nodes of ``decide`` in all boxes of a call.
    """

    nodes: int
    patience: int
    patterns: int
    decision_nodes: int


class FoundPatterns(NamedTuple):
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
def _grows(tables: Tables, choices: Choices, decisions: Decisions, chosen: Ints) -> bool:
    """Return whether the chosen workloads still fit if a part is larger by a step.

    The larger pattern is worth no less, and its box finds it or counts it in its bound, so it replaces this one.
    """
    batch, grown = np.empty(len(chosen), dtype=np.int64), chosen.copy()
    for j in range(len(chosen)):
        w = choices.workload[chosen[j]]
        if choices.covering and chosen[j] > choices.first[w]:
            grown[j] -= 1
            if decide_once(tables, choices, decisions, grown, batch, 0) > 0:
                return True
            grown[j] += 1
    return False


@compiled
def search_box(
    tables: Tables,
    choices: Choices,
    least: LeastDemands,
    number: int,
    profit: Floats,
    threshold: float,
    limits: SearchLimits,
    patterns: FoundPatterns,
    buffers: Buffers,
    decisions: Decisions,
) -> tuple[float, int, bool]:
    """Search one box depth first over the workloads in order; the completion table gives the upper bounds.

    Parameters
    ----------
    least, number, threshold
        See ``relax_box``.
    profit
        Profit of each choice.

    Returns
    -------
    bound : float
        Upper bound on the worth of the box's patterns that were not found; ``threshold`` if the search was complete.
    nodes : int
        Number of nodes visited.
    idle : bool
        Whether the patience ended the search.
    """
    residents, capacity, of = int(least.box[number, RESIDENTS]), tables.share_units, least.of
    units, contention, power = least.units[number], least.contention[number], least.power[number]
    workload = choices.workload[of]
    bound, contention_cap, power_cap, contender_count = relax_box(
        workload, capacity, least, number, profit[of], threshold, buffers
    )
    if bound <= threshold:
        return threshold, 0, False
    worth, group, table, multipliers = buffers.worth, buffers.group, buffers.table, least.multipliers[number]
    offset = multipliers[0] * contention_cap + multipliers[1] * power_cap
    at = np.full(residents, -1, dtype=np.int64)  # the contender tried at each depth
    chosen = np.empty(residents, dtype=np.int64)
    sum_worth = np.zeros(residents + 1)
    contention_so_far = np.zeros(residents + 1)
    sum_power = np.zeros(residents + 1)
    left = np.full(residents + 1, capacity, dtype=np.int64)
    batch = np.empty(residents, dtype=np.int64)
    last_row = min(patterns.stored[0] + limits.patterns, len(patterns.value))
    undecided = threshold
    nodes, last_found, decided_last = 0, 0, -1
    depth = 0
    while depth >= 0:
        at[depth] += 1
        j, need = at[depth], residents - depth
        # The table does not increase with the group, so no later contender completes to more than this.
        if j >= contender_count or (sum_worth[depth] + table[group[j], need, left[depth]] + offset <= threshold):
            depth -= 1
            continue
        k = buffers.choice[j]
        w, u = workload[k], units[k]
        if (
            u > left[depth]
            or sum_worth[depth] + worth[k] + table[group[j] + 1, need - 1, left[depth] - u] + offset <= threshold
            or contention_so_far[depth] + contention[k] > contention_cap
            or sum_power[depth] + power[k] > power_cap
        ):
            continue
        previous = choices.copy_of[w]
        if previous >= 0 and (depth == 0 or choices.workload[chosen[depth - 1]] != previous):
            continue
        if not may_follow(choices.pairs, choices.workload, chosen, depth, w, need == 1) or (
            need == 1 and of[k] == decided_last
        ):
            continue
        nodes += 1
        too_long = nodes > limits.nodes or decisions.nodes[0] > limits.decision_nodes
        if too_long or nodes - last_found > limits.patience:
            return max(undecided, bound), nodes, not too_long
        chosen[depth] = of[k]
        if need > 1:
            depth += 1
            decided_last = -1
            at[depth] = buffers.first[group[j] + 1] - 1
            sum_worth[depth] = sum_worth[depth - 1] + worth[k]
            contention_so_far[depth] = contention_so_far[depth - 1] + contention[k]
            sum_power[depth] = sum_power[depth - 1] + power[k]
            left[depth] = left[depth - 1] - u
            continue
        value = 0.0
        for d in range(residents):
            value += profit[chosen[d]]
        if value <= threshold:
            continue
        decided = decide_once(tables, choices, decisions, chosen, batch, int(BATCHES_FRACTION * limits.nodes))
        decided_last = of[k]
        if decided < 0:
            undecided = max(undecided, value)
        if decided <= 0:
            continue
        if not _grows(tables, choices, decisions, chosen):
            row = patterns.stored[0]
            patterns.size[row] = residents
            patterns.choice[row, :residents], patterns.batch[row, :residents] = chosen, batch
            patterns.value[row] = value
            patterns.stored[0], last_found = row + 1, nodes
            if row + 1 >= last_row:
                return max(undecided, bound), nodes, False
        if choices.covering:
            at[depth] = buffers.first[group[j] + 1] - 1  # smaller parts of the last resident cover less
    return undecided, nodes, False
