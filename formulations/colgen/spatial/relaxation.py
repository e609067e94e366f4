"""Relaxation of the pricing problem in one box: multipliers for the ceilings, dynamic programming for the rest."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.interference_boxes import MARGIN, step_multipliers
from instances.arrays import Floats, Ints


@njit(cache=True)
def completion_table(
    first: Ints,
    units: NDArray[np.int16],
    worth: Floats,
    usable: NDArray[np.bool_],
    residents: int,
    capacity: int,
    table: Floats,
) -> None:
    """Fill ``table[w, n, s]``: the largest worth of exactly n of the workloads w, w + 1, ... within s units, or -inf.

    Parameters
    ----------
    first
        Choices of workload w are ``first[w]`` to ``first[w + 1] - 1``.
    units, worth, usable
        Share, worth and usability of each choice; choices that are not usable are left out.
    residents, capacity
        Largest values of n and s.
    table
        Output, shape (workloads + 1, at least residents + 1, capacity + 1).
    """
    workloads = len(first) - 1
    table[workloads, 0, :] = 0.0
    table[workloads, 1 : residents + 1, :] = -np.inf
    for w in range(workloads - 1, -1, -1):
        for n in range(residents + 1):
            for s in range(capacity + 1):
                table[w, n, s] = table[w + 1, n, s]
        for k in range(first[w], first[w + 1]):
            if not usable[k]:
                continue
            u, value = units[k], worth[k]
            for n in range(1, residents + 1):
                for s in range(u, capacity + 1):
                    table[w, n, s] = max(table[w, n, s], value + table[w + 1, n - 1, s - u])


@njit(cache=True)
def best_of_table(
    first: Ints,
    units: NDArray[np.int16],
    worth: Floats,
    usable: NDArray[np.bool_],
    residents: int,
    capacity: int,
    table: Floats,
    chosen: Ints,
) -> None:
    """Write the choices that attain ``table[0, residents, capacity]``, shape (residents,)."""
    n, s, w = residents, capacity, 0
    while n > 0:
        if table[w, n, s] != table[w + 1, n, s]:
            for k in range(first[w], first[w + 1]):
                u = units[k]
                if usable[k] and u <= s and table[w, n, s] == worth[k] + table[w + 1, n - 1, s - u]:
                    chosen[residents - n] = k
                    n -= 1
                    s -= u
                    break
        w += 1


@njit(cache=True)
def relax_box(
    first: Ints,
    box: Floats,
    capacity: int,
    units: NDArray[np.int16],
    l2: Floats,
    power: Floats,
    profit: Floats,
    threshold: float,
    multipliers: Floats,
    rounds: int,
    worth: Floats,
    usable: NDArray[np.bool_],
    table: Floats,
    chosen: Ints,
) -> tuple[float, float, float]:
    """Bound the sum of profits in a box; stop at or below ``threshold``, or after ``rounds`` steps.

    Choices without profit are left out: the pattern without them is worth at least as much.

    Parameters
    ----------
    first, capacity
        See ``completion_table``.
    box
        A row of ``Takes.box``.
    units, l2, power
        Rows of ``Takes``.
    profit
        Profit of each choice.
    threshold
        Value at which the bound is good enough.
    multipliers
        Multipliers of L2 and power to start from, shape (2,); overwritten with those of the best bound.
    rounds
        Largest number of steps.
    worth, usable, table, chosen
        Output: profits minus multiplier charges, the choices that count, the table, and the choices of the last relaxed
        solution.

    Returns
    -------
    bound, l2_cap, power_cap : float
        The bound (-inf for an empty box), and the finite ceilings that it was computed with.
    """
    residents = int(box[0])
    l2_most, power_most = 0.0, 0.0
    for k in range(len(profit)):
        usable[k] = profit[k] > 0.0 and units[k] <= capacity
        if usable[k]:
            l2_most, power_most = max(l2_most, l2[k]), max(power_most, power[k])
    # A ceiling above the sum of the largest demands does not bind.
    l2_cap = min(box[2], residents * l2_most) * (1.0 + MARGIN)
    power_cap = min(box[4], residents * power_most) * (1.0 + MARGIN)
    best, best_l2, best_power = np.inf, multipliers[0], multipliers[1]
    for step in range(rounds + 1):
        if step == rounds:
            multipliers[0], multipliers[1] = best_l2, best_power
        for k in range(len(profit)):
            if usable[k]:
                worth[k] = profit[k] - multipliers[0] * l2[k] - multipliers[1] * power[k]
        completion_table(first, units, worth, usable, residents, capacity, table)
        top = table[0, residents, capacity]
        if top == -np.inf:
            return -np.inf, l2_cap, power_cap
        bound = top + multipliers[0] * l2_cap + multipliers[1] * power_cap
        if bound < best:
            best, best_l2, best_power = bound, multipliers[0], multipliers[1]
        if best <= threshold or step == rounds:
            break
        best_of_table(first, units, worth, usable, residents, capacity, table, chosen)
        l2_sum, power_sum = 0.0, 0.0
        for j in range(residents):
            l2_sum += l2[chosen[j]]
            power_sum += power[chosen[j]]
        if not step_multipliers(multipliers, l2_sum - l2_cap, power_sum - power_cap, bound - threshold):
            break
    return best, l2_cap, power_cap
