"""Pricing for ``split`` on one GPU type: boxes of total interference, halved along the axis of the largest error."""

import math
from collections.abc import Sequence
from operator import attrgetter

import numpy as np

from formulations.colgen.clock import CELLS_PER_NODE, now, spend_nodes
from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.interference_boxes import CONTENTION, POWER, RESIDENTS, one_growth
from formulations.colgen.refinement import Region, refine
from formulations.colgen.restricted_master import Priced
from formulations.colgen.split.relaxation import empty_relaxed, relax, trace
from formulations.colgen.split.slots import (
    Contents,
    empty_contents,
    first_slots,
    improve,
    make_feasible,
    part_served,
    worth_of,
)
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms
from instances.one_gpu import Pattern, Resident

ENOUGH = 200
"""Number of GPUs found after which the master is solved again."""

FINEST = 1e-3
"""Boxes that overrate the worth of a GPU by at most this relative error are not halved."""

FINEST_CONTENTION_PCT, FINEST_POWER_W = 0.2, 1.0
"""Widths below which boxes are not halved either. With stepped rates a worth may jump even in the narrowest box."""

SUFFIXES = 20
"""Largest number of relaxed solutions of a region that are evaluated: over all classes, and over the later classes."""

PROMISING = 0.9
"""Fraction of the threshold below which GPUs are not improved."""


