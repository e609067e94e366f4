"""Search for a pattern of divided workloads worth more than a threshold, or a proof that there is none.

A box limits the number of residents N, their total demand C (a weighted sum of L2 and DRAM) and their total power P.
Boxes cover all patterns. A box whose bound (``divided_bound``) exceeds the threshold is cut in two, along the axis that
changes the worth of its best choice most. Once times hardly grow across a box, all its patterns are listed instead.
"""

from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count

import numpy as np

from bench.certificate.boxes import STEPS_PER_UNIT, PatternBox, box_limits, whole_box
from bench.certificate.divided import DividedClasses, slot_worth, worth_of_slots
from bench.certificate.divided_bound import DividedTables, bound_divided, fill_gains
from bench.certificate.failures import GivenUpError, check_memory
from bench.certificate.knapsack import UNBOUNDED, check_worth
from bench.certificate.one_gpu import time_at_floors
from bench.certificate.patterns import Progress, ignore, merged_tables
from bench.certificate.search import EXHAUSTED, FOUND, LIMIT
from instances.arrays import Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.tolerance import MARGIN

LISTED_GROWTH = 3e-3
"""The patterns of a box are listed if all its growths (``PatternBox``) are below this."""

NARROW_GROWTH = 1e-6
"""A box is too narrow to be cut if all its growths are below this."""

FIRST_NODES = 20_000
"""Largest number of nodes for listing the patterns of a box that can be cut instead."""

NARROW_NODES = 20_000_000
"""Largest number of nodes for listing the patterns of a box that is too narrow to be cut."""

MOST_BOXES = 300_000
"""Number of boxes after which a search gives up."""


