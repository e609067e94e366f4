"""Pricing for ``capacity`` on one GPU type: GPUs filled for throughput, minus the charges of their residents.

The throughput of a resident depends on the demands of all residents. So least shares are not optimal, and the worth of
a resident depends on the others. In a small box of total contention and power, that worth is nearly fixed. Regions are
halved, largest bound first, until a short search of their boxes is complete. The choices that a region excludes stay
excluded in its halves.
"""

import math
from collections.abc import Iterable, Sequence
from operator import attrgetter

import numpy as np

from formulations.colgen.capacity.relaxation import ROUNDS, empty_relaxed, losses_rps, relax
from formulations.colgen.capacity.search import FilledGpus, empty_filled, search
from formulations.colgen.capacity.value import may_fit_at_some_batches, value_pattern
from formulations.colgen.clock import CELLS_PER_NODE, NODES_PER_S, now, spend_nodes
from formulations.colgen.demand import demand_of
from formulations.colgen.interference_boxes import RESIDENTS, one_growth
from formulations.colgen.pairs import Pairs, permitted
from formulations.colgen.refinement import Region, refine
from formulations.colgen.restricted_master import Priced
from instances.arrays import Floats, Ints
from instances.least_shares import least_share_within, least_shares
from instances.one_gpu import Pattern, Resident
from instances.spare_shares import spend_spare_shares
from instances.view import View

SPARE_NODES = 2_000
"""Node limit of the search that distributes spare shares when a set of workloads is valued."""

COARSE_NODES = 200
"""Node limit of the search of a box that may still be halved."""

SEARCH_NODES = (1_000, 20_000, 400_000, 8_000_000)
"""Node limits of the search of the other boxes, one after another until a search is complete."""

OPTIONS_NODES = 20
"""Work of computing the options of one box, in nodes."""

OPTIONS_PER_NODE, NODES_PER_NODE = 700, 25
"""Options (workload, share, batch) that a search tests, and nodes that it visits, in the time of one node of work."""

FILL_NODES = 100
"""Work of valuing a set of workloads, in nodes."""

FINEST_RPS = 1e-6
"""Regions whose boxes overrate throughput by at most this are not halved."""

PATTERNS_PER_SEARCH = 10
"""Largest number of GPUs that one search stores, unless the call is exhaustive."""

ENOUGH_PATTERNS = 6
"""Number of GPUs found with the first node limit after which a call ends; after a larger limit, one GPU is enough."""

EXHAUSTIVE_PATTERNS = 20_000
"""Number of GPUs found at which every call stops; also the most that a search of an exhaustive call stores."""


