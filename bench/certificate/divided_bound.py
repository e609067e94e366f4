"""Bound on the worth of patterns of divided workloads in a box, by dynamic programs.

A slot is worth at most its worth at the floors of the box. Multipliers charge each slot for its part of the ceilings,
as in ``knapsack``. Let n slots of one class take s units, with worths w and charges d, and let M be the largest worth
of the class on one GPU. The gain of these slots is ``min(sum w, M) - sum d``, which is at most
``min(max sum (w - d), M - min sum d)``. Two dynamic programs over the slots of the class compute both terms. A third
dynamic program over the classes bounds the box.

Slots with ``w <= d`` are left out: without them, both terms are at least as large. The dynamic programs therefore
choose at most N slots instead of exactly N. This only raises the bound.
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
    slot_worths
        Worth of a slot, 0 if it serves nothing, shape (classes, shares, largest batch + 1).
    best_nets, best_batches
        Largest worth less charge of a slot, and its batch, shape (classes, shares); net 0 if it is left out.
    net_sums, gains
        Largest sum of nets of exactly n slots, and largest gain of at most n slots of a class, within s units, shape
        (classes, most residents + 1, units + 1).
    largest_gains
        Largest gain of at most n slots of the classes k, k + 1, ... within s units, shape (classes + 1, ...).
    """

    slot_worths: Ints
    best_nets: Ints
    best_batches: Ints
    net_sums: Ints
    gains: Ints
    largest_gains: Ints


@compiled
def _slots_at_floors(
    merged: Tables,
    divided: DividedClasses,
    box: PatternBox,
    demand_steps: Ints,
    power_steps: Ints,
    demand_ceiling: int,
    power_ceiling: int,
    buffers: DividedTables,
) -> None:
    """Write the worth of every slot at the floors; a slot that exceeds a ceiling or the memory gets 0."""
    time_ms = np.empty((len(merged.permitted), demand_steps.shape[1]))
    for k, m in enumerate(divided.model):
        for j, u in enumerate(merged.permitted):
            for b in range(1, merged.max_batch[m] + 1):
                if k == 0 or m != divided.model[k - 1]:
                    allowed = demand_steps[m, b, u] <= demand_ceiling and power_steps[m, b, u] <= power_ceiling
                    allowed = allowed and merged.memory_mib[m, b] <= merged.memory_limit_mib * (1.0 + MARGIN)
                    time_at_floors_ms = time_at_floors(
                        merged, m, b, u, box.fewest_residents, box.demand_floor_pct, box.power_floor_w
                    )
                    time_ms[j, b] = time_at_floors_ms if allowed else np.inf
                buffers.slot_worths[k, j, b] = slot_worth(divided, k, b, time_ms[j, b]) if time_ms[j, b] < np.inf else 0