@compiled
def list_patterns(
    tables: Tables,
    merged: Tables,
    divided: DividedClasses,
    box: PatternBox,
    demand_steps: Ints,
    power_steps: Ints,
    threshold: int,
    multipliers: Ints,
    buffers: DividedTables,
    slots: Ints,
    node_limit: int,
) -> tuple[int, int]:
    """Test the patterns of a box that may be worth more than ``threshold``, until one is.

    Slots are added in the order of their classes. Let the chosen slots of a class have worths w and
    charges d. No worth and no charge is negative. So the gain of these and any further slots of the class has two
    limits: ``sum (w - d)`` plus the gain of the further slots alone, and the class's largest worth on one GPU minus
    ``sum d``. ``largest_gains`` therefore bounds every completion.

    Returns
    -------
    status, size
        ``FOUND`` and the number of slots of the pattern in ``slots``; ``EXHAUSTED`` and 0 if no pattern is worth more;
        ``LIMIT`` and 0 after ``node_limit`` nodes.
    """
    capacity, largest_gains = merged.share_units, buffers.largest_gains
    limits = box_limits(box)
    fill_gains(
        merged,
        divided,
        box.most_residents,
        demand_steps,
        power_steps,
        multipliers,
        buffers,
        np.empty(len(divided.model), dtype=np.int64),
    )
    offset = multipliers[0] * limits.demand_ceiling + multipliers[1] * limits.power_ceiling
    # Rows of ``alternatives``: class row, batch, share, net, charge, demand and power of a slot.
    alternatives, alternative_count = np.empty((7, buffers.slot_worths.size), dtype=np.int64), 0
    for class_row, model in enumerate(divided.model):
        for j, units in enumerate(merged.permitted):
            for batch in range(1, merged.max_batch[model] + 1):
                worth = buffers.slot_worths[class_row, j, batch]
                charge = (
                    multipliers[0] * demand_steps[model, batch, units]
                    + multipliers[1] * power_steps[model, batch, units]
                )
                if (
                    worth > 0
                    and worth - charge + largest_gains[0, box.most_residents - 1, capacity - units] + offset > threshold
                ):
                    alternatives[0, alternative_count] = class_row
                    alternatives[1, alternative_count] = batch
                    alternatives[2, alternative_count] = units
                    alternatives[3, alternative_count], alternatives[4, alternative_count] = worth - charge, charge
                    alternatives[5, alternative_count] = demand_steps[model, batch, units]
                    alternatives[6, alternative_count] = power_steps[model, batch, units]
                    alternative_count += 1
    position = np.full(box.most_residents + 1, -1, dtype=np.int64)
    # Totals of the slots so far: gain of the earlier classes, nets and charges of the last class, units, C and P.
    so_far = np.zeros((box.most_residents + 1, 6), dtype=np.int64)
    depth, node_count, last_class = 0, 0, -1
    while depth >= 0:
        position[depth] += 1
        row = position[depth]
        if row >= alternative_count:
            depth -= 1
            continue
        class_row = alternatives[0, row]
        units = alternatives[2, row]
        net = alternatives[3, row]
        charge = alternatives[4, row]
        last_class = alternatives[0, position[depth - 1]] if depth else -1
        gain, class_nets, class_charges, total_units, total_demand, total_power = so_far[depth]
        if last_class >= 0 and class_row != last_class:
            gain = gain + min(class_nets, divided.most_worth_on_gpu[last_class] - class_charges)
            class_nets = 0
            class_charges = 0
            # ``largest_gains`` does not increase with the class, so no slot of a later class leads above the threshold.
            if (
                gain + largest_gains[class_row, box.most_residents - depth, capacity - total_units] + offset
                <= threshold
            ):
                depth -= 1
                continue
        class_nets, class_charges, total_units = class_nets + net, class_charges + charge, total_units + units
        total_demand, total_power = total_demand + alternatives[5, row], total_power + alternatives[6, row]
        if total_units > capacity or total_demand > limits.demand_ceiling or total_power > limits.power_ceiling:
            continue
        free_slots = box.most_residents - depth - 1
        further_gain = min(
            class_nets + largest_gains[class_row, free_slots, capacity - total_units],
            divided.most_worth_on_gpu[class_row]
            - class_charges
            + largest_gains[class_row + 1, free_slots, capacity - total_units],
        )
        if gain + further_gain + offset <= threshold:
            continue
        node_count += 1
        if node_count > node_limit:
            return LIMIT, 0
        slots[:, depth] = alternatives[:3, row]
        if (
            depth + 1 >= box.fewest_residents
            and total_demand >= limits.demand_floor
            and total_power >= limits.power_floor
        ):
            pattern = slots[:, : depth + 1]
            if worth_of_slots(tables, divided, pattern[0], pattern[1], pattern[2]) > threshold:
                return FOUND, depth + 1
        if free_slots > 0:
            depth += 1
            position[depth] = row - 1
            so_far[depth] = np.array([gain, class_nets, class_charges, total_units, total_demand, total_power])
    return EXHAUSTED, 0


@compiled
def _losses(merged: Tables, divided: DividedClasses, box: PatternBox, slots: Ints) -> tuple[int, int, int]:
    """Return how much worth the slots lose if N, C or P alone is at its ceiling and the other two at their floors."""
    losses = np.zeros(3, dtype=np.int64)
    for i in range(slots.shape[1]):
        class_row, batch, units = slots[0, i], slots[1, i], slots[2, i]
        model = divided.model[class_row]
        worth_at_floors = slot_worth(
            divided,
            class_row,
            batch,
            time_at_floors(merged, model, batch, units, box.fewest_residents, box.demand_floor_pct, box.power_floor_w),
        )
        at_most_residents_ms = time_at_floors(
            merged, model, batch, units, box.most_residents, box.demand_floor_pct, box.power_floor_w
        )
        at_demand_ceiling_ms = time_at_floors(
            merged, model, batch, units, box.fewest_residents, box.demand_ceiling_pct, box.power_floor_w
        )
        at_power_ceiling_ms = time_at_floors(
            merged, model, batch, units, box.fewest_residents, box.demand_floor_pct, box.power_ceiling_w
        )
        losses[0] += worth_at_floors - slot_worth(divided, class_row, batch, at_most_residents_ms)
        losses[1] += worth_at_floors - slot_worth(divided, class_row, batch, at_demand_ceiling_ms)
        losses[2] += worth_at_floors - slot_worth(divided, class_row, batch, at_power_ceiling_ms)
    return losses[0], losses[1], losses[2]


