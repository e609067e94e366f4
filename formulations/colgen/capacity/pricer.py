"""Pricing for ``capacity`` on one GPU type: GPUs filled for throughput, minus the charges of their residents.

Throughputs are ratios of sums over all residents of a GPU. So least shares are not optimal, and a single resident has
no worth of its own. In a small box of total L2 and power demand it nearly has one. Regions are halved, largest bound
first, until a short search of their boxes is complete. A half takes no choice that its region excludes.
"""

import heapq
import math
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from formulations.colgen.capacity.relaxation import ROUNDS, CapacityMarket, empty_relaxed, losses_rps, relax
from formulations.colgen.capacity.search import FilledFound, empty_found, search
from formulations.colgen.capacity.value import can_fit, value_pattern
from formulations.colgen.clock import CELLS_PER_NODE, NODES_PER_S, now, spend
from formulations.colgen.interference_boxes import RESIDENTS, Region, one_growth
from instances.arrays import Floats, Ints
from instances.least_shares import least_share_within, least_shares
from instances.spare_shares import spend_spare_shares
from instances.view import View

SPARE_NODES = 2_000
"""Node limit of the search that distributes spare shares when a set of workloads is valued."""


COARSE_NODES = 200
"""Node limit of the search of a box that may still be halved."""

SEARCH_NODES = (1_000, 20_000, 400_000, 8_000_000)
"""Node limits of the search of the other boxes: small at first, larger only where smaller ones are not enough."""

OPTIONS_NODES = 20
"""Work of the options of one box: see ``formulations.colgen.clock``."""

FILL_NODES = 100
"""Work of valuing a set of workloads: see ``formulations.colgen.clock``."""

FINEST_RPS = 1e-6
"""Regions whose boxes overrate throughput by at most this are not halved."""

PATTERNS_PER_SEARCH = 10
EXHAUSTIVE_PATTERNS = 20_000


class Effort(Enum):
    """Effort of a pricing call."""

    CERTIFY = "as much search as needed for the best one"
    EXHAUST = "a complete search for everything that gains"


@dataclass(frozen=True, slots=True)
class Filled:
    """A GPU filled for throughput: workloads (ascending positions), batches, shares and their total throughput."""

    pool: int
    workload: tuple[int, ...]
    batch: tuple[int, ...]
    units: tuple[int, ...]
    throughput_rps: float


@dataclass(frozen=True, slots=True)
class PricedGpus:
    """Result of one pricing call.

    Attributes
    ----------
    bound
        Upper bound on the worth of every filled GPU, valid whenever the call stops.
    filled
        GPUs worth more than ``gain``.
    nodes
        Number of nodes visited.
    complete
        Whether every region was searched completely.
    """

    bound: float
    filled: list[Filled]
    nodes: int
    complete: bool


