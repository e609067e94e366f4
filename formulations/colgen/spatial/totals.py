"""Search over boxes of the demands on a GPU for batches at which residents fit on it.

Given the total L2, DRAM and power demands, the least share of each batch does not depend on the other residents. So in
a box of totals the question is a small knapsack: choose a batch for each resident such that the shares at the floors of
the box fit on the GPU, and the demands below its ceilings. A multiplier on the contention, or an enumeration of the
batches, shows that most boxes have no solution. A box whose solutions are not feasible is halved.
"""

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.interference_boxes import least_share_beside
from formulations.colgen.spatial.batch_choice import (
    AXES,
    CONTENTION,
    DRAM,
    L2,
    MEMORY,
    POWER,
    best_multiplier,
    least_sums,
    next_choice,
)
from formulations.colgen.spatial.choices import Choices
from formulations.colgen.spatial.known_demands import floors_of_fit
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.least_shares import raise_to_feasible
from instances.tables import Tables
from instances.tolerance import MARGIN

NARROW_GROWTH = 5e-4
"""Relative growth of a time across a box below which all its batches are enumerated, and the box is not halved."""

MOST_BOXES = 64
"""Number of boxes that may wait."""

STEPS_PER_NODE = 32
"""Steps of an enumeration that count as one node; a box is a node."""

STEPS_PER_TEST = 16
"""Steps that the test of a choice of batches counts as."""

FIRST_STEPS = 2048
"""Largest number of steps of the enumeration in a box that can be halved."""

FILLS, FLOOR_RISE = 3, 0.1
"""Largest number of times that the floors of a box are raised, and the least rise, as a part of it, for another."""