@dataclass
class DividedSearch:
    """Search over the patterns of one GPU type, given its tables and the classes on it."""

    tables: Tables
    divided: DividedClasses

    def __post_init__(self) -> None:
        tables, classes = self.tables, len(self.divided.model)
        check_worth(float(self.divided.worth.max(initial=0)), tables.most_residents)
        shares, sums_shape = len(tables.permitted), (tables.most_residents + 1, tables.share_units + 1)
        slots = shares * tables.transfer_ms.shape[1]
        check_memory("the dynamic programs of a search", classes, 3 * sums_shape[0] * sums_shape[1] + 8 * slots)
        self.merged = merged_tables(tables)
        self._whole = whole_box(self.merged, self.divided.model, 1, tables.most_residents)
        self._demand_steps, self._power_steps = (
            np.floor(demand * STEPS_PER_UNIT * (1.0 - MARGIN)).astype(np.int64)
            for demand in (self.merged.l2_pct, self.merged.power_w)
        )
        self._buffers = DividedTables(
            np.zeros((classes, shares, tables.transfer_ms.shape[1]), dtype=np.int64),
            np.zeros((classes, shares), dtype=np.int64),
            np.zeros((classes, shares), dtype=np.int64),
            np.zeros((classes, *sums_shape), dtype=np.int64),
            np.zeros((classes, *sums_shape), dtype=np.int64),
            np.zeros((classes + 1, *sums_shape), dtype=np.int64),
        )

    def above(self, threshold: int, progress: Progress = ignore) -> list[int]:
        """Return the class of each slot of a pattern worth more than ``threshold``; empty if there is no such pattern.

        Raises
        ------
        GivenUpError
            If the search gives up.
        """
        if len(self.divided.model) == 0:
            progress(1.0)
            return []
        most_residents = self._whole.most_residents
        slots = np.zeros((3, most_residents), dtype=np.int64)
        # A single slot has a box of its own: in gpulet's performance model, co-location may shorten a time.
        first_boxes = [
            self._whole._replace(most_residents=1),
            *([self._whole._replace(fewest_residents=2)] if most_residents > 1 else []),
        ]
        numbers = count()  # boxes of equal bounds come in the order of their numbers
        boxes = [
            (-UNBOUNDED, next(numbers), 1.0 / len(first_boxes), box, np.zeros(2, dtype=np.int64)) for box in first_boxes
        ]
        while boxes:
            _, number, fraction, box, multipliers = heappop(boxes)
            bound, size = bound_divided(
                self.merged,
                self.divided,
                box,
                self._demand_steps,
                self._power_steps,
                threshold,
                multipliers,
                self._buffers,
                slots,
            )
            if bound <= threshold:
                progress(fraction)
                continue
            best_choice = slots[:, :size].copy()
            losses = _losses(self.merged, self.divided, box, best_choice)
            if size and worth_of_slots(self.tables, self.divided, *best_choice) > threshold:
                return [int(self.divided.of_class[row]) for row in best_choice[0]]
            growths = box.growths(self.merged)
            narrow = max(growths) < NARROW_GROWTH
            if max(growths) < LISTED_GROWTH:
                status, size = list_patterns(
                    self.tables,
                    self.merged,
                    self.divided,
                    box,
                    self._demand_steps,
                    self._power_steps,
                    threshold,
                    multipliers,
                    self._buffers,
                    slots,
                    NARROW_NODES if narrow else FIRST_NODES,
                )
                if status == EXHAUSTED:
                    progress(fraction)
                    continue
                if status == FOUND:
                    return [int(self.divided.of_class[row]) for row in slots[0, :size]]
            if narrow or number > MOST_BOXES:
                raise GivenUpError("a box is too narrow to be cut, or there are too many")
            cuttable_axes = [axis for axis in range(3) if growths[axis] >= NARROW_GROWTH]
            for half in box.halves(max(cuttable_axes, key=lambda axis: (losses[axis], growths[axis]))):
                heappush(boxes, (-bound, next(numbers), fraction / 2.0, half, multipliers.copy()))
        return []
