"""Relaxation of the pricing problem in one box: multipliers for the ceilings, dynamic programming for the rest."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.completion import best_of_table, completion_table
from formulations.colgen.interference_boxes import L2, POWER, RESIDENTS
from formulations.colgen.multipliers import climb
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tolerance import MARGIN

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
def _by_units(units: NDArray[np.int16], profit: Floats, capacity: int) -> Ints:
    """Return the choices of positive profit that fit on the GPU, by increasing share."""
    place = np.zeros(capacity + 2, dtype=np.int64)
    for k in range(len(profit)):
        if profit[k] > 0.0 and units[k] <= capacity:
            place[units[k] + 1] += 1
    place = np.cumsum(place)
    listed = np.empty(place[-1], dtype=np.int64)
    for k in range(len(profit)):
        if profit[k] > 0.0 and units[k] <= capacity:
            listed[place[units[k]]] = k
            place[units[k]] += 1
    return listed


@compiled
def undominated(
    workload: Ints, units: NDArray[np.int16], worth: Floats, by_units: Ints, residents: int, kept: Ints
) -> int:
    """Write choices that some best solution consists of, in increasing order; return their number.

    A choice is dominated if ``residents`` other workloads have choices that are worth as much and take no larger share:
    one of these is not in the solution and replaces it. So at most ``residents`` choices of each share are kept.

    Parameters
    ----------
    by_units
        The choices among which to choose, by increasing share.
    kept
        Output, at least as long as ``by_units``.
    """
    best = np.empty(residents, dtype=np.int64)  # choices of different workloads so far, by decreasing worth
    size, stored, begin = 0, 0, 0
    while begin < len(by_units):
        share, at = units[by_units[begin]], begin
        while at < len(by_units) and units[by_units[at]] == share:
            k = by_units[at]
            at += 1
            if size == residents and worth[k] <= worth[best[size - 1]]:
                continue
            place = 0
            while place < size and workload[best[place]] != workload[k]:
                place += 1
            if place < size and worth[k] <= worth[best[place]]:
                continue
            if place == size:
                size = min(size + 1, residents)
                place = size - 1
            while place > 0 and worth[best[place - 1]] < worth[k]:
                best[place] = best[place - 1]
                place -= 1
            best[place] = k
        for j in range(size):
            if units[best[j]] == share:
                kept[stored] = best[j]
                stored += 1
        begin = at
    kept[:stored].sort()
    return stored


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
        True,
        residents,
        capacity,
        buffers.table,
    )
    return groups


@compiled
def relax_box(
    workload: Ints,
    box: Floats,
    capacity: int,
    units: NDArray[np.int16],
    l2: Floats,
    power: Floats,
    profit: Floats,
    threshold: float,
    multipliers: Floats,
    buffers: Buffers,
) -> tuple[float, float, float, int]:
    """Bound the sum of profits in a box; stop at or below ``threshold``.

    Choices without profit are left out: the pattern without them is worth at least as much.

    Parameters
    ----------
    workload, profit
        Workload and profit of each choice.
    box
        A row of ``LeastDemands.box``.
    capacity
        Share units of the GPU.
    units, l2, power
        Rows of ``LeastDemands``.
    multipliers
        Multipliers of L2 and power to start from, shape (2,); overwritten with those of the best bound.
    buffers
        Output. If the bound is above the threshold, the contenders are the choices that a solution above it may hold.

    Returns
    -------
    bound, l2_cap, power_cap : float
        The bound (-inf for an empty box), and the finite ceilings that it was computed with.
    contenders : int
        Number of contenders.
    """
    residents = int(box[RESIDENTS])
    worth, table = buffers.worth, buffers.table
    by_units = _by_units(units, profit, capacity)
    l2_most, power_most = 0.0, 0.0
    for k in by_units:
        l2_most, power_most = max(l2_most, l2[k]), max(power_most, power[k])
    # A ceiling above the sum of the largest demands does not bind.
    l2_cap = min(box[L2 + 1], residents * l2_most) * (1.0 + MARGIN)
    power_cap = min(box[POWER + 1], residents * power_most) * (1.0 + MARGIN)
    best, chosen = np.array([np.inf, 0.0, 0.0]), np.empty(residents, dtype=np.int64)
    step, going = 0, True
    while going:
        for k in by_units:
            worth[k] = profit[k] - multipliers[0] * l2[k] - multipliers[1] * power[k]
        count = undominated(workload, units, worth, by_units, residents, buffers.choice)
        groups = complete(workload, units, residents, capacity, count, buffers)
        top = table[0, residents, capacity]
        if top == -np.inf:
            return -np.inf, l2_cap, power_cap, 0
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
        l2_sum, power_sum = 0.0, 0.0
        for j in chosen:
            l2_sum += l2[buffers.choice[j]]
            power_sum += power[buffers.choice[j]]
        going = climb(multipliers, best, top, l2_sum, power_sum, l2_cap, power_cap, threshold, step, ROUNDS)
        step += 1
    if best[0] <= threshold:
        return best[0], l2_cap, power_cap, 0
    offset = multipliers[0] * l2_cap + multipliers[1] * power_cap
    beside = table[0, residents - 1].copy()
    count = 0
    by_units.sort()
    for k in by_units:
        if worth[k] + beside[capacity - units[k]] + offset > threshold:
            buffers.choice[count] = k
            count += 1
    complete(workload, units, residents, capacity, count, buffers)
    return best[0], l2_cap, power_cap, count