@compiled
def decide(tables: Tables, choices: Choices, chosen: Ints, batch: Ints, limit: int) -> tuple[int, int]:
    """Decide whether the chosen workloads fit on one GPU at their rates with some of their batches.

    Parameters
    ----------
    chosen
        The choices, shape (residents,).
    batch
        Output if they fit, shape (residents,).
    limit
        Node limit, if it is more than ``choices.batches_limit``.

    Returns
    -------
    decided : int
        1 if they fit, 0 if no batches make them fit, -1 if the node limit was reached.
    nodes : int
        Number of nodes visited.
    """
    residents, limit = len(chosen), max(limit, choices.batches_limit)
    first, end = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64)
    model, rows = choices.model[chosen], 0
    for j in range(residents):
        first[j], end[j] = choices.option[chosen[j]], choices.option[chosen[j] + 1]
        rows += end[j] - first[j]
    floors = np.empty(AXES)
    if not floors_of_fit(
        choices.known,
        tables,
        chosen,
        model,
        first,
        end,
        choices.batch,
        choices.lower_units,
        choices.budget_ms,
        floors,
    ):
        return 0, 1
    option, start, units = (
        np.empty(rows, dtype=np.int64),
        np.empty(residents + 1, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
    )
    demand, at = np.empty((rows, 5)), np.empty(residents, dtype=np.int64)
    waiting, known = np.empty((MOST_BOXES, 2 * AXES)), np.empty((MOST_BOXES, rows), dtype=np.int16)
    waiting[0] = np.array([floors[L2], np.inf, floors[DRAM], np.inf, floors[POWER], np.inf])
    known[0] = 0
    weight = np.array([tables.alpha_l2[model].mean(), tables.alpha_dram[model].mean()])
    stored, steps, nodes, box, filled = 1, 0, 0, np.empty(2 * AXES), False
    while stored > 0:
        stored -= 1
        box[:] = waiting[stored]
        if nodes + steps // STEPS_PER_NODE >= limit:
            return -1, nodes + steps // STEPS_PER_NODE
        possible = True
        for _ in range(FILLS):
            if not filled:  # a lower half has the floors of the box before it
                nodes += 1
                possible = _fill(
                    tables, choices, model, first, end, box, weight, known[stored], option, start, units, demand
                )
            filled, former = False, box.copy()
            possible = possible and _narrow_down(tables, choices, model, box, option, start, units, demand)
            if not possible or not _higher(box, former):
                break
        if not possible:
            continue
        contention = weight[L2] * box[2 * L2 + 1] + weight[DRAM] * box[2 * DRAM + 1]
        multiplier, excluded = best_multiplier(
            tables.share_units, contention, CONTENTION, residents, start, units, demand
        )
        if not excluded and tables.throttle_per_w < 0.0:
            power = box[2 * POWER + 1]
            _, excluded = best_multiplier(tables.share_units, power, POWER, residents, start, units, demand)
        if excluded:
            continue
        axis, growth = _longest(tables, model, box)
        narrow = growth < NARROW_GROWTH or stored + 2 > MOST_BOXES
        most_steps = (limit - nodes) * STEPS_PER_NODE - steps if narrow else FIRST_STEPS
        ceiling = np.array(
            [box[1], box[3], box[5], tables.memory_limit_mib, contention, tables.share_units + multiplier * contention]
        ) * (1.0 + MARGIN)
        least_units, rest = least_sums(len(ceiling), multiplier, residents, start, units, demand)
        at[0] = -1
        found, used = True, 0
        while found and used <= most_steps:
            found, taken = next_choice(
                tables.share_units,
                ceiling,
                multiplier,
                residents,
                least_units,
                rest,
                start,
                units,
                demand,
                at,
                most_steps - used,
            )
            used += taken
            if found:
                used += STEPS_PER_TEST
                if _fit(tables, choices, chosen, option[at], batch):
                    return 1, nodes + (steps + used) // STEPS_PER_NODE
        steps += used
        if used <= most_steps:
            continue  # no choice of batches is feasible in this box
        if narrow:
            return -1, nodes + steps // STEPS_PER_NODE
        middle = (box[2 * axis] + box[2 * axis + 1]) / 2.0
        # The lower half comes last, so it is searched first: less interference leaves more room.
        known[stored + 1] = known[stored]
        for half in (1, 0):
            waiting[stored] = box
            waiting[stored, 2 * axis + 1 - half] = middle
            stored += 1
        filled = True
    return 0, nodes + steps // STEPS_PER_NODE


@compiled
def _higher(box: Floats, former: Floats) -> bool:
    """Return whether a floor of the box has risen by more than a part of the box."""
    for axis in range(AXES):
        if box[2 * axis] - former[2 * axis] > FLOOR_RISE * (box[2 * axis + 1] - former[2 * axis]):
            return True
    return False


@compiled
def _longest(tables: Tables, model: Ints, box: Floats) -> tuple[int, float]:
    """Return the axis of a box along which times grow most, and this growth."""
    l2, dram = 0.0, 0.0
    for m in model:
        l2, dram = max(l2, abs(tables.alpha_l2[m])), max(dram, abs(tables.alpha_dram[m]))
    free_w = max(0.0, tables.max_power_w - tables.idle_power_w)
    by_power = -tables.throttle_per_w * max(0.0, box[5] - max(box[4], free_w))
    growth = np.array([l2 * (box[1] - box[0]), dram * (box[3] - box[2]), by_power])
    axis = int(np.argmax(growth))
    return axis, growth[axis]


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
def _fill(
    tables: Tables,
    choices: Choices,
    model: Ints,
    first: Ints,
    end: Ints,
    box: Floats,
    weight: Floats,
    known: NDArray[np.int16],
    option: Ints,
    start: Ints,
    units: Ints,
    demand: Floats,
) -> bool:
    """Write the options that fit at the floors of a box; return ``False`` if some resident has none.

    Resident j has the rows ``start[j]`` to ``start[j + 1] - 1``, by increasing share. ``known`` has lower bounds on the
    least share of every option, in order, and is overwritten with the least shares. ``weight`` has those of L2 and DRAM
    in the contention.
    """
    residents, count, at = len(model), 0, -1
    for j in range(residents):
        m, start[j] = model[j], count
        for o in range(first[j], end[j]):
            at += 1
            if known[at] > tables.share_units:
                continue
            b, least = choices.batch[o], max(choices.lower_units[o], known[at])
            u = least_share_beside(
                tables,
                m,
                b,
                least,
                choices.budget_ms,
                o,
                1.0 + MARGIN,
                residents,
                box[2 * L2],
                box[2 * POWER],
                box[2 * DRAM],
            )
            known[at] = u
            if u > tables.share_units:
                continue
            row = count
            while row > start[j] and units[row - 1] > u:
                units[row], option[row] = units[row - 1], option[row - 1]
                demand[row] = demand[row - 1]
                row -= 1
            units[row], option[row] = u, o
            demand[row, L2], demand[row, DRAM] = tables.l2_pct[m, b, u], tables.dram_pct[m, b, u]
            demand[row, POWER], demand[row, MEMORY] = tables.power_w[m, b, u], tables.memory_mib[m, b]
            demand[row, CONTENTION] = weight[L2] * demand[row, L2] + weight[DRAM] * demand[row, DRAM]
            count += 1
        if count == start[j]:
            return False
    start[residents] = count
    return True


@compiled
def _narrow_down(
    tables: Tables,
    choices: Choices,
    model: Ints,
    box: Floats,
    option: Ints,
    start: Ints,
    units: Ints,
    demand: Floats,
) -> bool:
    """Raise the floors of a box to the least demands, and lower its ceilings to the largest; ``False`` if it is empty.

    No resident has more share than the least shares of the others leave, and no demand falls as the share grows.
    """
    residents, total = len(model), 0
    for j in range(residents):
        total += units[start[j]]
    if total > tables.share_units:
        return False
    least, most = np.zeros(AXES), np.zeros(AXES)
    for j in range(residents):
        m, most_units = model[j], tables.share_units - total + units[start[j]]
        own_least, own_most = np.full(AXES, np.inf), np.zeros(AXES)
        for row in range(start[j], start[j + 1]):
            if units[row] > most_units:
                break
            b = choices.batch[option[row]]
            own_most[L2] = max(own_most[L2], tables.l2_pct[m, b, most_units])
            own_most[DRAM] = max(own_most[DRAM], tables.dram_pct[m, b, most_units])
            own_most[POWER] = max(own_most[POWER], tables.power_w[m, b, most_units])
            for axis in range(AXES):
                own_least[axis] = min(own_least[axis], demand[row, axis])
        for axis in range(AXES):
            least[axis] += own_least[axis]
            most[axis] += own_most[axis]
    for axis in range(AXES):
        box[2 * axis] = max(box[2 * axis], least[axis] * (1.0 - MARGIN))
        box[2 * axis + 1] = min(box[2 * axis + 1], most[axis] * (1.0 + MARGIN))
        if box[2 * axis] > box[2 * axis + 1] * (1.0 + MARGIN):
            return False
    return True
