"""Knapsack bound of a box, in whole numbers.

A box holds the patterns with N residents whose total demand C and power P lie between floors and ceilings. At the
floors every alternative (a candidate at a batch and share) has a least share, demand and power; a pattern in the box
therefore satisfies ``sum of shares <= the GPU``, ``sum of demands <= ceiling of C``, ``sum of powers <= ceiling of P``.
For any multipliers ``l, m >= 0`` its worth is at most ``max sum (worth - l demand - m power) + l ceiling + m ceiling``
over N seats within the shares: a knapsack, solved exactly by dynamic programming.
"""

from typing import NamedTuple

import numpy as np

from bench.certificate.boxes import BoxLimits
from bench.certificate.certificate import MOST
from bench.certificate.failures import GivenUpError
from instances.arrays import Flags, Ints
from instances.compiled import compiled

NOTHING, UNBOUNDED = -(2**60), 2**60
"""Worth of an impossible choice, and bound of a box before the first step."""

MOST_CHARGE, MOST_CHARGES = 2.0**54, 2.0**60
"""Largest charge of a multiplier for its ceiling, and of all residents together, so that sums fit 64 bits."""

MOST_WORTH = 2**58
"""Largest worth of a pattern: every sum of worths and charges differs from ``NOTHING`` and ``UNBOUNDED``."""


def check_worth(largest: float, residents: int) -> None:
    """Check that the worths of patterns fit 64 bits, where no resident is worth more than ``largest``.

    Raises
    ------
    GivenUpError
        If they do not.
    """
    if not (largest <= MOST and largest * residents <= MOST_WORTH):
        raise GivenUpError("worths of slots are too large to be added in 64 bits")


class Alternatives(NamedTuple):
    """Alternatives at a box's floors, each array of shape (alternatives,); seats ascend.

    A class of identical workloads has a seat for each workload, at most one for each resident.

    Attributes
    ----------
    seat, earlier
        Its seat, and the seat of the same class before it, or -1.
    candidate, option
        Its candidate, and its option, or -1 if it stands for all of them.
    units, worth, l2, power
        Share, worth and demands.
    """

    seat: Ints
    earlier: Ints
    candidate: Ints
    option: Ints
    units: Ints
    worth: Ints
    l2: Ints
    power: Ints


@compiled
def by_units(given: Alternatives, limits: BoxLimits, capacity: int) -> Ints:
    """Return the alternatives that fit below the ceilings, by increasing share."""
    count = np.zeros(capacity + 2, dtype=np.int64)
    for k, u in enumerate(given.units):
        if u <= capacity and given.l2[k] <= limits.l2_most and given.power[k] <= limits.power_most:
            count[u + 1] += 1
    place = np.cumsum(count)
    order = np.empty(place[-1], dtype=np.int64)
    for k, u in enumerate(given.units):
        if u <= capacity and given.l2[k] <= limits.l2_most and given.power[k] <= limits.power_most:
            order[place[u]] = k
            place[u] += 1
    return order


@compiled
def undominated(order: Ints, seat: Ints, worth: Ints, residents: int, keep: Flags) -> None:
    """Mark alternatives that suffice for a best choice of at most ``residents`` seats.

    An alternative is left out if an earlier one of its own seat, or ``residents`` earlier ones of different seats, are
    worth as much. One of these is free to take its place: earlier ones take no larger share.
    """
    best_worth, best_seat, size = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64), 0
    keep[:] = False
    for k in order:
        own = 0
        while own < size and best_seat[own] != seat[k]:
            own += 1
        if own < size:
            if best_worth[own] >= worth[k]:
                continue
        elif size == residents:
            own = size - 1
            if best_worth[own] >= worth[k]:
                continue
        else:
            size += 1
        while own > 0 and best_worth[own - 1] < worth[k]:
            best_worth[own], best_seat[own] = best_worth[own - 1], best_seat[own - 1]
            own -= 1
        best_worth[own], best_seat[own] = worth[k], seat[k]
        keep[k] = True


