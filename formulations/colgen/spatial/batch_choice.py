"""Choice of a batch for each resident, such that their shares fit on a GPU and their demands stay below ceilings.

Options are rows: resident j has the rows ``start[j]`` to ``start[j + 1] - 1``, by increasing share.
"""

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled

L2, DRAM, POWER, MEMORY, CONTENTION = range(5)
"""Columns of the demands of an option.

Contention is the sum of L2 and DRAM demands, weighted with the residents' mean growths.
"""

AXES = 3
"""Number of the first columns, which are the axes of a box in ``totals`` and of the grid in ``known_demands``."""

ROUNDS = 24
"""Steps of the bisection for a multiplier."""


@compiled
def best_multiplier(
    capacity: int, ceiling: float, axis: int, residents: int, start: Ints, units: Ints, demand: Floats
) -> tuple[float, bool]:
    """Return a multiplier on a demand, and whether it proves that no choice meets capacity and ceiling together.

    The least sum of ``units + multiplier * demand`` is then above the largest that both limits allow. This difference
    is concave in the multiplier, so that bisection finds its maximum.
    """
    low, high, multiplier, best, best_gap = 0.0, -1.0, 0.0, 0.0, 0.0
    for _ in range(ROUNDS):
        worth, total_demand = 0.0, 0.0
        for j in range(residents):
            own, own_demand = np.inf, 0.0
            for row in range(start[j], start[j + 1]):
                value = units[row] + multiplier * demand[row, axis]
                if value < own:
                    own, own_demand = value, demand[row, axis]
            worth += own
            total_demand += own_demand
        gap = worth - capacity - multiplier * ceiling
        if gap > best_gap or multiplier == 0.0:
            best, best_gap = multiplier, gap
        if gap > 1e-6 * (capacity + multiplier * ceiling):
            return multiplier, True
        if total_demand > ceiling:
            low = multiplier
            if high < 0.0 and multiplier * ceiling > 1e4 * capacity:
                break
        else:
            high = multiplier
        if multiplier == 0.0 and high == 0.0:
            break
        multiplier = (low + high) / 2.0 if high >= 0.0 else max(2.0 * multiplier, 0.1 * capacity / max(ceiling, 1e-9))
    return best, False


@compiled
def least_sums(
    columns: int, multiplier: float, residents: int, start: Ints, units: Ints, demand: Floats
) -> tuple[Ints, Floats]:
    """Return the least sums of shares and of each column over the residents from each one on; see ``next_choice``."""
    least_units, rest = np.zeros(residents + 1, dtype=np.int64), np.zeros((residents + 1, columns))
    for j in range(residents - 1, -1, -1):
        least_units[j] = least_units[j + 1] + units[start[j]]
        for column in range(columns):
            least = np.inf
            for row in range(start[j], start[j + 1]):
                least = min(least, _in_column(units, demand, row, column, multiplier))
            rest[j, column] = rest[j + 1, column] + least
    return least_units, rest


@compiled
def next_choice(
    capacity: int,
    ceiling: Floats,
    multiplier: float,
    residents: int,
    least_units: Ints,
    rest: Floats,
    start: Ints,
    units: Ints,
    demand: Floats,
    at: Ints,
    most_steps: int,
) -> tuple[bool, int]:
    """Advance ``at`` to the next choice of rows that meets all limits; return whether one was found, and the steps.

    ``at[0]`` is -1 before the first choice. If the steps are more than ``most_steps``, the enumeration was cut short.
    ``ceiling`` has the limits on the demands, and on the sum of shares and contention times ``multiplier``;
    ``least_units`` and ``rest`` are ``least_sums``.
    """
    columns = len(ceiling)
    so_far, used_units = np.zeros((residents + 1, columns)), np.zeros(residents + 1, dtype=np.int64)
    depth, steps = 0, 0
    if at[0] >= 0:  # go on behind the last choice
        depth = residents - 1
        for j in range(depth):
            used_units[j + 1] = used_units[j] + units[at[j]]
            for column in range(columns):
                so_far[j + 1, column] = so_far[j, column] + _in_column(units, demand, at[j], column, multiplier)
    else:
        at[0] = start[0] - 1
    while depth >= 0:
        at[depth] += 1
        row, later = at[depth], depth + 1
        steps += 1
        if steps > most_steps:
            return False, steps
        if row >= start[later] or used_units[depth] + units[row] + least_units[later] > capacity:
            depth -= 1
            continue
        used_units[later], within = used_units[depth] + units[row], True
        for column in range(columns):
            so_far[later, column] = so_far[depth, column] + _in_column(units, demand, row, column, multiplier)
            within = within and so_far[later, column] + rest[later, column] <= ceiling[column]
        if not within:
            continue
        if later == residents:
            return True, steps
        depth = later
        at[depth] = start[depth] - 1
    return False, steps


@compiled
def _in_column(units: Ints, demand: Floats, row: int, column: int, multiplier: float) -> float:
    """Return a demand of a row; in the last column, its share with the charge for its contention."""
    return units[row] + multiplier * demand[row, CONTENTION] if column > CONTENTION else demand[row, column]
