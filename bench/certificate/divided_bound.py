"""Bound on the worth of patterns of divided workloads in a box, by dynamic programs.

A slot is worth at most its worth at the floors of the box. Multipliers charge each slot for its part of the ceilings,
as in ``knapsack``. Let n slots of one class take s units, with worths w and charges d, and let the class be worth at
most ``most`` on one GPU. The gain of these slots is ``min(sum w, most) - sum d``, which is at most
``min(max sum (w - d), most - min sum d)``. Two dynamic programs over the slots of the class compute both terms. A third
one over the classes bounds the box.

Slots with ``w <= d`` are left out: without them, both terms are at least as large. The programs therefore choose at
most N slots instead of exactly N. This only raises the bound.
"""

from typing import NamedTuple

import numpy as np

from bench.certificate.boxes import PatternBox, box_limits
from bench.certificate.divided import DividedClasses, slot_worth
from bench.certificate.knapsack import MOST_CHARGE, MOST_CHARGES, NOTHING, UNBOUNDED, polyak_step
from bench.certificate.one_gpu import time_at_floors
from bench.certificate.search import ROUNDS
from instances.arrays import Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.tolerance import MARGIN


class DividedTables(NamedTuple):
    """Buffers of the dynamic programs of a box.

    Attributes
    ----------
    slot
        Worth of a slot, 0 if it serves nothing, shape (classes, shares, largest batch + 1).
    net, batch
        Largest worth less charge of a slot, and its batch, shape (classes, shares); net 0 if it is left out.
    nets, gains
        Largest sum of nets of exactly n slots, and largest gain of at most n slots of a class, within s units, shape
        (classes, most residents + 1, units + 1).
    table
        Largest gain of at most n slots of the classes k, k + 1, ... within s units, shape (classes + 1, ...).
    """

    slot: Ints
    net: Ints
    batch: Ints
    nets: Ints
    gains: Ints
    table: Ints


@compiled
def _slots_at_floors(
    merged: Tables,
    known: DividedClasses,
    box: PatternBox,
    l2: Ints,
    power: Ints,
    l2_most: int,
    power_most: int,
    made: DividedTables,
) -> None:
    """Write the worth of every slot at the floors; a slot that exceeds a ceiling or the memory gets 0."""
    time_ms = np.empty((len(merged.permitted), l2.shape[1]))
    for k, m in enumerate(known.model):
        for j, u in enumerate(merged.permitted):
            for b in range(1, merged.max_batch[m] + 1):
                if k == 0 or m != known.model[k - 1]:
                    inside = l2[m, b, u] <= l2_most and power[m, b, u] <= power_most
                    inside = inside and merged.memory_mib[m, b] <= merged.memory_limit_mib * (1.0 + MARGIN)
                    least_ms = time_at_floors(merged, m, b, u, box.least, box.l2_least, box.power_least)
                    time_ms[j, b] = least_ms if inside else np.inf
                made.slot[k, j, b] = slot_worth(known, k, b, time_ms[j, b]) if time_ms[j, b] < np.inf else 0


@compiled
def _gains_of_class(
    merged: Tables,
    known: DividedClasses,
    k: int,
    residents: int,
    l2: Ints,
    power: Ints,
    multipliers: Ints,
    made: DividedTables,
    charges: Ints,
) -> int:
    """Write the largest gains of a class; return a number of slots beyond which further slots add no gain."""
    m, shares, capacity = known.model[k], len(merged.permitted), merged.share_units
    charge = np.full(shares, UNBOUNDED, dtype=np.int64)
    nets, gains, most = made.nets[k], made.gains[k], known.most[k]
    best_net, least_charge = 0, UNBOUNDED
    for j, u in enumerate(merged.permitted):
        net, batch = 0, 0
        for b in range(1, merged.max_batch[m] + 1):
            worth = made.slot[k, j, b]
            if worth > 0:
                own = multipliers[0] * l2[m, b, u] + multipliers[1] * power[m, b, u]
                charge[j] = min(charge[j], own)
                if worth - own > net:
                    net, batch = worth - own, b
        # Each dynamic program prefers a smaller share that is no worse, so this share is not needed.
        if net <= best_net and charge[j] >= least_charge:
            net = 0
        made.net[k, j], made.batch[k, j] = net, batch
        if net > 0:
            best_net, least_charge = max(best_net, net), min(least_charge, charge[j])
    nets[0], gains[0], charges[0] = 0, 0, 0
    for n in range(1, residents + 1):
        nets[n], charges[n] = NOTHING, UNBOUNDED
        for j, u in enumerate(merged.permitted):
            net = made.net[k, j]
            if net > 0:
                for s in range(u, capacity + 1):
                    if nets[n - 1, s - u] >= 0:
                        nets[n, s] = max(nets[n, s], net + nets[n - 1, s - u])
                        charges[n, s] = min(charges[n, s], charge[j] + charges[n - 1, s - u])
        more = False
        for s in range(capacity + 1):
            gain = min(nets[n, s], most - charges[n, s]) if nets[n, s] >= 0 else NOTHING
            fewer = max(gains[n - 1, s], gains[n, s - 1] if s > 0 else 0)
            gains[n, s] = max(gain, fewer)
            # Further slots only add charges, so their gain is at most ``most - charges[n]``.
            more = more or (nets[n, s] >= 0 and gains[n, s] < most - charges[n, s])
        if not more:
            return n
    return residents


