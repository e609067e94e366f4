"""Search over boxes of the demands on a GPU for batches at which residents fit on it.

A box has a floor and a ceiling for each total demand of the residents: L2, DRAM and power. Given these totals, the
least share of a batch does not depend on the other residents. So each box is a small knapsack problem: choose a batch
for each resident such that the least shares at the floors fit on the GPU, and the total demands are below the ceilings.
A multiplier on the contention, or an enumeration of the combinations of batches, shows that most boxes have no feasible
solution. If the enumeration takes too many steps, the box is halved.
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
"""Threshold on the relative growth of times across a box; below it, the box is enumerated completely, not halved."""

MOST_BOXES = 64
"""Largest number of boxes that wait to be searched."""

STEPS_PER_NODE = 32
"""Steps of an enumeration that count as one node; a box is a node."""

STEPS_PER_TEST = 16
"""Steps that the test of one combination of batches counts as."""

FIRST_STEPS = 2048
"""Largest number of steps of the enumeration in a box that can be halved."""

FILLS, FLOOR_RISE = 3, 0.1
"""Largest number of passes that raise the floors of a box; one follows another only after a rise by this fraction."""


@compiled
def decide(tables: Tables, choices: Choices, chosen: Ints, batch: Ints, limit: int) -> tuple[int, int]:
    """Decide whether the chosen workloads fit on one GPU at their rates with some of their batches.

    Parameters
    ----------
    chosen
        Choice of each workload, which is its rate (see ``Choices``), shape (residents,).
    batch
        Output: batches at which the workloads fit, if they do, shape (residents,).
    limit
        Node limit; ``choices.batches_limit`` applies if it is larger.

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
    demand, picked_rows = np.empty((rows, 5)), np.empty(residents, dtype=np.int64)
    waiting, least_shares = np.empty((MOST_BOXES, 2 * AXES)), np.empty((MOST_BOXES, rows), dtype=np.int16)
    waiting[0] = np.array([floors[L2], np.inf, floors[DRAM], np.inf, floors[POWER], np.inf])
    least_shares[0] = 0
    weight = np.array([tables.alpha_l2[model].mean(), tables.alpha_dram[model].mean()])
    stored, steps, nodes, box, options_written = 1, 0, 0, np.empty(2 * AXES), False
    while stored > 0:
        stored -= 1
        box[:] = waiting[stored]
        if nodes + steps // STEPS_PER_NODE >= limit:
            return -1, nodes + steps // STEPS_PER_NODE
        possible = True
        for _ in range(FILLS):
            # After a box is halved, its lower half is next. Both have the same floors, so the written options stay.
            if not options_written:
                nodes += 1
                possible = _fill(
                    tables,
                    choices,
                    model,
                    first,
                    end,
                    box,
                    weight,
                    least_shares[stored],
                    option,
                    start,
                    units,
                    demand,
                )
            options_written, former = False, box.copy()
            possible = possible and _narrow_down(tables, choices, model, box, option, start, units, demand)
            if not possible or not _higher(box, former):
                break
        if not possible:
            continue
        contention_ceiling = weight[L2] * box[2 * L2 + 1] + weight[DRAM] * box[2 * DRAM + 1]
        multiplier, excluded = best_multiplier(
            tables.share_units, contention_ceiling, CONTENTION, residents, start, units, demand
        )
        if not excluded and tables.throttle_per_w < 0.0:
            power_ceiling = box[2 * POWER + 1]
            _, excluded = best_multiplier(tables.share_units, power_ceiling, POWER, residents, start, units, demand)
        if excluded:
            continue
        axis, growth = _axis_of_most_growth(tables, model, box)
        narrow = growth < NARROW_GROWTH or stored + 2 > MOST_BOXES
        most_steps = (limit - nodes) * STEPS_PER_NODE - steps if narrow else FIRST_STEPS
        ceiling = np.array(
            [
                box[1],
                box[3],
                box[5],
                tables.memory_limit_mib,
                contention_ceiling,
                tables.share_units + multiplier * contention_ceiling,
            ]
        ) * (1.0 + MARGIN)
        least_units, rest = least_sums(len(ceiling), multiplier, residents, start, units, demand)
        picked_rows[0] = -1
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
                picked_rows,
                most_steps - used,
            )
            used += taken
            if found:
                used += STEPS_PER_TEST
                if _fit(tables, choices, chosen, option[picked_rows], batch):
                    return 1, nodes + (steps + used) // STEPS_PER_NODE
        steps += used
        if used <= most_steps:
            continue  # no combination of batches is feasible in this box
        if narrow:
            return -1, nodes + steps // STEPS_PER_NODE
        middle = (box[2 * axis] + box[2 * axis + 1]) / 2.0
        # The lower half comes last, so it is searched first: less interference leaves more room.
        least_shares[stored + 1] = least_shares[stored]
        for half in (1, 0):
            waiting[stored] = box
            waiting[stored, 2 * axis + 1 - half] = middle
            stored += 1
        options_written = True
    return 0, nodes + steps // STEPS_PER_NODE


@compiled
def _higher(box: Floats, former: Floats) -> bool:
    """Return whether a floor has risen by more than ``FLOOR_RISE`` of the way from the former floor to the ceiling."""
    for axis in range(AXES):
        if box[2 * axis] - former[2 * axis] > FLOOR_RISE * (box[2 * axis + 1] - former[2 * axis]):
            return True
    return False


@compiled
def _axis_of_most_growth(tables: Tables, model: Ints, box: Floats) -> tuple[int, float]:
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
def _fit(tables: Tables, choices: Choices, chosen: Ints, picked_options: Ints, batch: Ints) -> bool:
    """Return whether the chosen workloads fit with the picked options; their batches are written to ``batch``."""
    residents = len(chosen)
    model, units = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64)
    budget = np.empty((residents, choices.budget_ms.shape[1]))
    memory = 0.0
    for j in range(residents):
        model[j] = choices.model[chosen[j]]
        batch[j], units[j] = choices.batch[picked_options[j]], choices.lower_units[picked_options[j]]
        for u in range(budget.shape[1]):
            budget[j, u] = choices.budget_ms[picked_options[j], u]
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
    least_shares: NDArray[np.int16],
    option: Ints,
    start: Ints,
    units: Ints,
    demand: Floats,
) -> bool:
    """Write the options that fit at the floors of a box; return ``False`` if some resident has none.

    Resident j has the rows ``start[j]`` to ``start[j + 1] - 1``, by increasing share. ``least_shares`` has lower bounds
    on the least share of every option, in order, and is overwritten with the least shares in the box. ``weight`` has
    the weights of L2 and DRAM in the contention.
    """
    residents, count, position = len(model), 0, -1
    for j in range(residents):
        m, start[j] = model[j], count
        for o in range(first[j], end[j]):
            position += 1
            if least_shares[position] > tables.share_units:
                continue
            b, least = choices.batch[o], max(choices.lower_units[o], least_shares[position])
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
            least_shares[position] = u
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