@compiled
def _gains_of_class(
    merged: Tables,
    divided: DividedClasses,
    k: int,
    residents: int,
    demand_steps: Ints,
    power_steps: Ints,
    multipliers: Ints,
    buffers: DividedTables,
    least_charges: Ints,
) -> int:
    """Write the largest gains of a class; return a number of slots beyond which further slots add no gain."""
    m, shares, capacity = divided.model[k], len(merged.permitted), merged.share_units
    charge_by_share = np.full(shares, UNBOUNDED, dtype=np.int64)
    net_sums, gains, most_worth = buffers.net_sums[k], buffers.gains[k], divided.most_worth_on_gpu[k]
    best_net, best_charge = 0, UNBOUNDED
    for j, u in enumerate(merged.permitted):
        net, batch = 0, 0
        for b in range(1, merged.max_batch[m] + 1):
            worth = buffers.slot_worths[k, j, b]
            if worth > 0:
                slot_charge = multipliers[0] * demand_steps[m, b, u] + multipliers[1] * power_steps[m, b, u]
                charge_by_share[j] = min(charge_by_share[j], slot_charge)
                if worth - slot_charge > net:
                    net, batch = worth - slot_charge, b
        # A smaller share has at least this net and at most this charge, so neither dynamic program needs this share.
        if net <= best_net and charge_by_share[j] >= best_charge:
            net = 0
        buffers.best_nets[k, j], buffers.best_batches[k, j] = net, batch
        if net > 0:
            best_net, best_charge = max(best_net, net), min(best_charge, charge_by_share[j])
    net_sums[0], gains[0], least_charges[0] = 0, 0, 0
    for n in range(1, residents + 1):
        net_sums[n], least_charges[n] = NOTHING, UNBOUNDED
        for j, u in enumerate(merged.permitted):
            net = buffers.best_nets[k, j]
            if net > 0:
                for s in range(u, capacity + 1):
                    if net_sums[n - 1, s - u] >= 0:
                        net_sums[n, s] = max(net_sums[n, s], net + net_sums[n - 1, s - u])
                        least_charges[n, s] = min(least_charges[n, s], charge_by_share[j] + least_charges[n - 1, s - u])
        more_slots_may_gain = False
        for s in range(capacity + 1):
            gain = min(net_sums[n, s], most_worth - least_charges[n, s]) if net_sums[n, s] >= 0 else NOTHING
            gain_of_fewer = max(gains[n - 1, s], gains[n, s - 1] if s > 0 else 0)
            gains[n, s] = max(gain, gain_of_fewer)
            # Further slots only add charges, so their gain is at most ``most_worth - least_charges[n]``.
            more_slots_may_gain = more_slots_may_gain or (
                net_sums[n, s] >= 0 and gains[n, s] < most_worth - least_charges[n, s]
            )
        if not more_slots_may_gain:
            return n
    return residents


@compiled
def fill_gains(
    merged: Tables,
    divided: DividedClasses,
    residents: int,
    demand_steps: Ints,
    power_steps: Ints,
    multipliers: Ints,
    buffers: DividedTables,
    slot_limits: Ints,
) -> int:
    """Write ``gains``, ``largest_gains`` and the largest number of slots of each class; return the largest gain."""
    largest_gains = buffers.largest_gains
    capacity = buffers.largest_gains.shape[2] - 1
    least_charges = np.empty_like(buffers.largest_gains[0])
    largest_gains[len(slot_limits), : residents + 1] = 0
    for k in range(len(slot_limits) - 1, -1, -1):
        slot_limits[k] = _gains_of_class(
            merged, divided, k, residents, demand_steps, power_steps, multipliers, buffers, least_charges
        )
        largest_gains[k, : residents + 1] = largest_gains[k + 1, : residents + 1]
        for n in range(1, slot_limits[k] + 1):
            for s in range(1, capacity + 1):
                gain = buffers.gains[k, n, s]
                if gain > max(buffers.gains[k, n - 1, s], buffers.gains[k, n, s - 1]):
                    for slots in range(n, residents + 1):
                        row, later_gains = largest_gains[k, slots, s:], largest_gains[k + 1, slots - n]
                        for free_units in range(capacity + 1 - s):
                            row[free_units] = max(row[free_units], gain + later_gains[free_units])
    return largest_gains[0, residents, capacity]


@compiled
def _best_choice(
    merged: Tables, divided: DividedClasses, residents: int, slot_limits: Ints, buffers: DividedTables, slots: Ints
) -> int:
    """Write class row, batch and share of the slots of a best choice; return their number.

    Where the worth of a class is limited, the choice may gain less than the table: it has the largest sum of nets.
    """
    largest_gains = buffers.largest_gains
    size = 0
    free_slots = residents
    free_units = buffers.largest_gains.shape[2] - 1
    for k in range(len(slot_limits)):
        if largest_gains[k, free_slots, free_units] == largest_gains[k + 1, free_slots, free_units]:
            continue
        slot_count, class_units = 0, 0
        for tried_count in range(1, min(free_slots, slot_limits[k]) + 1):
            for u in range(1, free_units + 1):
                if (
                    slot_count == 0
                    and largest_gains[k, free_slots, free_units]
                    == buffers.gains[k, tried_count, u] + largest_gains[k + 1, free_slots - tried_count, free_units - u]
                ):
                    slot_count, class_units = tried_count, u
        free_slots, free_units = free_slots - slot_count, free_units - class_units
        # A gain is that of at most ``slot_count`` slots, so fewer slots may attain it.
        while slot_count > 0:
            found_slot = False
            for j, u in enumerate(merged.permitted):
                net = buffers.best_nets[k, j]
                remaining_net = (
                    buffers.net_sums[k, slot_count - 1, class_units - u] if net > 0 and u <= class_units else NOTHING
                )
                if (
                    not found_slot
                    and remaining_net >= 0
                    and buffers.net_sums[k, slot_count, class_units] == net + remaining_net
                ):
                    slots[0, size], slots[1, size], slots[2, size] = k, buffers.best_batches[k, j], u
                    size, class_units, found_slot = size + 1, class_units - u, True
            slot_count -= 1
    return size