@compiled
def fill_gains(
    merged: Tables,
    known: DividedClasses,
    residents: int,
    l2: Ints,
    power: Ints,
    multipliers: Ints,
    made: DividedTables,
    tops: Ints,
) -> int:
    """Write ``gains``, ``table`` and the largest number of slots of each class; return the largest gain."""
    table, capacity, charges = made.table, made.table.shape[2] - 1, np.empty_like(made.table[0])
    table[len(tops), : residents + 1] = 0
    for k in range(len(tops) - 1, -1, -1):
        tops[k] = _gains_of_class(merged, known, k, residents, l2, power, multipliers, made, charges)
        table[k, : residents + 1] = table[k + 1, : residents + 1]
        for n in range(1, tops[k] + 1):
            for s in range(1, capacity + 1):
                gain = made.gains[k, n, s]
                if gain > max(made.gains[k, n - 1, s], made.gains[k, n, s - 1]):
                    for slots in range(n, residents + 1):
                        row, rest = table[k, slots, s:], table[k + 1, slots - n]
                        for left in range(capacity + 1 - s):
                            row[left] = max(row[left], gain + rest[left])
    return table[0, residents, capacity]


@compiled
def _best_choice(
    merged: Tables, known: DividedClasses, residents: int, tops: Ints, made: DividedTables, slots: Ints
) -> int:
    """Write class row, batch and share of the slots of a best choice; return their number.

    Where the worth of a class is limited, the choice may gain less than the table: it has the largest sum of nets.
    """
    table, size, n, s = made.table, 0, residents, made.table.shape[2] - 1
    for k in range(len(tops)):
        if table[k, n, s] == table[k + 1, n, s]:
            continue
        own, units = 0, 0
        for a in range(1, min(n, tops[k]) + 1):
            for u in range(1, s + 1):
                if own == 0 and table[k, n, s] == made.gains[k, a, u] + table[k + 1, n - a, s - u]:
                    own, units = a, u
        n, s = n - own, s - units
        # A gain is that of at most ``own`` slots, so fewer slots may attain it.
        while own > 0:
            taken = False
            for j, u in enumerate(merged.permitted):
                net = made.net[k, j]
                rest = made.nets[k, own - 1, units - u] if net > 0 and u <= units else NOTHING
                if not taken and rest >= 0 and made.nets[k, own, units] == net + rest:
                    slots[0, size], slots[1, size], slots[2, size] = k, made.batch[k, j], u
                    size, units, taken = size + 1, units - u, True
            own -= 1
    return size


@compiled
def bound_divided(
    merged: Tables,
    known: DividedClasses,
    box: PatternBox,
    l2: Ints,
    power: Ints,
    threshold: int,
    multipliers: Ints,
    made: DividedTables,
    slots: Ints,
) -> tuple[int, int]:
    """Return an upper bound on the worth of patterns in a box, and the number of slots in ``slots``.

    Parameters
    ----------
    merged
        Tables with one axis of contention.
    l2, power
        Demands in whole numbers, rounded down, shape (models, largest batch + 1, units + 1).
    threshold
        The search for multipliers stops once the bound is at most this.
    multipliers
        Multipliers to start from, at least 0, shape (2,); overwritten with those of the bound.
    made, slots
        Output: buffers, and class row, batch and share of each slot of a best choice at the last multipliers tried.
    """
    limits = box_limits(box)
    l2_most, power_most = limits.l2_most, limits.power_most
    _slots_at_floors(merged, known, box, l2, power, l2_most, power_most, made)
    l2_scale, power_scale = 1, 1
    for k, m in enumerate(known.model):
        for j, u in enumerate(merged.permitted):
            for b in range(1, merged.max_batch[m] + 1):
                if made.slot[k, j, b] > 0:
                    l2_scale, power_scale = max(l2_scale, l2[m, b, u]), max(power_scale, power[m, b, u])
    # No pattern exceeds ``most`` times the largest demand, so a ceiling above that is lowered to it.
    l2_most, power_most = min(l2_most, box.most * l2_scale), min(power_most, box.most * power_scale)
    tops = np.zeros(len(known.model), dtype=np.int64)
    best, best_l2, best_power, size = UNBOUNDED, multipliers[0], multipliers[1], 0
    for step in range(ROUNDS + 1):
        gain = fill_gains(merged, known, box.most, l2, power, multipliers, made, tops)
        bound = gain + multipliers[0] * l2_most + multipliers[1] * power_most
        if bound < best:
            best, best_l2, best_power = bound, multipliers[0], multipliers[1]
        size = _best_choice(merged, known, box.most, tops, made, slots)
        if best <= threshold or step == ROUNDS:
            break
        over_l2, over_power = -l2_most, -power_most
        for i in range(size):
            m = known.model[slots[0, i]]
            over_l2 += l2[m, slots[1, i], slots[2, i]]
            over_power += power[m, slots[1, i], slots[2, i]]
        over = over_l2 / l2_scale, over_power / power_scale
        charge = min(MOST_CHARGE, MOST_CHARGES / box.most)
        most = charge / l2_most, charge / power_most
        if not polyak_step(multipliers, over, (float(l2_scale), float(power_scale)), most, bound - threshold):
            break
    multipliers[0], multipliers[1] = best_l2, best_power
    return best, size
