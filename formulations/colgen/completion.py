"""Completion table of a pricing problem: the largest worth that the missing residents of a GPU can add.

The pricing problems of all plan classes use it. After the multipliers have charged for the demands, a box leaves a
knapsack: groups (workloads, or classes of identical ones) make offers, each a number of slots with a share and a worth.
A GPU takes at most one offer of each group.
"""

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Floats, Ints
from instances.compiled import compiled


@compiled
def completion_table(
    first: Ints,
    slots: Ints,
    units: NDArray[np.int16],
    worth: Floats,
    exactly: bool,
    residents: int,
    capacity: int,
    table: Floats,
) -> None:
    """Fill ``table[w, n, s]``: the largest worth of n slots of the groups w, w + 1, ... within s units, or -inf.

    Parameters
    ----------
    first
        Offers of group w are ``first[w]`` to ``first[w + 1] - 1``.
    slots, units, worth
        Number of slots, share and worth of each offer.
    exactly
        Whether exactly n slots are taken, or at most n.
    residents, capacity
        Largest values of n and s.
    table
        Output, shape (groups + 1, at least residents + 1, capacity + 1).
    """
    groups = len(first) - 1
    table[groups, 0, :] = 0.0
    table[groups, 1 : residents + 1, :] = -np.inf if exactly else 0.0
    for w in range(groups - 1, -1, -1):
        for n in range(residents + 1):
            row, rest = table[w, n], table[w + 1, n]
            for s in range(capacity + 1):
                row[s] = rest[s]
        for k in range(first[w], first[w + 1]):
            u, value = units[k], worth[k]
            for n in range(slots[k], residents + 1):
                row, rest = table[w, n, u : capacity + 1], table[w + 1, n - slots[k]]
                for s in range(len(row)):
                    added, before = value + rest[s], row[s]
                    row[s] = added if added > before else before  # max() would not be vectorised


@compiled
def best_of_table(
    first: Ints,
    slots: Ints,
    units: NDArray[np.int16],
    worth: Floats,
    residents: int,
    capacity: int,
    table: Floats,
    begin: int,
    chosen: Ints,
) -> int:
    """Write the offers that attain ``table[begin, residents, capacity]``; return their number."""
    n, s, count = residents, capacity, 0
    for w in range(begin, len(first) - 1):
        if table[w, n, s] == table[w + 1, n, s]:
            continue
        for k in range(first[w], first[w + 1]):
            u, left = units[k], n - slots[k]
            if left >= 0 and u <= s and table[w, n, s] == worth[k] + table[w + 1, left, s - u]:
                chosen[count] = k
                count += 1
                n -= slots[k]
                s -= u
                break
    return count
