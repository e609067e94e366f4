"""Search for a pattern of divided workloads worth more than a threshold, or a proof that there is none.

A box limits the number of residents N, their total demand C (L2 and DRAM merged) and their total power P. Boxes cover
all patterns. A box whose bound (``divided_bound``) exceeds the threshold is cut in two, along the axis that changes the
worth of its best choice most. Once times hardly grow across a box, all its patterns are listed instead.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from bench.certificate.boxes import FINE, PatternBox, box_limits, whole_box
from bench.certificate.divided import DividedClasses, slot_worth, worth_of_slots
from bench.certificate.divided_bound import DividedTables, bound_divided, fill_gains
from bench.certificate.failures import GivenUpError, check_memory
from bench.certificate.knapsack import UNBOUNDED, check_worth
from bench.certificate.one_gpu import time_at_floors
from bench.certificate.patterns import Progress, ignore, merged_tables
from bench.certificate.search import FOUND, LIMIT, REFUTED
from instances.arrays import Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.tolerance import MARGIN

LISTED, NARROW = 3e-3, 1e-6
"""Largest growths of a time across a box at which its patterns are listed, and at which it is too narrow to cut."""

FIRST_NODES, NARROW_NODES = 20_000, 20_000_000
"""Node limits for listing a box: of one that can be cut instead, and of one that is too narrow to cut."""

MOST_BOXES = 300_000
"""Boxes after which a search gives up."""


@compiled
def list_patterns(
    tables: Tables,
    merged: Tables,
    known: DividedClasses,
    box: PatternBox,
    l2: Ints,
    power: Ints,
    threshold: int,
    multipliers: Ints,
    made: DividedTables,
    slots: Ints,
    node_limit: int,
) -> tuple[int, int]:
    """Test every pattern of a box that may be worth more than ``threshold``.

    Slots are added in order, those of one class after each other. Let the chosen slots of a class have worths w and
    charges d. Two limits hold for these and any further slots of the class together, because no worth and no charge is
    negative. Their gain is at most ``sum (w - d)`` plus the gain of the further slots alone. It is also at most
    ``most - sum d``. So the table bounds every completion.

    Returns
    -------
    status, size
        ``FOUND`` and the number of slots of the pattern in ``slots``; ``REFUTED`` or ``LIMIT``, and 0.
    """
    capacity, table = merged.share_units, made.table
    limits = box_limits(box)
    fill_gains(merged, known, box.most, l2, power, multipliers, made, np.empty(len(known.model), dtype=np.int64))
    offset = multipliers[0] * limits.l2_most + multipliers[1] * limits.power_most
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
    # Totals of the slots so far: gain of the earlier classes, nets and charges of the last class, units, C and P.
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
            # The table does not increase with the class, so no slot of a later class leads to more either.
            if gain + table[k, box.most - depth, capacity - units] + offset <= threshold:
                depth -= 1
                continue
        nets, charges, units = nets + net, charges + charge, units + u
        total_l2, total_power = total_l2 + kept[5, i], total_power + kept[6, i]
        if units > capacity or total_l2 > limits.l2_most or total_power > limits.power_most:
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
        if depth + 1 >= box.least and total_l2 >= limits.l2_least and total_power >= limits.power_least:
            chosen = slots[:, : depth + 1]
            if worth_of_slots(tables, known, chosen[0], chosen[1], chosen[2]) > threshold:
                return FOUND, depth + 1
        if left > 0:
            depth += 1
            at[depth] = i - 1
            so_far[depth] = np.array([gain, nets, charges, units, total_l2, total_power])
    return REFUTED, 0


@compiled
def _losses(merged: Tables, known: DividedClasses, box: PatternBox, slots: Ints) -> tuple[int, int, int]:
    """Return the loss of the slots' worth if only N, only C or only P is at its ceiling instead of its floor."""
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
    """Search over the patterns of one GPU type, given its tables and the classes on it."""

    tables: Tables
    known: DividedClasses

    def __post_init__(self) -> None:
        tables, classes = self.tables, len(self.known.model)
        check_worth(float(self.known.worth.max(initial=0)), tables.most_residents)
        shares, sums = len(tables.permitted), (tables.most_residents + 1, tables.share_units + 1)
        slots = shares * tables.transfer_ms.shape[1]
        check_memory("the dynamic programs of a search", classes, 3 * sums[0] * sums[1] + 8 * slots)
        self.merged = merged_tables(tables)
        self._whole = whole_box(self.merged, self.known.model, 1, tables.most_residents)
        self._l2, self._power = (
            np.floor(demand * FINE * (1.0 - MARGIN)).astype(np.int64)
            for demand in (self.merged.l2_pct, self.merged.power_w)
        )
        self._made = DividedTables(
            np.zeros((classes, shares, tables.transfer_ms.shape[1]), dtype=np.int64),
            np.zeros((classes, shares), dtype=np.int64),
            np.zeros((classes, shares), dtype=np.int64),
            np.zeros((classes, *sums), dtype=np.int64),
            np.zeros((classes, *sums), dtype=np.int64),
            np.zeros((classes + 1, *sums), dtype=np.int64),
        )

    def above(self, threshold: int, progress: Progress = ignore) -> list[int]:
        """Return the class of each slot of a pattern worth more than ``threshold``; empty if there is no such pattern.

        Raises
        ------
        GivenUpError
            If the search gives up.
        """
        if len(self.known.model) == 0:
            progress(1.0)
            return []
        most = self._whole.most
        slots = np.zeros((3, most), dtype=np.int64)
        # A single slot has a box of its own: in gpulet's performance model, co-location may shorten a time.
        first = [self._whole._replace(most=1), *([self._whole._replace(least=2)] if most > 1 else [])]
        numbers = count()
        boxes = [(-UNBOUNDED, next(numbers), 1.0 / len(first), box, np.zeros(2, dtype=np.int64)) for box in first]
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
            grown = box.growths(self.merged)
            narrow = max(grown) < NARROW
            if max(grown) < LISTED:
                status, size = list_patterns(
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
                raise GivenUpError("a box is too narrow to be cut, or there are too many")
            wide = [axis for axis in range(3) if grown[axis] >= NARROW]
            for half in box.halves(max(wide, key=lambda axis: (losses[axis], grown[axis]))):
                heappush(boxes, (-bound, next(numbers), part / 2.0, half, multipliers.copy()))
        return []