@compiled
def fill_table(kept: Ints, seat: Ints, units: Ints, worth: Ints, residents: int, table: Ints, first: Ints) -> int:
    """Fill ``table[g, n, s]``: the largest worth of exactly n of the seats g, g + 1, ... within s units.

    Alternatives ``kept[first[g]]`` to ``kept[first[g + 1] - 1]`` belong to seat number g. Return the number of seats.
    """
    groups = 0
    for j in range(len(kept)):
        if j == 0 or seat[kept[j]] != seat[kept[j - 1]]:
            first[groups] = j
            groups += 1
    first[groups] = len(kept)
    capacity = table.shape[2] - 1
    table[groups, 0, :] = 0
    table[groups, 1 : residents + 1, :] = NOTHING
    for g in range(groups - 1, -1, -1):
        table[g, : residents + 1] = table[g + 1, : residents + 1]
        for j in range(first[g], first[g + 1]):
            u, value = units[kept[j]], worth[kept[j]]
            for n in range(1, residents + 1):
                row, rest = table[g, n, u:], table[g + 1, n - 1]
                for s in range(capacity + 1 - u):
                    added, before = value + rest[s], row[s]
                    row[s] = added if added > before else before
    return groups


@compiled
def demands_of_best(
    kept: Ints, given: Alternatives, worth: Ints, residents: int, table: Ints, first: Ints
) -> tuple[int, int]:
    """Return the total demand and power of a choice that attains the table's best worth."""
    g, n, s, l2, power = 0, residents, table.shape[2] - 1, 0, 0
    while n > 0:
        if table[g, n, s] != table[g + 1, n, s]:
            for j in range(first[g], first[g + 1]):
                k = kept[j]
                u = given.units[k]
                if u <= s and table[g, n, s] == worth[k] + table[g + 1, n - 1, s - u]:
                    l2, power = l2 + given.l2[k], power + given.power[k]
                    n, s = n - 1, s - u
                    break
        g += 1
    return l2, power


@compiled
def polyak_step(
    multipliers: Ints,
    over: tuple[float, float],
    scale: tuple[float, float],
    most: tuple[float, float],
    excess: int,
) -> bool:
    """Move the multipliers by a step; return whether a choice is ``over`` the ceilings at all.

    ``over`` is in units of ``scale``. Any multiplier is valid; beyond ``most`` its products would not fit 64 bits.
    """
    over_l2, over_power = over
    if multipliers[0] == 0:
        over_l2 = max(over_l2, 0.0)
    if multipliers[1] == 0:
        over_power = max(over_power, 0.0)
    norm = over_l2 * over_l2 + over_power * over_power
    if norm < 1e-6:
        return False
    length = excess / norm
    multipliers[0] = int(min(most[0], max(0.0, multipliers[0] + length * over_l2 / scale[0])))
    multipliers[1] = int(min(most[1], max(0.0, multipliers[1] + length * over_power / scale[1])))
    return True


@compiled
def bound_box(
    given: Alternatives,
    limits: BoxLimits,
    threshold: int,
    multipliers: Ints,
    rounds: int,
    worth: Ints,
    table: Ints,
    first: Ints,
) -> int:
    """Return an upper bound on the worth of the patterns in a box; stop once it is at most ``threshold``.

    Parameters
    ----------
    given, limits
        Alternatives at the box's floors, and the limits of its demands.
    multipliers
        Multipliers to start from, at least 0, shape (2,); overwritten with those of the bound. Any are valid; Polyak
        steps look for good ones.
    rounds
        Largest number of steps.
    worth, table, first
        Output: charged worth of the alternatives, and buffers of ``fill_table``.
    """
    residents, capacity = limits.residents, table.shape[2] - 1
    order, keep = by_units(given, limits, capacity), np.empty(len(given.units), dtype=np.bool_)
    if len(order) < residents:
        return NOTHING
    l2_scale, power_scale = float(max(1, given.l2[order].max())), float(max(1, given.power[order].max()))
    best, best_l2, best_power = UNBOUNDED, multipliers[0], multipliers[1]
    for step in range(rounds + 1):
        worth[:] = given.worth - multipliers[0] * given.l2 - multipliers[1] * given.power
        undominated(order, given.seat, worth, residents, keep)
        kept = np.flatnonzero(keep)
        fill_table(kept, given.seat, given.units, worth, residents, table, first)
        top = table[0, residents, capacity]
        if top < NOTHING // 2:
            return NOTHING
        bound = top + multipliers[0] * limits.l2_most + multipliers[1] * limits.power_most
        if bound < best:
            best, best_l2, best_power = bound, multipliers[0], multipliers[1]
        if best <= threshold or step == rounds:
            break
        l2, power = demands_of_best(kept, given, worth, residents, table, first)
        over = (l2 - limits.l2_most) / l2_scale, (power - limits.power_most) / power_scale
        charge = min(MOST_CHARGE, MOST_CHARGES / residents)
        most = charge / max(1, limits.l2_most), charge / max(1, limits.power_most)
        if not polyak_step(multipliers, over, (l2_scale, power_scale), most, bound - threshold):
            break
    multipliers[0], multipliers[1] = best_l2, best_power
    return best