class CapacityPricer:
    """Pricing for ``capacity`` on one GPU type; see ``identical_workloads`` for ``order`` and ``copy_of``."""

    def __init__(self, view: View, pool: int, order: Ints, copy_of: Ints) -> None:
        self.pool, self.tables, self.order, self.model = pool, view.tables, order, view.model[order]
        batches = np.arange(1, self.tables.transfer_ms.shape[1])
        budget_ms = view.budgets_ms(order[:, None], batches[None, :])
        self.budget_ms = np.full((len(order), len(batches) + 1, budget_ms.shape[2]), -np.inf)
        self.budget_ms[:, 1:] = np.where(np.isnan(budget_ms), -np.inf, budget_ms)
        self.copy_of, self._rate_rps = copy_of, view.rate_rps
        self._place_of = np.argsort(order)
        self._merged = one_growth(view.tables).tables
        self._no_pairs = Pairs.none(len(order))
        self._filled: dict[tuple[int, ...], Pattern | None] = {}
        # No GPU holds more residents than fit at their least shares alone over all batches.
        least = np.full(len(order), self.tables.share_units + 1)
        for w, budgets in enumerate(self.budget_ms):
            for b in np.flatnonzero(budgets.max(axis=1) > 0.0).tolist():
                least[w] = min(least[w], least_share_within(self.tables, self.model[w], b, budgets, b))
        fitting = int(np.searchsorted(np.cumsum(np.sort(least)), self.tables.share_units, side="right"))
        self.most_residents = min(fitting, self.tables.most_residents)
        self.option_count = len(order) * len(self.tables.permitted) * len(batches)
        demand = demand_of(view, order, np.ones(len(order)))
        self.demand = demand._replace(tables=self._merged, budget_ms=self.budget_ms)
        self.relaxed = empty_relaxed(self.tables, len(order), self.most_residents)

    def fill(self, workloads: tuple[int, ...], batches: Sequence[int] = ()) -> Pattern | None:
        """Return a GPU filled with these workloads (positions in the instance); ``None`` if none is found.

        The search starts from ``batches`` if it finds none from batches of its own.
        """
        if workloads not in self._filled:
            index = self.places(workloads)
            batch = np.ones_like(index)
            spend_nodes(FILL_NODES)
            may_fit = may_fit_at_some_batches(self._merged, self.model, self.budget_ms, index, batch)
            self._filled[workloads] = self._filled_from(workloads, index, batch) if may_fit else None
        if self._filled[workloads] is None and len(batches):
            index, batch = self.places(workloads), np.array(batches)
            self._filled[workloads] = self._filled_from(workloads, index, batch)
        return self._filled[workloads]

    def _filled_from(self, workloads: tuple[int, ...], index: Ints, batch: Ints) -> Pattern | None:
        units = np.zeros_like(index)
        value = value_pattern(self.tables, self.model, self.budget_ms, index, batch, units, SPARE_NODES)
        return self.pattern(workloads, batch.tolist(), units.tolist(), float(value)) if value > 0.0 else None

    def pattern(
        self, workloads: Sequence[int], batch: Sequence[int], units: Sequence[int], throughput_rps: float
    ) -> Pattern:
        """Return the pattern of these workloads (positions in the instance) at their batches and shares."""
        slots = [Resident(w, b, float(self._rate_rps[w])) for w, b in zip(workloads, batch, strict=True)]
        return Pattern(self.pool, tuple((u, (slot,)) for u, slot in zip(units, slots, strict=True)), throughput_rps)

    def price(
        self,
        charge: Floats,
        threshold: float,
        resolution: float,
        deadline: float,
        gain: float = math.inf,
        exhaustive: bool = False,
        pairs: Pairs | None = None,
    ) -> Priced:
        """Find GPUs whose throughput exceeds the charges of their residents by more than ``threshold``.

        Parameters
        ----------
        charge
            Charge for each workload of the instance, requests per second; infinite for workloads that no GPU may have.
        threshold
            Regions worth at most this are left out, requests per second.
        resolution
            Largest error in throughput of boxes that are searched instead of halved, requests per second; above 0.
        deadline
            Value of ``clock.now()`` at which to stop.
        gain
            Worth above which GPUs that the search meets are returned, if it is below ``threshold``.
        exhaustive
            Whether to find every GPU worth more than ``threshold``; otherwise ``threshold`` rises with the best GPU.
        pairs
            Conditions of a branch on pairs of workloads; ``None`` without branching.
        """
        pairs = self._no_pairs if pairs is None else pairs
        call = _Call(self, charge[self.order], threshold, min(gain, threshold), resolution, exhaustive, deadline, pairs)
        waiting = call.search_all(SEARCH_NODES[0], self._whole(), ())
        for node_limit in SEARCH_NODES[1:]:
            enough = ENOUGH_PATTERNS if node_limit == SEARCH_NODES[1] else 1
            if len(call.filled) >= enough and not exhaustive:
                break  # the GPUs found change the duals, so a bound at these duals is not worth a longer search
            waiting = call.search_all(node_limit, (), waiting)
        bound = max([call.proven, *call.filled.values(), *(region.bound for region in waiting)])
        return Priced(bound, list(call.filled), call.nodes, cut_short=bool(waiting))

    def relaxed_price(self, charge: Floats, deadline: float) -> Priced:
        """Bound the worth of all GPUs by relaxations alone, which takes far less time than ``price``."""
        call = _Call(self, charge[self.order], 0.0, 0.0, math.inf, False, deadline, self._no_pairs)
        whole = self._whole()
        bound = max([0.0, *(region.bound for region in whole if call.stays_open(region))])
        return Priced(bound, list(call.filled), call.nodes, cut_short=True)

    def _whole(self) -> list[Region]:
        """Return the regions of all GPUs, one for each number of residents."""
        whole = [Region.whole(self._merged, residents, residents) for residents in range(1, self.most_residents + 1)]
        for region in whole:
            region.alive = np.ones(len(self.model) * len(self.tables.permitted), dtype=np.bool_)
        return whole

    def places(self, workloads: Sequence[int]) -> Ints:
        """Return the places in ``order`` of workloads that are given by their positions in the instance."""
        return self._place_of[list(workloads)]

    def filled_of(self, filled_gpus: FilledGpus, row: int) -> Pattern:
        """Return the pattern in one row of a search's result, at better shares if a second, short search finds any."""
        size = int(filled_gpus.size[row])
        residents = sorted(
            zip(
                self.order[filled_gpus.workload[row, :size]].tolist(),
                filled_gpus.batch[row, :size].tolist(),
                filled_gpus.units[row, :size].tolist(),
                strict=True,
            )
        )
        workload, batch, units = zip(*residents, strict=True)
        most_rps = float(filled_gpus.value[row])
        index, batches = self.places(workload), np.array(batch)
        rows, budget_ms, best = self.model[index], self.budget_ms[index, batches], np.zeros_like(index)
        if least_shares(self.tables, rows, batches, budget_ms, best):
            value, _ = spend_spare_shares(self.tables, rows, batches, budget_ms, best, SPARE_NODES)
            if value > most_rps:
                units, most_rps = best.tolist(), float(value)
        return self.pattern(workload, batch, units, most_rps)


