"""Search for a content of divided workloads worth more than a threshold, or a proof that there is none.

Boxes of the number of residents N and the totals C and P cover all contents. In a box, the times at the floors bound
the worth of each slot. Multipliers charge the slots for the ceilings, as in ``knapsack``. Let n slots of one class take
s units. With w their worths and d their charges, they gain ``min(sum w, most) - sum d``, which is at most
``min(max sum (w - d), most - min sum d)``: two dynamic programs over the slots of the class. A third one over the
classes bounds the box. A box whose bound exceeds the threshold is cut in two along the axis that matters most to its
best choice.

A slot with ``w <= d`` is left out: without it, both terms are at least as large. So N slots at most are chosen, instead
of N, which only admits more.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

import numpy as np
from numba import njit

from bench.certificate.certificate import MOST
from bench.certificate.contents import MARGIN, merged_tables
from bench.certificate.divided import DividedClasses, slot_worth, worth_of_slots
from bench.certificate.knapsack import MOST_CHARGE, NOTHING, UNBOUNDED, polyak_step
from bench.certificate.one_gpu import FINE, time_at_floors
from bench.certificate.search import FOUND, LIMIT, REFUTED, ROUNDS, Progress, TooHardError, ignore
from instances.arrays import Ints
from instances.tables import Tables

LISTED, NARROW = 3e-3, 1e-6
"""Growth of a time across a box below which its contents are listed, and below which it is not cut."""

FIRST_NODES, NARROW_NODES = 20_000, 20_000_000
"""Nodes after which the listing of a box gives up, for the box to be cut, and in a box too narrow to be cut."""

MOST_DEMAND = 2.0**48
"""Largest demand of a full GPU in steps: sums and ceilings of demands fit 64 bits."""

MOST_BOXES = 300_000
"""Boxes after which a search gives up."""


class DividedBox(NamedTuple):
    """Least and most residents, floor and ceiling of C and of P; all contents with such totals."""

    least: int
    most: int
    l2_least: float
    l2_most: float
    power_least: float
    power_most: float


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


@njit(cache=True)
def _slots_at_floors(
    merged: Tables,
    known: DividedClasses,
    box: DividedBox,
    l2: Ints,
    power: Ints,
    l2_most: int,
    power_most: int,
    made: DividedTables,
) -> None:
    """Write the worth of every slot at the floors; slots above a ceiling serve nothing."""
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


@njit(cache=True)
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
    """Write the largest gains of a class; return the number of slots beyond which more gain nothing."""
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
        # In each dynamic program, a smaller share that is no worse takes the place of a larger one.
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
            # More slots are charged at least as much, so they gain at most most - charges[n].
            more = more or (nets[n, s] >= 0 and gains[n, s] < most - charges[n, s])
        if not more:
            return n
    return residents


@njit(cache=True)
def _fill(
    merged: Tables,
    known: DividedClasses,
    residents: int,
    l2: Ints,
    power: Ints,
    multipliers: Ints,
    made: DividedTables,
    tops: Ints,
) -> int:
    """Write the gains of all classes and the table; return the largest gain."""
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


@njit(cache=True)
def _best_choice(
    merged: Tables, known: DividedClasses, residents: int, tops: Ints, made: DividedTables, slots: Ints
) -> int:
    """Write row, batch and share of the slots of a choice that attains the table's gain; return their number."""
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
        # The gains are of at most so many slots within the units: the largest net sum may have fewer.
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