class SplitPricer:
    """Pricing on one GPU type; the regions are kept between calls.

    Parameters
    ----------
    pool
        Index of the type in the instance's pool.
    first_of_class
        Position in the instance of the workload by which patterns name its class, shape (classes,).
    """

    def __init__(self, demand: DemandOnGpu, pool: int, first_of_class: Ints) -> None:
        self.demand, self.pool, self._first_of_class = demand, pool, first_of_class
        self._merged = one_growth(demand.tables).tables
        self.most_residents = demand.tables.most_residents
        self._regions = [self._whole_region()]
        self._relaxed = empty_relaxed(demand, self.most_residents)
        self._contents = empty_contents(self.most_residents)

    def _whole_region(self) -> Region:
        return Region.whole(self._merged, 1, self.most_residents)

    def price(
        self, weight: Floats, threshold: float, region_limit: int, deadline: float, left: Floats | None = None
    ) -> Priced:
        """Find GPUs worth more than ``threshold``.

        Parameters
        ----------
        weight
            Worth of one whole workload of each class, shape (classes,).
        threshold
            At least 0.
        region_limit
            Largest number of regions that are halved.
        deadline
            Value of ``clock.now()`` at which to stop; the bound is infinite unless all regions were bounded.
        left
            Number of workloads of each class to serve, shape (classes,); ``None`` for all. If it is given, the regions
            of this call are not kept.
        """
        demand = self.demand if left is None else self.demand._replace(copies=left)
        floors = demand._replace(tables=self._merged)
        gaining: dict[Pattern, float] = {}
        settled: list[Region] = []
        visited = 0

        def examine(regions: list[Region]) -> list[Region]:
            """Bound regions; return those that must be halved."""
            nonlocal visited
            visited += len(regions)
            return [region for region in regions if not settles(region)]

        def settles(region: Region) -> bool:
            """Bound a region and collect GPUs from it; return whether it need not be halved."""
            if now() >= deadline:
                region.bound = math.inf
            else:
                region.bound, count = relax(
                    floors, weight, region.box, threshold, region.multipliers, self._relaxed, self._contents
                )
                spend_nodes(1.0 + self._relaxed.table.size * SUFFIXES / CELLS_PER_NODE)
                region.losses = losses(floors, weight, region.box, self._contents, count)
                if region.bound > threshold:
                    self._collect(demand, weight, region, threshold, gaining)
                    if max(region.losses) > FINEST * region.bound:
                        return False
            settled.append(region)
            return True

        open_regions = refine(
            self._regions if left is None else [self._whole_region()],
            (),
            attrgetter("bound"),
            examine,
            Region.halves,
            goes_on=lambda: len(gaining) < ENOUGH and now() < deadline,
            most_halved=region_limit,
        )
        regions = settled + open_regions
        if left is None:
            self._regions = regions
        return Priced(max([threshold, *(region.bound for region in regions)]), list(gaining), visited)

    def _collect(
        self, demand: DemandOnGpu, weight: Floats, region: Region, threshold: float, gaining: dict[Pattern, float]
    ) -> None:
        """Evaluate the relaxed solution of a region, and while they gain, those over fewer and fewer later classes."""
        residents, units = int(region.box[RESIDENTS + 1]), demand.tables.share_units
        most_worth = self._relaxed.table[:, residents, units]
        # Entry ``first`` is the worth of the best solution over the classes from ``first`` on. Only where it falls, the
        # solution changes.
        for first in np.flatnonzero(np.append(True, most_worth[1:] < most_worth[:-1]))[:SUFFIXES]:
            count = trace(demand, region.box, self._relaxed, first, self._contents)
            count = make_feasible(demand, self._contents, count)
            slots = first_slots(self._contents, count)
            if count == 0 or worth_of(demand, weight, slots) < PROMISING * threshold:
                return
            worth = improve(demand, weight, slots)
            if worth <= threshold:
                return
            gaining[self._pattern(count)] = worth

    def _pattern(self, count: int) -> Pattern:
        contents = self._contents
        slots = ((int(contents.group[i]), int(contents.batch[i]), int(contents.units[i])) for i in range(count))
        return self.pattern(sorted(slots))

    def pattern(self, slots: Sequence[tuple[int, int, int]]) -> Pattern:
        """Return the pattern of slots (class, batch, share), which serve the largest rates that they can."""
        workload = self._first_of_class.tolist()
        return Pattern(self.pool, tuple((units, (Resident(workload[g], b, 0.0),)) for g, b, units in slots))

    def times_ms(self, pattern: Pattern) -> Floats | None:
        """Return the GPU time of each slot; ``None`` if an SLO is violated, or shares or memory do not suffice."""
        contents, count = self._contents, len(pattern.gpulets)
        if count > self.most_residents:
            return None
        for i, (units, (slot,)) in enumerate(pattern.gpulets):
            class_index = np.searchsorted(self._first_of_class, slot.workload)
            contents.group[i], contents.batch[i], contents.units[i] = class_index, slot.batch, units
        worth = worth_of(self.demand, self.demand.copies, first_slots(contents, count))
        return contents.time_ms[:count].copy() if math.isfinite(worth) else None

    def best_alone(self, class_index: int) -> Pattern | None:
        """Return a GPU with one slot of the class, at the batch that serves most; ``None`` if no batch is feasible."""
        weight = np.zeros(len(self.demand.model))
        weight[class_index] = 1.0
        contents = self._contents
        contents.group[0], contents.batch[0], contents.units[0] = class_index, 1, self.demand.tables.permitted[-1]
        return self._pattern(1) if improve(self.demand, weight, first_slots(contents, 1)) > 0.0 else None


@compiled
def losses(
    demand: DemandOnGpu, weight: Floats, box: Floats, contents: Contents, count: int
) -> tuple[float, float, float]:
    """Return the worth that slots lose from the floors of a box to each ceiling; 0 along axes too narrow to halve."""
    tables = demand.tables
    lost, widths = np.zeros(3), box[1::2] - box[::2]
    for i in range(count):
        w, b, u = contents.group[i], contents.batch[i], contents.units[i]
        m = demand.model[w]
        contention, power = tables.l2_pct[m, b, u], tables.power_w[m, b, u]
        for axis in range(-1, 3):  # -1: all at the floors; otherwise this axis is at its ceiling
            residents = int(box[RESIDENTS + (axis == 0)])
            others_contention = max(0.0, box[CONTENTION + (axis == 1)] - contention)
            total_power = max(box[POWER + (axis == 2)], power)
            time_ms = gpu_time_ms(tables, m, b, u, residents, others_contention, 0.0, total_power)
            part = weight[w] * part_served(demand, w, b, time_ms)
            if axis < 0:
                lost += part
            else:
                lost[axis] -= part
    lost = np.where(widths > np.array([0.0, FINEST_CONTENTION_PCT, FINEST_POWER_W]), lost, 0.0)
    return lost[0], lost[1], lost[2]
