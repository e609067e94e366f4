"""Bound on the worth of patterns of divided workloads in a box, by dynamic programs.

A slot is worth at most its worth at the floors of the box. Multipliers charge each slot for its demand and power, whose
sums the ceilings limit, as in ``knapsack``. Let n slots of one class take s units, with worths w and charges d, and let
M be the largest worth of the class on one GPU. The gain of these slots is ``min(sum w, M) - sum d``, which is at most
``min(max sum (w - d), M - min sum d)``. Two dynamic programs over the slots of the class compute both terms. A third
dynamic program over the classes bounds the box.

Slots with ``w <= d`` are left out: without them, both terms are at least as large. In place of the gain of n slots, the
programs therefore compute the largest gain of at most n slots. This only raises the bound.
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
        Largest net (worth less charge) of a slot, and its batch, shape (classes, shares); net 0 if no slot of this
        share is needed.
    net_sums, gains
        Largest sum of nets of exactly n slots of a class, and largest gain of at most n of its slots, within s units,
        shape (classes, most residents + 1, units + 1).
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
    for row, model in enumerate(divided.model):
        for share_number, units in enumerate(merged.permitted):
            for batch in range(1, merged.max_batch[model] + 1):
                # Classes are sorted by model: the times of a model are computed at its first class.
                if row == 0 or model != divided.model[row - 1]:
                    allowed = (
                        demand_steps[model, batch, units] <= demand_ceiling
                        and power_steps[model, batch, units] <= power_ceiling
                        and merged.memory_mib[model, batch] <= merged.memory_limit_mib * (1.0 + MARGIN)
                    )
                    time_at_floors_ms = time_at_floors(
                        merged, model, batch, units, box.fewest_residents, box.demand_floor_pct, box.power_floor_w
                    )
                    time_ms[share_number, batch] = time_at_floors_ms if allowed else np.inf
                buffers.slot_worths[row, share_number, batch] = (
                    slot_worth(divided, row, batch, time_ms[share_number, batch])
                    if time_ms[share_number, batch] < np.inf
                    else 0
                )


@compiled
def _gains_of_class(
    merged: Tables,
    divided: DividedClasses,
    row: int,
    residents: int,
    demand_steps: Ints,
    power_steps: Ints,
    multipliers: Ints,
    buffers: DividedTables,
    least_charges: Ints,
) -> int:
    """Write the largest gains of a class; return a number of slots beyond which further slots add no gain."""
    model, shares, capacity = divided.model[row], len(merged.permitted), merged.share_units
    charge_by_share = np.full(shares, UNBOUNDED, dtype=np.int64)
    net_sums, gains, most_worth = buffers.net_sums[row], buffers.gains[row], divided.most_worth_on_gpu[row]
    best_net, best_charge = 0, UNBOUNDED
    for share_number, units in enumerate(merged.permitted):
        net, best_batch = 0, 0
        for batch in range(1, merged.max_batch[model] + 1):
            worth = buffers.slot_worths[row, share_number, batch]
            if worth > 0:
                slot_charge = (
                    multipliers[0] * demand_steps[model, batch, units]
                    + multipliers[1] * power_steps[model, batch, units]
                )
                charge_by_share[share_number] = min(charge_by_share[share_number], slot_charge)
                if worth - slot_charge > net:
                    net, best_batch = worth - slot_charge, batch
        # A smaller share has at least this net, and a smaller share, perhaps another one, has at most this charge. One
        # dynamic program uses only nets and the other one only charges, so neither needs this share.
        if net <= best_net and charge_by_share[share_number] >= best_charge:
            net = 0
        buffers.best_nets[row, share_number], buffers.best_batches[row, share_number] = net, best_batch
        if net > 0:
            best_net, best_charge = max(best_net, net), min(best_charge, charge_by_share[share_number])
    net_sums[0], gains[0], least_charges[0] = 0, 0, 0
    for slot_count in range(1, residents + 1):
        net_sums[slot_count], least_charges[slot_count] = NOTHING, UNBOUNDED
        for share_number, units in enumerate(merged.permitted):
            net = buffers.best_nets[row, share_number]
            if net > 0:
                for free_units in range(units, capacity + 1):
                    if net_sums[slot_count - 1, free_units - units] >= 0:
                        net_sums[slot_count, free_units] = max(
                            net_sums[slot_count, free_units], net + net_sums[slot_count - 1, free_units - units]
                        )
                        least_charges[slot_count, free_units] = min(
                            least_charges[slot_count, free_units],
                            charge_by_share[share_number] + least_charges[slot_count - 1, free_units - units],
                        )
        more_slots_may_gain = False
        for free_units in range(capacity + 1):
            gain = (
                min(net_sums[slot_count, free_units], most_worth - least_charges[slot_count, free_units])
                if net_sums[slot_count, free_units] >= 0
                else NOTHING
            )
            gain_of_fewer = max(
                gains[slot_count - 1, free_units], gains[slot_count, free_units - 1] if free_units > 0 else 0
            )
            gains[slot_count, free_units] = max(gain, gain_of_fewer)
            # Further slots only add charges, so their gain is at most ``most_worth - least_charges[slot_count]``.
            more_slots_may_gain = more_slots_may_gain or (
                net_sums[slot_count, free_units] >= 0
                and gains[slot_count, free_units] < most_worth - least_charges[slot_count, free_units]
            )
        if not more_slots_may_gain:
            return slot_count
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
    for row in range(len(slot_limits) - 1, -1, -1):
        slot_limits[row] = _gains_of_class(
            merged, divided, row, residents, demand_steps, power_steps, multipliers, buffers, least_charges
        )
        largest_gains[row, : residents + 1] = largest_gains[row + 1, : residents + 1]
        for slot_count in range(1, slot_limits[row] + 1):
            for units in range(1, capacity + 1):
                gain = buffers.gains[row, slot_count, units]
                if gain > max(buffers.gains[row, slot_count - 1, units], buffers.gains[row, slot_count, units - 1]):
                    for total_slots in range(slot_count, residents + 1):
                        gains_of_total = largest_gains[row, total_slots, units:]
                        later_gains = largest_gains[row + 1, total_slots - slot_count]
                        for free_units in range(capacity + 1 - units):
                            gains_of_total[free_units] = max(gains_of_total[free_units], gain + later_gains[free_units])
    return largest_gains[0, residents, capacity]


@compiled
def _best_choice(
    merged: Tables, divided: DividedClasses, residents: int, slot_limits: Ints, buffers: DividedTables, slots: Ints
) -> int:
    """Write class row, batch and share of the slots of a best choice; return their number.

    In each class, the slots with the largest sum of nets are chosen. Where ``most_worth_on_gpu`` limits the class, they
    may gain less than ``gains`` says.
    """
    largest_gains = buffers.largest_gains
    size = 0
    free_slots = residents
    free_units = buffers.largest_gains.shape[2] - 1
    for row in range(len(slot_limits)):
        if largest_gains[row, free_slots, free_units] == largest_gains[row + 1, free_slots, free_units]:
            continue
        slot_count, class_units = 0, 0
        for tried_count in range(1, min(free_slots, slot_limits[row]) + 1):
            for units in range(1, free_units + 1):
                if (
                    slot_count == 0
                    and largest_gains[row, free_slots, free_units]
                    == buffers.gains[row, tried_count, units]
                    + largest_gains[row + 1, free_slots - tried_count, free_units - units]
                ):
                    slot_count, class_units = tried_count, units
        free_slots, free_units = free_slots - slot_count, free_units - class_units
        # ``gains`` has the largest gain of at most ``slot_count`` slots, so fewer slots may attain it.
        while slot_count > 0:
            found_slot = False
            for share_number, units in enumerate(merged.permitted):
                net = buffers.best_nets[row, share_number]
                remaining_net = (
                    buffers.net_sums[row, slot_count - 1, class_units - units]
                    if net > 0 and units <= class_units
                    else NOTHING
                )
                if (
                    not found_slot
                    and remaining_net >= 0
                    and buffers.net_sums[row, slot_count, class_units] == net + remaining_net
                ):
                    slots[0, size], slots[1, size], slots[2, size] = row, buffers.best_batches[row, share_number], units
                    size, class_units, found_slot = size + 1, class_units - units, True
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
    for row, model in enumerate(divided.model):
        for j, units in enumerate(merged.permitted):
            for batch in range(1, merged.max_batch[model] + 1):
                if buffers.slot_worths[row, j, batch] > 0:
                    demand_scale = max(demand_scale, demand_steps[model, batch, units])
                    power_scale = max(power_scale, power_steps[model, batch, units])
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
            model = divided.model[slots[0, i]]
            demand_excess += demand_steps[model, slots[1, i], slots[2, i]]
            power_excess += power_steps[model, slots[1, i], slots[2, i]]
        excess = demand_excess / demand_scale, power_excess / power_scale
        largest_charge = min(MOST_CHARGE, MOST_CHARGES / box.most_residents)
        largest_multipliers = largest_charge / demand_ceiling, largest_charge / power_ceiling
        if not polyak_step(
            multipliers, excess, (float(demand_scale), float(power_scale)), largest_multipliers, bound - threshold
        ):
            break
    multipliers[0], multipliers[1] = best_demand_multiplier, best_power_multiplier
    return best, size