class CapacityPricer:
    """Pricing for ``capacity`` on one GPU type.

    Parameters
    ----------
    view
        The instance as seen from the GPU type.
    pool
        Index of the type in the instance's pool.
    order, copy_of
        Positions in the instance with identical workloads adjacent; see ``CapacityMarket``.
    """

    def __init__(self, view: View, pool: int, order: Ints, copy_of: Ints) -> None:
        self.pool, self.tables, self.order, self.model = pool, view.tables, order, view.model[order]
        batches = np.arange(1, self.tables.transfer_ms.shape[1])
        budget_ms = view.budgets_ms(order[:, None], batches[None, :])
        self.budget_ms = np.full((len(order), len(batches) + 1, budget_ms.shape[2]), -np.inf)
        self.budget_ms[:, 1:] = np.where(np.isnan(budget_ms), -np.inf, budget_ms)
        self.copy_of = copy_of
        self._place_of = np.argsort(order)
        self._merged = one_growth(view.tables).tables
        self._values: dict[tuple[int, ...], Filled | None] = {}
        # More residents than this exceed one GPU even at their least shares alone.
        fitting = int(np.searchsorted(np.cumsum(np.sort(self.least_units())), self.tables.share_units, side="right"))
        self._most_residents = min(fitting, self.tables.most_residents)
        self.relaxed = empty_relaxed(self.tables, len(order), self._most_residents)

    def least_units(self) -> Ints:
        """Return each workload's least share alone over all batches; ``share_units + 1`` if none is enough."""
        least = np.full(len(self.model), self.tables.share_units + 1)
        for w, budgets in enumerate(self.budget_ms):
            for b in np.flatnonzero(budgets.max(axis=1) > 0.0).tolist():
                share = least_share_within(self.tables, self.model[w], b, budgets, b)
                least[w] = min(least[w], share)
        return least

    def fill(self, workloads: tuple[int, ...]) -> Filled | None:
        """Value a set of workloads (positions in the instance) on one GPU; ``None`` if no batches are found to fit."""
        if workloads not in self._values:
            index = self.places(workloads)
            batch, units = np.ones_like(index), np.zeros_like(index)
            value = -1.0
            spend(FILL_NODES)
            if can_fit(self._merged, self.model, self.budget_ms, index, batch):
                value = value_pattern(self.tables, self.model, self.budget_ms, index, batch, units, SPARE_NODES)
            self._values[workloads] = (
                Filled(self.pool, workloads, tuple(batch.tolist()), tuple(units.tolist()), float(value))
                if value > 0.0
                else None
            )
        return self._values[workloads]

    def price(
        self,
        charge: Floats,
        threshold: float,
        resolution: float,
        effort: Effort,
        deadline: float,
        gain: float = math.inf,
    ) -> PricedGpus:
        """Find GPUs whose throughput exceeds the charges of their residents by more than ``threshold``.

        Parameters
        ----------
        charge
            Charge for each workload of the instance, requests per second.
        threshold
            Worth, in requests per second, of regions that are left out. ``CERTIFY`` raises it to the best found.
        resolution
            Largest error in throughput of boxes that are searched instead of halved; above 0.
        effort
            Effort of the call.
        deadline
            Value of ``clock.now()`` at which to stop.
        gain
            Worth above which GPUs that are found anyway are returned too; at most ``threshold``.
        """
        exhaust = effort is Effort.EXHAUST
        market = CapacityMarket(self._merged, self.model, self.budget_ms, self.copy_of, charge[self.order])
        found = empty_found(EXHAUSTIVE_PATTERNS if exhaust else PATTERNS_PER_SEARCH, self._most_residents)
        call = _Call(self, market, threshold, min(gain, threshold), resolution, effort, deadline, found)
        for region in self._whole_regions():
            call.file(region)
        for node_limit in SEARCH_NODES:
            call.search_all(node_limit)
        bound = max([call.proven, *call.filled.values(), *(r.bound for r in call.waiting)])
        complete = not call.waiting and math.isfinite(bound)
        return PricedGpus(bound, list(call.filled), call.nodes, complete)

    def _whole_regions(self) -> list[Region]:
        """Return a region for each number of residents."""
        regions = [Region.whole(self._merged, n, n) for n in range(1, self._most_residents + 1)]
        for region in regions:
            region.alive = np.ones(len(self.model) * len(self.tables.permitted), dtype=np.bool_)
        return regions

    def places(self, workloads: tuple[int, ...]) -> Ints:
        """Return the indices in the market of workloads (positions in the instance)."""
        return self._place_of[list(workloads)]

    def polished(self, filled: Filled) -> Filled:
        """Return a filled GPU with the best shares for its batches that a short search finds."""
        index, batch = self.places(filled.workload), np.array(filled.batch)
        rows, budget_ms = self.model[index], self.budget_ms[index, batch]
        units = np.zeros_like(index)
        if not least_shares(self.tables, rows, batch, budget_ms, units):
            return filled
        value, _ = spend_spare_shares(self.tables, rows, batch, budget_ms, units, SPARE_NODES)
        if value <= filled.throughput_rps:
            return filled
        return replace(filled, units=tuple(units.tolist()), throughput_rps=float(value))

    def filled_of(self, found: FilledFound, row: int) -> Filled:
        """Return a filled GPU of a search, in the order of the instance."""
        size = int(found.size[row])
        residents = sorted(
            zip(
                self.order[found.workload[row, :size]].tolist(),
                found.batch[row, :size].tolist(),
                found.units[row, :size].tolist(),
                strict=True,
            )
        )
        workload, batch, units = zip(*residents, strict=True)
        return Filled(self.pool, workload, batch, units, float(found.value[row]))