class _Call:
    """One call of ``CapacityPricer.price``.

    ``filled`` has the GPUs found, with their worth. ``proven`` is an upper bound on the worth of GPUs in the regions
    that were searched completely.
    """

    def __init__(
        self,
        pricer: CapacityPricer,
        charge: Floats,
        threshold: float,
        gain: float,
        resolution: float,
        exhaustive: bool,
        deadline: float,
        pairs: Pairs,
    ) -> None:
        self._pricer, self._pairs, self._charge, self._exhaustive = pricer, pairs, charge, exhaustive
        self._threshold, self._gain, self._resolution, self._deadline = threshold, gain, resolution, deadline
        most_patterns = EXHAUSTIVE_PATTERNS if exhaustive else PATTERNS_PER_SEARCH
        self._filled_gpus = empty_filled(most_patterns, pricer.most_residents)
        self.proven = threshold
        self.filled: dict[Pattern, float] = {}
        self.nodes = 0

    def search_all(self, node_limit: int, regions: Iterable[Region], open_regions: Iterable[Region]) -> list[Region]:
        """Bound ``regions``, then search or halve them and ``open_regions``; return those that limits left open."""
        cut_short: list[Region] = []

        def halves(region: Region) -> list[Region]:
            if region.bound <= self._threshold:
                return []
            coarse = max(region.losses) > max(self._resolution, FINEST_RPS)
            if self._search(region, COARSE_NODES if coarse else node_limit):
                return []
            if coarse:
                return region.halves()
            cut_short.append(region)
            return []

        left = refine(
            regions,
            open_regions,
            attrgetter("bound"),
            lambda part: [region for region in part if self.stays_open(region)],
            halves,
            goes_on=lambda: len(self.filled) < EXHAUSTIVE_PATTERNS and now() < self._deadline,
        )
        return left + cut_short

    def stays_open(self, region: Region) -> bool:
        """Bound a region, and fill GPUs with its relaxed solutions; return whether its bound is above the threshold."""
        if now() >= self._deadline:
            return True
        steps = self._relax(region)
        if region.bound <= self._threshold:
            return False
        region.losses = losses_rps(self._pricer.demand, region.box, self._pricer.relaxed, steps - 1)
        # The workloads of a relaxed solution often fit on one GPU.
        chosen = self._pricer.relaxed.chosen[:steps, : int(region.box[RESIDENTS])]
        resident_sets = self._pricer.order[chosen // len(self._pricer.tables.permitted)].tolist()
        for workloads in {tuple(sorted(resident_set)) for resident_set in resident_sets}:
            if now() < self._deadline:
                self._keep(self._pricer.fill(workloads))
        return True

    def _relax(self, region: Region, rounds: int = ROUNDS) -> int:
        residents, relaxed = int(region.box[RESIDENTS]), self._pricer.relaxed
        bound, steps = relax(
            self._pricer.demand,
            self._charge,
            region.box,
            self._threshold,
            region.multipliers,
            region.alive,
            rounds,
            relaxed,
        )
        region.bound = min(bound, region.bound)
        cells = int(region.alive.sum()) * (residents + 1) * relaxed.table.shape[2]
        spend_nodes(OPTIONS_NODES + steps * cells / CELLS_PER_NODE)
        return steps

    def _search(self, region: Region, node_limit: int) -> bool:
        """Search a region; return whether the search was complete."""
        self._relax(region, 0)
        if region.bound <= self._threshold:
            return True
        left = max(0.0, self._deadline - now()) * NODES_PER_S * NODES_PER_NODE
        node_limit = int(min(node_limit, left + 1.0))
        filled_gpus = self._filled_gpus
        filled_gpus.stored[0] = 0
        complete, worth, nodes = search(
            self._pricer.tables,
            self._pricer.demand,
            self._pricer.copy_of,
            self._pairs,
            self._charge,
            region.box,
            self._threshold,
            region.multipliers,
            self._pricer.relaxed,
            node_limit,
            filled_gpus,
        )
        self.nodes += nodes
        spend_nodes(self._pricer.option_count / OPTIONS_PER_NODE + nodes / NODES_PER_NODE)
        for row in range(int(filled_gpus.stored[0])):
            self._keep(self._pricer.filled_of(filled_gpus, row))
        self.proven = max(self.proven, worth) if complete else self.proven
        return complete

    def _keep(self, filled: Pattern | None) -> None:
        """Store a filled GPU if its worth is above ``gain`` and the branch permits it."""
        if filled is not None:
            places = self._pricer.places([slot.workload for slot in filled.residents])
            worth = filled.throughput_rps - float(self._charge[places].sum())
            if worth > self._gain and permitted(self._pairs, np.sort(places)):
                self.filled[filled] = worth
                if not self._exhaustive:
                    self._threshold = max(self._threshold, worth)