@njit(cache=True)
def bound_divided(
    merged: Tables,
    known: DividedClasses,
    box: DividedBox,
    l2: Ints,
    power: Ints,
    threshold: int,
    multipliers: Ints,
    made: DividedTables,
    slots: Ints,
) -> tuple[int, int]:
    """Return an upper bound on the worth of contents in a box, and the number of slots of the last choice.

    Parameters
    ----------
    merged, known, box
        Tables with one axis of contention, classes and box.
    l2, power
        Demands in whole numbers, rounded down, shape (models, largest batch + 1, units + 1).
    threshold
        The search for multipliers stops once the bound is at most this.
    multipliers
        Multipliers to start from, at least 0, shape (2,); overwritten with those of the bound.
    made, slots
        Output: buffers, and row, batch and share of each slot of a choice that attains the bound at the multipliers.
    """
    l2_most, power_most = int(box.l2_most * FINE * (1.0 + MARGIN)) + 1, int(box.power_most * FINE * (1.0 + MARGIN)) + 1
    _slots_at_floors(merged, known, box, l2, power, l2_most, power_most, made)
    l2_scale, power_scale = 1, 1
    for k, m in enumerate(known.model):
        for j, u in enumerate(merged.permitted):
            for b in range(1, merged.max_batch[m] + 1):
                if made.slot[k, j, b] > 0:
                    l2_scale, power_scale = max(l2_scale, l2[m, b, u]), max(power_scale, power[m, b, u])
    # Demands are rounded down and ceilings up, so a ceiling that the largest demands do not reach never binds.
    l2_most, power_most = min(l2_most, box.most * l2_scale), min(power_most, box.most * power_scale)
    tops = np.zeros(len(known.model), dtype=np.int64)
    best, best_l2, best_power, size = UNBOUNDED, multipliers[0], multipliers[1], 0
    for step in range(ROUNDS + 1):
        gain = _fill(merged, known, box.most, l2, power, multipliers, made, tops)
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
        most = MOST_CHARGE / l2_most, MOST_CHARGE / power_most
        if not polyak_step(multipliers, over, (float(l2_scale), float(power_scale)), most, bound - threshold):
            break
    multipliers[0], multipliers[1] = best_l2, best_power
    return best, size


@njit(cache=True)
def list_contents(
    tables: Tables,
    merged: Tables,
    known: DividedClasses,
    box: DividedBox,
    l2: Ints,
    power: Ints,
    threshold: int,
    multipliers: Ints,
    made: DividedTables,
    slots: Ints,
    node_limit: int,
) -> tuple[int, int]:
    """Test every content of a box that may be worth more than ``threshold``; return the status and its slots' number.

    Slots are added in order, those of one class after each other. Let some slots of a class have worths w and charges
    d. With further slots of the class they gain at most ``sum (w - d)`` more than those would gain alone, because no d
    is negative; and at most ``most - sum d`` in all. So the table bounds every completion.
    """
    capacity, table = merged.share_units, made.table
    l2_most, power_most = int(box.l2_most * FINE * (1.0 + MARGIN)) + 1, int(box.power_most * FINE * (1.0 + MARGIN)) + 1
    l2_least = int(box.l2_least * FINE * (1.0 - MARGIN)) - box.most - 1
    power_least = int(box.power_least * FINE * (1.0 - MARGIN)) - box.most - 1
    _fill(merged, known, box.most, l2, power, multipliers, made, np.empty(len(known.model), dtype=np.int64))
    offset = multipliers[0] * l2_most + multipliers[1] * power_most
    kept, many = np.empty((7, made.slot.size), dtype=np.int64), 0
    for k, m in enumerate(known.model):
        for j, u in enumerate(merged.permitted):
            for b in range(1, merged.max_batch[m] + 1):
                worth = made.slot[k, j, b]
                charge = multipliers[0] * l2[m, b, u] + multipliers[1] * power[m, b, u]
                if worth > 0 and worth - charge + table[0, box.most - 1, capacity - u] + offset > threshold:
                    kept[0, many], kept[1, many], kept[2, many] = k, b, u
                    kept[3, many], kept[4, many] = worth - charge, charge
                    kept[5, many], kept[6, many] = l2[m, b, u], power[m, b, u]
                    many += 1
    at = np.full(box.most + 1, -1, dtype=np.int64)
    # Totals of the slots so far: gain of the earlier classes, nets and charges of the last one, units, C and P.
    so_far = np.zeros((box.most + 1, 6), dtype=np.int64)
    depth, nodes, last = 0, 0, -1
    while depth >= 0:
        at[depth] += 1
        i = at[depth]
        if i >= many:
            depth -= 1
            continue
        k, u, net, charge = kept[0, i], kept[2, i], kept[3, i], kept[4, i]
        last = kept[0, at[depth - 1]] if depth else -1
        gain, nets, charges, units, total_l2, total_power = so_far[depth]
        if last >= 0 and k != last:
            gain, nets, charges = gain + min(nets, known.most[last] - charges), 0, 0
            # The table does not increase with the class, so no later slot completes to more.
            if gain + table[k, box.most - depth, capacity - units] + offset <= threshold:
                depth -= 1
                continue
        nets, charges, units = nets + net, charges + charge, units + u
        total_l2, total_power = total_l2 + kept[5, i], total_power + kept[6, i]
        if units > capacity or total_l2 > l2_most or total_power > power_most:
            continue
        left = box.most - depth - 1
        more = min(
            nets + table[k, left, capacity - units], known.most[k] - charges + table[k + 1, left, capacity - units]
        )
        if gain + more + offset <= threshold:
            continue
        nodes += 1
        if nodes > node_limit:
            return LIMIT, 0
        slots[:, depth] = kept[:3, i]
        if depth + 1 >= box.least and total_l2 >= l2_least and total_power >= power_least:
            chosen = slots[:, : depth + 1]
            if worth_of_slots(tables, known, chosen[0], chosen[1], chosen[2]) > threshold:
                return FOUND, depth + 1
        if left > 0:
            depth += 1
            at[depth] = i - 1
            so_far[depth] = np.array([gain, nets, charges, units, total_l2, total_power])
    return REFUTED, 0