class _Call:
    """One call of ``CapacityPricer.price``.

    Attributes
    ----------
    waiting
        Regions that may hold a GPU that gains.
    proven
        Upper bound on the worth of GPUs in the regions that were searched completely.
    filled
        Filled GPUs found, with their worth.
    nodes
        Number of nodes visited.
    """

    def __init__(
        self,
        pricer: CapacityPricer,
        market: CapacityMarket,
        threshold: float,
        gain: float,
        resolution: float,
        effort: Effort,
        deadline: float,
        found: FilledFound,
    ) -> None:
        self._pricer, self._market, self._found = pricer, market, found
        self._threshold, self._resolution, self._deadline = threshold, resolution, deadline
        self._gain, self._effort = gain, effort
        self.proven = threshold
        self.waiting: list[Region] = []
        self.filled: dict[Filled, float] = {}
        self.nodes = 0

    def file(self, region: Region) -> None:
        """Bound a region, value the sets of its relaxation, and queue it unless its bound excludes every gain."""
        if now() >= self._deadline:
            heapq.heappush(self.waiting, region)
            return
        steps = self._relax(region)
        if region.bound <= self._threshold:
            return
        region.losses = losses_rps(self._market, region.box, self._pricer.relaxed, steps - 1)
        heapq.heappush(self.waiting, region)
        for workloads in self._relaxed_sets(int(region.box[RESIDENTS]), steps):
            if now() < self._deadline:
                self._keep(self._pricer.fill(workloads))

    def search_all(self, node_limit: int) -> None:
        """Search or halve the queued regions, largest bound first; regions cut short stay queued."""
        cut_short = []
        while self.waiting and len(self.filled) < EXHAUSTIVE_PATTERNS and now() < self._deadline:
            region = heapq.heappop(self.waiting)
            if region.bound <= self._threshold:
                continue
            coarse = max(region.losses) > max(self._resolution, FINEST_RPS)
            if self._search(region, COARSE_NODES if coarse else node_limit):
                continue
            if coarse:
                for half in region.halves():
                    self.file(half)
            else:
                cut_short.append(region)
        for region in cut_short:
            heapq.heappush(self.waiting, region)

    def _relax(self, region: Region, rounds: int = ROUNDS) -> int:
        residents, relaxed = int(region.box[RESIDENTS]), self._pricer.relaxed
        bound, steps = relax(
            self._market, region.box, self._threshold, region.multipliers, region.alive, rounds, relaxed
        )
        region.bound = min(bound, region.bound)
        cells = int(region.alive.sum()) * (residents + 1) * relaxed.table.shape[2]
        spend(OPTIONS_NODES + steps * cells / CELLS_PER_NODE)
        return steps

    def _search(self, region: Region, node_limit: int) -> bool:
        """Search a region; return whether the search was complete."""
        self._relax(region, 0)
        if region.bound <= self._threshold:
            return True
        left = max(0.0, self._deadline - now()) * NODES_PER_S
        node_limit = int(min(node_limit, left + 1.0))
        found = self._found
        found.stored[0] = 0
        complete, worth, nodes = search(
            self._pricer.tables,
            self._market,
            region.box,
            self._threshold,
            region.multipliers,
            self._pricer.relaxed,
            node_limit,
            found,
        )
        self.nodes += nodes
        spend(nodes)
        for row in range(int(found.stored[0])):
            self._keep(self._pricer.polished(self._pricer.filled_of(found, row)))
        self.proven = max(self.proven, worth) if complete else self.proven
        return complete

    def _keep(self, filled: Filled | None) -> None:
        """Store a filled GPU if it gains."""
        if filled is not None:
            charge = self._market.charge[self._pricer.places(filled.workload)]
            worth = filled.throughput_rps - float(charge.sum())
            if worth > self._gain:
                self.filled[filled] = worth
                if self._effort is Effort.CERTIFY:
                    self._threshold = max(self._threshold, worth)

    def _relaxed_sets(self, residents: int, steps: int) -> set[tuple[int, ...]]:
        """Return the sets of workloads in the solutions of the last relaxation; many of them are feasible."""
        places = self._pricer.relaxed.chosen[:steps, :residents] // len(self._market.tables.permitted)
        return {tuple(sorted(each)) for each in self._pricer.order[places].tolist()}
