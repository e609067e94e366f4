"""Column generation for ``capacity``: every workload placed once, every GPU filled for throughput."""

import math
from dataclasses import replace

import numpy as np

from bench.api import Run
from formulations.colgen.capacity.pricer import CapacityPricer, Filled
from formulations.colgen.clock import now
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.exchanges import exchangeable
from formulations.colgen.restricted_master import Covering, Pattern, Priced, Relaxation
from formulations.colgen.spatial.generation import CostGeneration
from instances import Instance, Objective, PlacedGpu
from instances.one_gpu import Resident, fit_gpu

RESOLUTION = 1.5e-3
"""Largest error of the boxes that are searched and not halved, relative to a GPU's mean throughput."""

SEED_PATTERNS, SEED_TIME_FRACTION, SEED_TIME_MOST_S = 3_000, 0.2, 60.0
"""Patterns taken from column generation for ``cost``, and its time: a fraction of the remaining time, at most 60 s."""


class CapacityGeneration(ColumnGeneration):
    """Column generation for ``capacity``: place every workload once, for the most throughput."""

    trivial_bound = math.inf
    last_tolerance = 1e-9
    smoothing_weight = 0.2
    diving_tolerance = None
    first_node_limit = last_node_limit = 0  # the pricer sets its own node limits

    def __init__(self, instance: Instance, run: Run) -> None:
        self._filled: dict[Pattern, Filled] = {}
        super().__init__(instance, run)
        self.pricers = [CapacityPricer(view, t, self.order, self.copy_of) for t, view in enumerate(self.views)]
        self.initial_columns()

    def cover(self) -> Covering:
        """Return the rows of the master."""
        # The cost of an unplaced workload is far above the throughput that its placement can take from others.
        most_rps = 1000.0 * max(
            float(np.max(view.tables.max_batch / np.min(view.tables.active_ms[:, 1:, 1:], axis=(1, 2))))
            for view in self.views
        )
        exchanges = exchangeable(self.views, self.class_of)
        return Covering(self.copies, self.copies, self.count, 10.0 * most_rps, *exchanges)

    def serving(self, patterns: list[Pattern], served: list[int]) -> list[Pattern]:
        """Return the patterns of the workloads that the slots of ``patterns`` serve, if each of them serves one."""
        if min(served, default=0) < 0:
            return patterns
        own, places = [], iter(served)
        for pattern in patterns:
            known = self._filled[pattern]
            slots = sorted(zip((next(places) for _ in known.workload), known.batch, known.units, strict=True))
            workload, batch, units = zip(*slots, strict=True)
            same = Filled(pattern.pool, workload, batch, units, known.throughput_rps)
            anew = self.pricers[pattern.pool].fill(workload)
            own.append(self._pattern(same if anew is None or anew.throughput_rps < same.throughput_rps else anew))
        return own

    def cost_of(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        return -self._filled[pattern].throughput_rps

    def initial_columns(self) -> None:
        """Add each workload alone, and the filled patterns of a column generation for ``cost`` on the same workloads.

        Cheap plans use few GPUs, so others are left for the workloads that gain the most throughput from shares.
        """
        self.add(self._filled_pattern(t, (w,)) for t in range(len(self.views)) for w in range(len(self.class_of)))
        allowed_s = SEED_TIME_FRACTION * min(self.run.remaining_s, SEED_TIME_MOST_S)
        deadline = now() + allowed_s
        tight = CostGeneration(replace(self.instance, objective=Objective.COST), replace(self.run, deadline=deadline))
        tight.solve(lambda: False)
        relaxation = tight.master.relax()
        self._tight = [
            [self.pattern_if_feasible(pattern.pool, pattern.members) for pattern in patterns]
            for patterns in tight.starts()
        ]
        for pattern in sorted(tight.master.patterns, key=lambda p: tight.reduced_cost(p, relaxation))[:SEED_PATTERNS]:
            if now() >= deadline + allowed_s:
                break
            self.add([self.pattern_if_feasible(pattern.pool, pattern.members)])

    def starts(self) -> list[list[Pattern]]:
        """Return initial solutions: the filled plans of ``cost``, and the given start plan."""
        filled = [[pattern for pattern in patterns if pattern is not None] for patterns in self._tight]
        for patterns in filled:
            self.add(patterns)
        return [*(p for p in filled if self.complete(p)), *super().starts()]

    def pattern_if_feasible(self, pool: int, members: tuple[tuple[int, int, float], ...]) -> Pattern | None:
        """Return the filled pattern of these workloads; their batches and spare shares are chosen again."""
        return self._filled_pattern(pool, tuple(w for w, _, _ in members))

    def _filled_pattern(self, pool: int, workloads: tuple[int, ...]) -> Pattern | None:
        filled = self.pricers[pool].fill(workloads)
        return None if filled is None else self._pattern(filled)

    def _pattern(self, filled: Filled) -> Pattern:
        rates = [self.instance.workloads[w].rate_rps for w in filled.workload]
        pattern = Pattern(filled.pool, tuple(zip(filled.workload, filled.batch, rates, strict=True)))
        known = self._filled.get(pattern)
        if known is None or known.throughput_rps < filled.throughput_rps:
            self._filled[pattern] = filled
        return pattern

    def placed(self, pattern: Pattern, residents: list[Resident]) -> PlacedGpu | None:
        """Return a GPU with these residents of a pattern, at the pattern's shares if all residents remain."""
        if len(residents) < len(pattern.members):
            return fit_gpu(self.views[pattern.pool], residents, spend_spare=True)
        workload, batch = [r.workload for r in residents], [r.batch for r in residents]
        rate_rps = [r.rate_rps for r in residents]
        return self.views[pattern.pool].placed(workload, self._filled[pattern].units, batch, rate_rps)

    def price_at(self, relaxation: Relaxation, tolerance: float, node_limit: int) -> list[Priced[Pattern]]:
        """Solve the pricing problem of every GPU type."""
        return [
            self._priced(t, relaxation, self.threshold(t, relaxation, tolerance), self.threshold(t, relaxation, 0.0))
            for t in range(len(self.pricers))
        ]

    def patterns_within(self, slack: float, pool: int, relaxation: Relaxation) -> list[Pattern] | None:
        """Return every pattern with a reduced cost of at most ``slack``, or ``None`` if some may be missing."""
        priced = self._priced(pool, relaxation, self.threshold(pool, relaxation, 0.0) - slack, every=True)
        self.nodes += priced.nodes
        return None if priced.cut_short else priced.patterns

    def _priced(
        self, pool: int, relaxation: Relaxation, threshold: float, gain: float = math.inf, every: bool = False
    ) -> Priced[Pattern]:
        charge, resolution = self.charge(relaxation)[self.class_of], RESOLUTION * self.mean_rps(relaxation)
        found = self.pricers[pool].price(charge, threshold, resolution, self.run.deadline, gain, every)
        return Priced(found.bound, [self._pattern(filled) for filled in found.patterns], found.nodes, found.cut_short)