@njit(cache=True)
def _losses(merged: Tables, known: DividedClasses, box: DividedBox, slots: Ints) -> tuple[int, int, int]:
    """Return by how much less slots are worth if the residents, C or P are at their ceiling instead of their floor."""
    lost = np.zeros(3, dtype=np.int64)
    for i in range(slots.shape[1]):
        k, b, u = slots[0, i], slots[1, i], slots[2, i]
        m = known.model[k]
        worth = slot_worth(known, k, b, time_at_floors(merged, m, b, u, box.least, box.l2_least, box.power_least))
        at_most = time_at_floors(merged, m, b, u, box.most, box.l2_least, box.power_least)
        at_l2 = time_at_floors(merged, m, b, u, box.least, box.l2_most, box.power_least)
        at_power = time_at_floors(merged, m, b, u, box.least, box.l2_least, box.power_most)
        lost[0] += worth - slot_worth(known, k, b, at_most)
        lost[1] += worth - slot_worth(known, k, b, at_l2)
        lost[2] += worth - slot_worth(known, k, b, at_power)
    return lost[0], lost[1], lost[2]


@dataclass
class DividedSearch:
    """Search over the contents of one GPU type.

    Parameters
    ----------
    tables, known
        Tables of the type, and the classes on it.
    """

    tables: Tables
    known: DividedClasses

    def __post_init__(self) -> None:
        if int(self.known.worth.max(initial=0)) > MOST:
            raise TooHardError
        tables, classes = self.tables, len(self.known.model)
        self.merged = merged_tables(tables)
        largest = max(float(self.merged.l2_pct.max(initial=0.0)), float(self.merged.power_w.max(initial=0.0)))
        if not tables.most_residents * largest * FINE < MOST_DEMAND:
            raise TooHardError
        self._l2, self._power = (
            np.floor(demand * FINE * (1.0 - MARGIN)).astype(np.int64)
            for demand in (self.merged.l2_pct, self.merged.power_w)
        )
        shares, sums = len(tables.permitted), (tables.most_residents + 1, tables.share_units + 1)
        self._made = DividedTables(
            np.zeros((classes, shares, tables.transfer_ms.shape[1]), dtype=np.int64),
            np.zeros((classes, shares), dtype=np.int64),
            np.zeros((classes, shares), dtype=np.int64),
            np.zeros((classes, *sums), dtype=np.int64),
            np.zeros((classes, *sums), dtype=np.int64),
            np.zeros((classes + 1, *sums), dtype=np.int64),
        )

    def above(self, threshold: int, progress: Progress = ignore) -> list[int]:
        """Return the classes of the slots of a content that is worth more than ``threshold``; none if there is none.

        Raises
        ------
        TooHardError
            If the search gives up.
        """
        if len(self.known.model) == 0:
            progress(1.0)
            return []
        rows, most = np.unique(self.known.model), self.tables.most_residents
        l2, power = float(self.merged.l2_pct[rows].max()), float(self.merged.power_w[rows].max())
        slots = np.zeros((3, most), dtype=np.int64)
        tops = 0.0, most * l2 * (1.0 + MARGIN), 0.0, most * power * (1.0 + MARGIN)
        # A slot alone is a box of its own: company may shorten the times of gpulet's pairs.
        sizes = [(1, 1), (2, most)] if most > 1 else [(1, 1)]
        numbers = count()
        boxes = [
            (-UNBOUNDED, next(numbers), 1.0 / len(sizes), DividedBox(*size, *tops), np.zeros(2, dtype=np.int64))
            for size in sizes
        ]
        while boxes:
            _, number, part, box, multipliers = heappop(boxes)
            bound, size = bound_divided(
                self.merged, self.known, box, self._l2, self._power, threshold, multipliers, self._made, slots
            )
            if bound <= threshold:
                progress(part)
                continue
            chosen = slots[:, :size].copy()
            losses = _losses(self.merged, self.known, box, chosen)
            if size and worth_of_slots(self.tables, self.known, *chosen) > threshold:
                return [int(self.known.of_class[k]) for k in chosen[0]]
            grown = self._growths(box)
            narrow = max(grown) < NARROW
            if max(grown) < LISTED:
                status, size = list_contents(
                    self.tables,
                    self.merged,
                    self.known,
                    box,
                    self._l2,
                    self._power,
                    threshold,
                    multipliers,
                    self._made,
                    slots,
                    NARROW_NODES if narrow else FIRST_NODES,
                )
                if status == REFUTED:
                    progress(part)
                    continue
                if status == FOUND:
                    return [int(self.known.of_class[k]) for k in slots[0, :size]]
            if narrow or number > MOST_BOXES:
                raise TooHardError
            for half in _halves(box, grown, losses):
                heappush(boxes, (-bound, next(numbers), part / 2.0, half, multipliers.copy()))
        return []

    def _growths(self, box: DividedBox) -> tuple[float, float, float]:
        """Return how much a time grows across a box by the residents, C and P; infinite for several numbers of them."""
        throttled_w = self.tables.max_power_w - self.tables.idle_power_w
        return (
            np.inf if box.most > box.least else 0.0,
            float(self.merged.alpha_l2.max(initial=0.0)) * (box.l2_most - box.l2_least),
            -self.tables.throttle_per_w * max(0.0, box.power_most - max(box.power_least, throttled_w)),
        )


def _halves(
    box: DividedBox, grown: tuple[float, float, float], losses: tuple[int, int, int]
) -> tuple[DividedBox, DividedBox]:
    """Cut a box along the axis, of those not narrow, at whose ceiling its best choice loses most."""
    wide = [axis for axis in range(3) if grown[axis] >= NARROW]
    match max(wide, key=lambda axis: (losses[axis], grown[axis])):
        case 0:
            middle = (box.least + box.most) // 2
            return box._replace(most=middle), box._replace(least=middle + 1)
        case 1:
            cut = (box.l2_least + box.l2_most) / 2.0
            return box._replace(l2_most=cut), box._replace(l2_least=cut)
        case _:
            cut = (box.power_least + box.power_most) / 2.0
            return box._replace(power_most=cut), box._replace(power_least=cut)
