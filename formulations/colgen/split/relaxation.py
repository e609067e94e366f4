"""Relaxation of ``split`` pricing in one box of total interference.

The GPU times at the floors of a box are the least for any GPU inside it. They limit the part of a workload that a slot
of each batch and share can serve. Multipliers charge for contention and power, whose sums the box limits. Shares and
slots are chosen by dynamic programming: first among the slots of one class, then over the classes. The slots of a class
together are worth at most as much as all workloads of the class.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.interference_boxes import CONTENTION, POWER, RESIDENTS, best_of_table, climb, completion_table
from formulations.colgen.split.slots import Contents, part_served
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms
from instances.tolerance import MARGIN

ROUNDS = 10
"""Multiplier steps in one relaxation."""


class RelaxedSplitBox(NamedTuple):
    """Relaxation of one box, overwritten for each box.

    Attributes
    ----------
    time_ms
        Least GPU time, shape (models, permitted shares, largest batch + 1); infinite if infeasible in the box.
    part
        Largest part of a workload served, shape (classes, permitted shares, largest batch + 1).
    net, batch
        Largest worth of a slot after the charges, and its batch, shape (classes, permitted shares).
    slots
        Largest total ``net`` of exactly n slots of a class within s share units, shape (classes, most residents + 1,
        share units + 1).
    offer_first, offer_slots, offer_units, offer_worth
        Offers of class w, the undominated triples (number of slots, share units, worth), at positions
        ``offer_first[w]`` to ``offer_first[w + 1] - 1``.
    table
        Largest worth of at most n slots of the classes w, w + 1, ... within s share units, shape (classes + 1, most
        residents + 1, share units + 1).
    """

    time_ms: Floats
    part: Floats
    net: Floats
    batch: Ints
    slots: Floats
    offer_first: Ints
    offer_slots: Ints
    offer_units: NDArray[np.int16]
    offer_worth: Floats
    table: Floats


def empty_relaxed(demand: DemandOnGpu, most_residents: int) -> RelaxedSplitBox:
    """Return buffers for GPUs with at most ``most_residents`` slots."""
    tables, classes = demand.tables, len(demand.model)
    models, batches = tables.transfer_ms.shape
    shares, units = len(tables.permitted), tables.share_units
    offers = classes * most_residents * units
    return RelaxedSplitBox(
        np.full((models, shares, batches), np.inf),
        np.zeros((classes, shares, batches)),
        np.zeros((classes, shares)),
        np.zeros((classes, shares), dtype=np.int64),
        np.zeros((classes, most_residents + 1, units + 1)),
        np.zeros(classes + 1, dtype=np.int64),
        np.zeros(offers, dtype=np.int64),
        np.zeros(offers, dtype=np.int16),
        np.zeros(offers),
        np.zeros((classes + 1, most_residents + 1, units + 1)),
    )


@compiled
def relax(
    demand: DemandOnGpu,
    weight: Floats,
    box: Floats,
    threshold: float,
    multipliers: Floats,
    relaxed: RelaxedSplitBox,
    contents: Contents,
) -> tuple[float, int]:
    """Bound the worth of GPUs in a box; stop once the bound is at most ``threshold``.

    Parameters
    ----------
    weight
        Worth of one whole workload of each class, shape (classes,).
    box
        Box of a ``Region``: for X in RESIDENTS, CONTENTION and POWER, ``box[X]`` is the floor and ``box[X + 1]`` the
        ceiling; all are finite.
    multipliers
        Multipliers of contention and power to start from, shape (2,); overwritten with those of the best bound.
    contents
        Output: the relaxed solution of the last step.

    Returns
    -------
    bound : float
        Upper bound on the worth, at least 0: a GPU may be empty.
    count : int
        Number of slots of the relaxed solution.
    """
    tables = demand.tables
    # A slot that alone exceeds a ceiling serves nothing. The demands of a GPU sum to at most the ceiling, and to at
    # most the number of residents times the largest demand of one slot. The smaller of the two is the cap of the sum.
    most_contention, most_power = _parts_at_floors(demand, weight, box, relaxed)
    contention_cap = min(box[CONTENTION + 1], box[RESIDENTS + 1] * most_contention) * (1.0 + MARGIN)
    power_cap = min(box[POWER + 1], box[RESIDENTS + 1] * most_power) * (1.0 + MARGIN)
    lowest, count = np.array([np.inf, 0.0, 0.0]), 0
    step, going = 0, True
    while going:
        _offers(demand, weight, box, multipliers, relaxed)
        completion_table(
            relaxed.offer_first,
            relaxed.offer_slots,
            relaxed.offer_units,
            relaxed.offer_worth,
            False,  # at most n slots
            int(box[RESIDENTS + 1]),
            tables.share_units,
            relaxed.table,
        )
        top = relaxed.table[0, int(box[RESIDENTS + 1]), tables.share_units]
        count = trace(demand, box, relaxed, 0, contents)
        contention_sum, power_sum = 0.0, 0.0
        for i in range(count):
            m = demand.model[contents.group[i]]
            contention_sum += tables.l2_pct[m, contents.batch[i], contents.units[i]]
            power_sum += tables.power_w[m, contents.batch[i], contents.units[i]]
        going = climb(
            multipliers, lowest, top, contention_sum, power_sum, contention_cap, power_cap, threshold, step, ROUNDS
        )
        step += 1
    multipliers[0], multipliers[1] = lowest[1], lowest[2]
    return lowest[0], count


@compiled
def _parts_at_floors(demand: DemandOnGpu, weight: Floats, box: Floats, relaxed: RelaxedSplitBox) -> tuple[float, float]:
    """Write times and parts at the floors; return the largest contention and power of a slot that serves a part."""
    tables = demand.tables
    contention_cap, power_cap = box[CONTENTION + 1] * (1.0 + MARGIN), box[POWER + 1] * (1.0 + MARGIN)
    times_written = np.zeros(len(tables.kernels), dtype=np.bool_)
    most_contention, most_power = 0.0, 0.0
    for w in range(len(weight)):
        m = demand.model[w]
        if weight[w] <= 0.0:
            continue
        for j in range(len(tables.permitted)):
            u = tables.permitted[j]
            for b in range(1, tables.max_batch[m] + 1):
                contention, power = tables.l2_pct[m, b, u], tables.power_w[m, b, u]
                if not times_written[m]:
                    fits = (
                        contention <= contention_cap
                        and power <= power_cap
                        and tables.memory_mib[m, b] <= tables.memory_limit_mib
                    )
                    others_contention = max(0.0, box[CONTENTION] - contention)
                    relaxed.time_ms[m, j, b] = (
                        gpu_time_ms(
                            tables, m, b, u, int(box[RESIDENTS]), others_contention, 0.0, max(box[POWER], power)
                        )
                        * (1.0 - MARGIN)
                        if fits
                        else np.inf
                    )
                time_ms = relaxed.time_ms[m, j, b]
                relaxed.part[w, j, b] = part_served(demand, w, b, time_ms) if time_ms < np.inf else 0.0
                if relaxed.part[w, j, b] > 0.0:
                    most_contention, most_power = max(most_contention, contention), max(most_power, power)
        times_written[m] = True
    return most_contention, most_power


@compiled
def _offers(demand: DemandOnGpu, weight: Floats, box: Floats, multipliers: Floats, relaxed: RelaxedSplitBox) -> None:
    """Write the offers of each class: the largest total worth of its slots, by their number and their share units."""
    tables, capacity = demand.tables, demand.tables.share_units
    residents, shares = int(box[RESIDENTS + 1]), len(demand.tables.permitted)
    charge = np.empty(shares)
    least_charges = np.empty((residents + 1, capacity + 1))
    best_worths = np.empty((residents + 1, capacity + 1))
    offers = 0
    for w in range(len(weight)):
        relaxed.offer_first[w] = offers
        if weight[w] <= 0.0:
            continue
        m = demand.model[w]
        usable = np.zeros(shares, dtype=np.bool_)
        best_net, least_charge, least_units = 0.0, np.inf, capacity + 1
        for j in range(shares):
            u, net, batch, charge_of_share = tables.permitted[j], -np.inf, 0, np.inf
            for b in range(1, tables.max_batch[m] + 1):
                if relaxed.part[w, j, b] > 0.0:
                    batch_charge = multipliers[0] * tables.l2_pct[m, b, u] + multipliers[1] * tables.power_w[m, b, u]
                    charge_of_share = min(charge_of_share, batch_charge)
                    if weight[w] * relaxed.part[w, j, b] - batch_charge > net:
                        net, batch = weight[w] * relaxed.part[w, j, b] - batch_charge, b
            relaxed.net[w, j], relaxed.batch[w, j], charge[j] = net, batch, charge_of_share
            # A share is usable if its net worth is positive, and if its net worth is larger than that of every smaller
            # usable share, or its charge is smaller than all their charges.
            usable[j] = net > 0.0 and (net > best_net or charge_of_share < least_charge)
            if usable[j]:
                least_units = min(least_units, u)
                best_net, least_charge = max(best_net, net), min(least_charge, charge_of_share)
        most_worth, net_of_slots = weight[w] * demand.copies[w], relaxed.slots[w]
        net_of_slots[0], least_charges[0], best_worths[0] = 0.0, 0.0, 0.0
        for n in range(1, residents + 1):
            if n * least_units > capacity:
                break
            slots_suffice = True
            for s in range(capacity + 1):
                net_of_slots[n, s], least_charges[n, s] = -np.inf, np.inf
            for j in range(shares):
                if usable[j]:
                    u = tables.permitted[j]
                    for s in range(u, capacity + 1):
                        net_of_slots[n, s] = max(net_of_slots[n, s], relaxed.net[w, j] + net_of_slots[n - 1, s - u])
                        least_charges[n, s] = min(least_charges[n, s], charge[j] + least_charges[n - 1, s - u])
            for s in range(capacity + 1):
                most_with_n = most_worth - least_charges[n, s]
                worth = min(net_of_slots[n, s], most_with_n)
                dominating_worth = max(best_worths[n - 1, s], best_worths[n, s - 1] if s > 0 else 0.0)
                best_worths[n, s] = max(worth, dominating_worth)
                if worth > dominating_worth:
                    relaxed.offer_slots[offers], relaxed.offer_units[offers] = n, s
                    relaxed.offer_worth[offers] = worth
                    offers += 1
                # The least charge grows with the number of slots. If at most n slots already reach ``most_with_n``
                # within every number of units, more slots are worth no more.
                slots_suffice = slots_suffice and (least_charges[n, s] == np.inf or best_worths[n, s] >= most_with_n)
            if slots_suffice:
                break
    relaxed.offer_first[len(weight)] = offers


@compiled
def trace(demand: DemandOnGpu, box: Floats, relaxed: RelaxedSplitBox, begin: int, contents: Contents) -> int:
    """Write the slots of the relaxed solution over the classes from ``begin`` on; return their number."""
    first, slots, units = relaxed.offer_first, relaxed.offer_slots, relaxed.offer_units
    residents, capacity, count = int(box[RESIDENTS + 1]), demand.tables.share_units, 0
    chosen = np.empty(len(first), dtype=np.int64)
    offers = best_of_table(first, slots, units, relaxed.offer_worth, residents, capacity, relaxed.table, begin, chosen)
    for o in chosen[:offers]:
        w = np.searchsorted(first, o, side="right") - 1
        count = _trace_class(demand, relaxed, w, slots[o], units[o], contents, count)
    return count


@compiled
def _trace_class(
    demand: DemandOnGpu, relaxed: RelaxedSplitBox, w: int, slots: int, units: int, contents: Contents, count: int
) -> int:
    """Append the slots of one class, which take ``units`` share units; return the number of slots written so far."""
    net_of_slots = relaxed.slots[w]
    while slots > 0:
        for j in range(len(demand.tables.permitted)):
            u = demand.tables.permitted[j]
            if u <= units and net_of_slots[slots, units] == relaxed.net[w, j] + net_of_slots[slots - 1, units - u]:
                contents.group[count], contents.batch[count], contents.units[count] = w, relaxed.batch[w, j], u
                count += 1
                slots -= 1
                units -= u
                break
    return count
