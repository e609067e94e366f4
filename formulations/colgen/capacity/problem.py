"""Patterns of ``capacity``: every workload is placed once, and every GPU is filled for throughput."""

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from bench.api import Run
from formulations.colgen.capacity.pricer import CapacityPricer
from formulations.colgen.clock import now
from formulations.colgen.column_generation import PatternProblem, value_bound
from formulations.colgen.pairs import Pairs
from formulations.colgen.restricted_master import Covering, Priced, Relaxation
from formulations.colgen.solution import ColumnGeneration
from formulations.colgen.spatial.problem import SpatialProblem, served_by_none
from instances import Instance, Objective, Plan
from instances.one_gpu import Pattern, Resident, fit_gpu
from instances.workload_classes import exchangeable

RESOLUTION = 1.5e-3
"""Largest error in throughput at which a box of interference is searched, not halved; relative to the mean of a GPU."""

SEED_PATTERNS = 3_000
"""Number of patterns taken from column generation for ``cost``."""

SEED_TIME_FRACTION = 0.2
"""Fraction of the remaining time that column generation for ``cost`` may take."""

SEED_TIME_MOST_S = 60.0
"""Largest remaining time of which ``SEED_TIME_FRACTION`` is taken, seconds."""


class CapacityProblem(PatternProblem):
    """Patterns filled for throughput: batches and spare shares are chosen for the most requests per second."""

    smoothing_weight = 0.2
    diving_tolerance = None
    last_tolerance = 1e-9
    node_limits = (0, 0)  # the pricer sets its own node limits
    trivial_bound = math.inf

    def __init__(self, instance: Instance) -> None:
        super().__init__(instance)
        self.pricers = [CapacityPricer(view, t, self.order, self.copy_of) for t, view in enumerate(self.views)]

    def rows(self) -> Covering:
        """Return the rows of the master."""
        # The cost of an unplaced workload is far above the throughput that its placement can take from others.
        most_rps = 1000.0 * max(
            float(np.max(view.tables.max_batch / np.min(view.tables.active_ms[:, 1:, 1:], axis=(1, 2))))
            for view in self.views
        )
        exchanges = exchangeable(self.views, self.class_of)
        return Covering(self.copies, self.copies, self.count, 10.0 * most_rps, *exchanges)

    def cost(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        return -pattern.throughput_rps

    def first_patterns(self, run: Run) -> Iterator[Pattern | None]:
        """Yield each workload alone, and the filled patterns of a column generation for ``cost`` on the same workloads.

        Cheap plans use few GPUs, which leaves other GPUs for the workloads that gain the most throughput from shares.
        """
        # The master is not relaxed before all these patterns are known. A weak bound is reported at once.
        no_charge = np.zeros(len(self.class_of))
        self._priced_without_charge = [pricer.relaxed_price(no_charge, run.deadline) for pricer in self.pricers]
        best_rps = np.array([result.bound for result in self._priced_without_charge])
        bound = value_bound(np.zeros(len(self.copies)), self.copies, best_rps, self.count)
        if math.isfinite(bound):
            run.report(bound=self.certified(bound))
        yield from (pricer.fill((w,)) for pricer in self.pricers for w in range(len(self.class_of)))
        allowed_s = SEED_TIME_FRACTION * min(run.remaining_s, SEED_TIME_MOST_S)
        deadline = now() + allowed_s
        cost_instance = replace(self.instance, objective=Objective.COST)
        cost_problem = SpatialProblem(cost_instance, deadline, served_by_none(cost_instance))
        generation = ColumnGeneration(cost_problem, replace(run, deadline=deadline))
        started = generation.add_plan(run.start)
        cheap_plans = [patterns for patterns in cost_problem.known if cost_problem.complete(patterns)]
        cheap_plans += [started] if started else []
        filled = [[self._filled(pattern) for pattern in patterns] for patterns in cheap_plans]
        self.known = [[pattern for pattern in patterns if pattern is not None] for patterns in filled]
        for patterns in self.known:
            realised = self.realise(patterns) if self.complete(patterns) else None
            if realised is not None:
                run.report(plan=realised[1])
        generation.solve(lambda: False)
        least_reduced_cost = generation.of_least_reduced_cost(SEED_PATTERNS)
        for pattern in least_reduced_cost:
            if now() >= deadline + allowed_s:
                break
            yield self._filled(pattern)
        for patterns in self.known:
            yield from patterns

    def first_prices(self, run: Run) -> Iterator[tuple[list[Priced], Relaxation]]:
        """Yield what ``first_patterns`` priced at duals of 0: the GPUs of the most throughput, by relaxations."""
        yield (
            self._priced_without_charge,
            Relaxation(0.0, np.zeros(len(self.copies)), np.zeros(len(self.count)), np.zeros(0)),
        )

    def _filled(self, pattern: Pattern) -> Pattern | None:
        """Return the pattern of the same workloads with batches and spare shares that are chosen again."""
        workloads, batches = tuple(w for w, _, _ in pattern.residents), [b for _, b, _ in pattern.residents]
        return self.pricers[pattern.pool].fill(workloads, batches)

    def pattern_of_slots(self, pool: int, residents: list[Resident], units: list[int]) -> Pattern | None:
        """Return the filled pattern of these workloads."""
        if len({resident.workload for resident in residents}) < len(residents):
            return None
        return self.pricers[pool].fill(tuple(sorted(resident.workload for resident in residents)))

    def price_patterns(
        self, relaxation: Relaxation, tolerance: float, node_limit: int, deadline: float
    ) -> list[Priced]:
        """Solve the pricing problem of every GPU type."""
        return [
            self._priced(
                t, relaxation, self.threshold(t, relaxation, tolerance), deadline, self.threshold(t, relaxation, 0.0)
            )
            for t in range(len(self.pricers))
        ]

    def price_in_branch(
        self, pool: int, relaxation: Relaxation, pairs: Pairs, threshold: float, node_limit: int, deadline: float
    ) -> Priced:
        """Find GPUs of one type worth more than ``threshold`` under conditions on pairs of workloads.

        Classes with a dual of -inf are on no GPU of the type. The pricer sets its own node limits.
        """
        gain = self.threshold(pool, relaxation, 0.0)
        return self._priced(pool, relaxation, threshold, deadline, gain, pairs=pairs)

    def within(self, slack: float, pool: int, relaxation: Relaxation, deadline: float) -> Priced:
        """Return every pattern with a reduced cost of at most ``slack``; cut short if some may be missing."""
        threshold = self.threshold(pool, relaxation, 0.0) - slack
        return self._priced(pool, relaxation, threshold, deadline, exhaustive=True)

    def _priced(
        self,
        pool: int,
        relaxation: Relaxation,
        threshold: float,
        deadline: float,
        gain: float = math.inf,
        exhaustive: bool = False,
        pairs: Pairs | None = None,
    ) -> Priced:
        """Price one GPU type; the parameters after ``relaxation`` are those of ``CapacityPricer.price``."""
        charge, resolution = self.charge(relaxation)[self.class_of], RESOLUTION * self.mean_rps(relaxation)
        return self.pricers[pool].price(charge, threshold, resolution, deadline, gain, exhaustive, pairs)

    def serving(self, patterns: list[Pattern], served: list[int]) -> list[Pattern]:
        """Return ``patterns`` with the workloads ``served`` in their slots; unchanged if a slot serves none (-1)."""
        if min(served, default=0) < 0:
            return patterns
        new_patterns, next_workloads = [], iter(served)
        for pattern in patterns:
            gpulets = sorted((next(next_workloads), units, slot.batch) for units, (slot,) in pattern.gpulets)
            same_batches = self.pricers[pattern.pool].pattern(
                [w for w, _, _ in gpulets],
                [b for _, _, b in gpulets],
                [u for _, u, _ in gpulets],
                pattern.throughput_rps,
            )
            refilled = self._filled(same_batches)
            if refilled is None or refilled.throughput_rps < same_batches.throughput_rps:
                new_patterns.append(same_batches)
            else:
                new_patterns.append(refilled)
        return new_patterns

    def realise(self, patterns: list[Pattern]) -> tuple[float, Plan] | None:
        """Return the cost and the plan of a complete solution, at the shares of the patterns."""
        gpus = []
        for pattern, residents in zip(patterns, self.residents_of(patterns), strict=True):
            view = self.views[pattern.pool]
            # A workload that another GPU serves already is left out, so the shares are chosen again.
            if len(residents) < len(pattern.gpulets):
                gpu = fit_gpu(view, residents, spend_spare=True) if residents else None
                if residents and gpu is None:
                    return None
            else:
                workload, batch = [r.workload for r in residents], [r.batch for r in residents]
                units = [units for units, _ in pattern.gpulets]
                gpu = view.placed(workload, units, batch, [r.rate_rps for r in residents])
            gpus += [] if gpu is None else [gpu]
        return math.fsum(map(self.cost, patterns)), Plan(self.instance.name, tuple(gpus))