@compiled
def bound_divided(
    merged: Tables,
    divided: DividedClasses,
    box: PatternBox,
    demand_steps: Ints,
    power_steps: Ints,
    threshold: int,
    multipliers: Ints,
    buffers: DividedTables,
    slots: Ints,
) -> tuple[int, int]:
    """Return an upper bound on the worth of patterns in a box, and the number of slots in ``slots``.

    Parameters
    ----------
    merged
        Tables with one axis of contention.
    demand_steps, power_steps
        Demands in whole numbers, rounded down, shape (models, largest batch + 1, units + 1).
    threshold
        The search for multipliers stops once the bound is at most this.
    multipliers
        Multipliers to start from, at least 0, shape (2,); overwritten with those of the bound.
    buffers, slots
        Output: buffers, and class row, batch and share of each slot of a best choice at the last multipliers tried.
    """
    limits = box_limits(box)
    demand_ceiling, power_ceiling = limits.demand_ceiling, limits.power_ceiling
    _slots_at_floors(merged, divided, box, demand_steps, power_steps, demand_ceiling, power_ceiling, buffers)
    demand_scale, power_scale = 1, 1
    for k, m in enumerate(divided.model):
        for j, u in enumerate(merged.permitted):
            for b in range(1, merged.max_batch[m] + 1):
                if buffers.slot_worths[k, j, b] > 0:
                    demand_scale = max(demand_scale, demand_steps[m, b, u])
                    power_scale = max(power_scale, power_steps[m, b, u])
    # No pattern exceeds ``most_residents`` times the largest demand, so a higher ceiling is lowered to that product.
    demand_ceiling = min(demand_ceiling, box.most_residents * demand_scale)
    power_ceiling = min(power_ceiling, box.most_residents * power_scale)
    slot_limits = np.zeros(len(divided.model), dtype=np.int64)
    best, best_demand_multiplier, best_power_multiplier, size = UNBOUNDED, multipliers[0], multipliers[1], 0
    for step in range(ROUNDS + 1):
        gain = fill_gains(
            merged, divided, box.most_residents, demand_steps, power_steps, multipliers, buffers, slot_limits
        )
        bound = gain + multipliers[0] * demand_ceiling + multipliers[1] * power_ceiling
        if bound < best:
            best, best_demand_multiplier, best_power_multiplier = bound, multipliers[0], multipliers[1]
        size = _best_choice(merged, divided, box.most_residents, slot_limits, buffers, slots)
        if best <= threshold or step == ROUNDS:
            break
        demand_excess, power_excess = -demand_ceiling, -power_ceiling
        for i in range(size):
            m = divided.model[slots[0, i]]
            demand_excess += demand_steps[m, slots[1, i], slots[2, i]]
            power_excess += power_steps[m, slots[1, i], slots[2, i]]
        excess = demand_excess / demand_scale, power_excess / power_scale
        largest_charge = min(MOST_CHARGE, MOST_CHARGES / box.most_residents)
        largest_multipliers = largest_charge / demand_ceiling, largest_charge / power_ceiling
        if not polyak_step(
            multipliers, excess, (float(demand_scale), float(power_scale)), largest_multipliers, bound - threshold
        ):
            break
    multipliers[0], multipliers[1] = best_demand_multiplier, best_power_multiplier
    return best, size
