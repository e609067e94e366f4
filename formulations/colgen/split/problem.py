"""Patterns of ``split``: slots serve parts of workloads."""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from bench.api import Run
from formulations.colgen.clock import now, subproblem_run
from formulations.colgen.column_generation import PatternProblem
from formulations.colgen.demand import demand_of
from formulations.colgen.restricted_master import Covering, Priced, Relaxation
from formulations.colgen.solution import Solution
from formulations.colgen.split.plans import shared_out
from formulations.colgen.split.pricer import SplitPricer
from formulations.colgen.split.slots import least_fractions
from instances import GOODPUT_STEP, Instance, Objective, PlacedGpu, Plan, PlanClass, SloRule
from instances.arrays import Floats
from instances.one_gpu import Pattern, Resident, fit_gpu

CUSHION = 1e-12
"""Relative amount by which a slot's planned rate is below the largest rate that the slot can serve."""

SEED_PATTERNS = 3_000
"""Number of patterns taken from column generation without splitting."""

SEED_TIME_FRACTION = 0.3
"""Fraction of the remaining time that column generation without splitting may take."""

SEED_CALLS = 2
"""Number of pricing calls at the duals of ``first_prices``."""

MOST_PARTS = 20_000
"""Largest number of workloads, after division into equal parts, that column generation without splitting solves."""

OBJECTIVES = frozenset({Objective.COST, Objective.GOODPUT})
"""Objectives of ``SplitProblem``."""


class SplitProblem(PatternProblem):
    """Patterns under ``cost`` and ``goodput`` in which each slot serves the rate that its time permits.

    Each choice of batches and shares makes another pattern, so the patterns of small reduced cost are too many to list.
    Under ``goodput`` service beyond a workload's rate has no value.

    Parameters
    ----------
    spatial_solution
        Returns the run of column generation without splitting, whose patterns come first.
    """

    plan_class = PlanClass.SPLIT
    # Pricing rounds each term of the bound up, and no enumeration replaces the bound by an exact value.
    proof_tolerance = 1e-8
    diving_tolerance = 1e-3
    node_limits = (50, 500)  # regions halved in a pricing call

    def __init__(self, instance: Instance, spatial_solution: Callable[[Instance, Run], Solution]) -> None:
        super().__init__(instance)
        self._spatial_solution = spatial_solution
        _, first = np.unique(self.class_of, return_index=True)
        demands = [demand_of(view, first, self.copies) for view in self.views]
        self.pricers = [SplitPricer(demand, t, first) for t, demand in enumerate(demands)]
        self._largest_part = np.zeros(len(self.copies))  # part of a workload of each class that one GPU can serve
        if not self.minimised:
            self.last_tolerance = 5e-10

    @cached_property
    def class_rps(self) -> Floats:
        """Rate of one workload of each class, shape (classes,)."""
        _, first = np.unique(self.class_of, return_index=True)
        return self.views[0].rate_rps[first]

    # Rows and patterns -------------------------------------------------------------------------------------------

    def rows(self) -> Covering:
        """Return the rows of the master."""
        if self.minimised:
            unlimited = np.full_like(self.copies, np.inf)
            return Covering(self.copies, unlimited, self.count, artificial_cost=100.0 * float(self.price.max()))
        no_least = np.full_like(self.copies, -np.inf)
        return Covering(no_least, self.copies, self.count, 0.0, surplus_cost=self.class_rps)

    def amounts(self, pattern: Pattern) -> Floats:
        """Return how many workloads of each class a pattern covers: at most 1 per slot, at most all of the class."""
        covered = np.zeros(len(self.copies))
        for w, _, rate in pattern.residents:
            covered[self.class_of[w]] += min(1.0, rate / float(self.views[0].rate_rps[w]))
        return np.minimum(covered, self.copies)

    def cost(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        return self.cost_of_amounts(pattern.pool, self.amounts(pattern))

    def cost_of_amounts(self, pool: int, amounts: Floats) -> float:
        """Return the master's cost of a GPU of a pool that covers ``amounts`` workloads of each class."""
        return float(self.price[pool]) if self.minimised else -float(amounts @ self.class_rps)

    def served(self, content: Pattern | None) -> Pattern | None:
        """Return the pattern of the slots of ``content`` at the rates that they can serve at its shares.

        The new pattern has the least shares for these rates. It is ``None`` if a slot can serve nothing, or the slots
        do not fit.
        """
        times_ms = None if content is None else self.pricers[content.pool].times_ms(content)
        if content is None or times_ms is None:
            return None
        residents = []
        for (w, batch, _), time_ms in zip(content.residents, times_ms.tolist(), strict=True):
            rate = self._rate_rps(content.pool, w, batch, time_ms)
            if rate <= 0.0:
                return None
            residents.append(Resident(w, batch, rate))
        residents.sort()
        fits = fit_gpu(self.views[content.pool], residents) is not None
        return Pattern.of(content.pool, residents) if fits else None

    def _rate_rps(self, pool: int, workload: int, batch: int, time_ms: float) -> float:
        """Return the planned rate of a slot: its workload's rate, or the largest rate it can serve if that is lower."""
        demand, view = self.pricers[pool].demand, self.views[pool]
        whole_rps = float(view.rate_rps[workload])
        overhead_ms = float(demand.overhead_ms[view.model[workload], batch])
        requests = float(demand.requests[self.class_of[workload], batch])
        most_rps = 1000.0 * requests / (demand.latency_buffer * (time_ms + overhead_ms)) * (1.0 - CUSHION)
        if demand.steps:
            most_rps = whole_rps * (
                GOODPUT_STEP * math.floor(min(float(demand.steps), most_rps / whole_rps * demand.steps + 1e-9))
            )
        if most_rps < whole_rps:
            return most_rps
        # Under ``assembly`` a batch may fill too slowly at the workload's own rate. Only the bound allows higher rates.
        return whole_rps if float(view.budget_ms(workload, batch, whole_rps)) >= time_ms else 0.0

    def pattern_of_slots(self, pool: int, residents: list[Resident], units: list[int]) -> Pattern | None:
        """Return the pattern of these slots, each at the rate that it can serve."""
        if any(share not in self.views[pool].tables.permitted for share in units):
            return None
        class_of_slot = [int(self.class_of[slot.workload]) for slot in residents]
        slots = sorted(zip(class_of_slot, [slot.batch for slot in residents], units, strict=True))
        return self.served(self.pricers[pool].pattern(slots))

    # Pricing -----------------------------------------------------------------------------------------------------

    def weight(self, relaxation: Relaxation) -> Floats:
        """Return the worth of one whole workload of each class at the duals, shape (classes,)."""
        dual = relaxation.workload_dual
        return dual if self.minimised else np.maximum(0.0, self.class_rps + dual)

    def charge(self, relaxation: Relaxation) -> Floats:
        """Return the charge for a workload of each class; under ``goodput`` it is at most the workload's rate."""
        return relaxation.workload_dual if self.minimised else self.class_rps - self.weight(relaxation)

    def price_patterns(
        self, relaxation: Relaxation, tolerance: float, node_limit: int, deadline: float, left: Floats | None = None
    ) -> list[Priced]:
        """Solve the pricing problem of every GPU type, for all workloads or for ``left`` of each class."""
        weight, results = self.weight(relaxation), []
        for pool, pricer in enumerate(self.pricers):
            threshold = max(0.0, self.threshold(pool, relaxation, tolerance))
            priced = pricer.price(weight, threshold, node_limit, deadline, left)
            patterns = [self.served(content) for content in priced.patterns]
            results.append(Priced(priced.bound, [p for p in patterns if p is not None], priced.nodes))
        return results

    # First patterns ----------------------------------------------------------------------------------------------

    def first_patterns(self, run: Run) -> Iterator[Pattern | None]:
        """Yield each class alone on a whole GPU, and the patterns of column generation without splitting.

        Without splitting, a workload that no GPU serves alone is replaced by workloads with equal parts of its rate,
        unless these are too many.
        """
        largest_part = self._largest_part
        for pricer in self.pricers:
            for class_index in range(len(self.copies)):
                pattern = self.served(pricer.best_alone(class_index))
                if pattern is not None:
                    largest_part[class_index] = max(largest_part[class_index], self.amounts(pattern)[class_index])
                    yield pattern
        if not (largest_part > 0.0).all() and self.minimised:
            return
        parts = [
            (w, math.ceil(1.0 / largest_part[c] - 1e-9) if 0.0 < largest_part[c] < 1.0 and self.minimised else 1)
            for w, c in enumerate(self.class_of.tolist())
        ]
        if sum(part_count for _, part_count in parts) > MOST_PARTS:
            return
        workloads = self.instance.workloads
        part_workloads = [
            replace(workloads[w], id=f"{w}:{k}", rate_rps=workloads[w].rate_rps / part_count)
            for w, part_count in parts
            for k in range(part_count)
        ]
        yield from self._without_splitting(replace(self.instance, workloads=tuple(part_workloads)), run)

    def _without_splitting(self, parts_instance: Instance, run: Run) -> Iterator[Pattern | None]:
        """Yield the patterns of the plan without splitting, and patterns of small reduced cost."""
        allowed_s = SEED_TIME_FRACTION * run.remaining_s
        deadline = now() + allowed_s
        try:
            spatial = self._spatial_solution(parts_instance, subproblem_run(run, deadline))
        except TimeoutError:
            return
        outcome = spatial.solve()
        nearest = spatial.generation.of_least_reduced_cost(SEED_PATTERNS)
        names = {w.id: self.instance.workloads[int(w.id.partition(":")[0])].id for w in parts_instance.workloads}
        if outcome.plan is not None:
            of_plan = [self.pattern_of(_renamed(gpu, names)) for gpu in outcome.plan.gpus]
            self.known = [[pattern for pattern in of_plan if pattern is not None]]
            yield from self.known[0]
        views = spatial.generation.problem.views
        for pattern in nearest:
            placed = fit_gpu(views[pattern.pool], pattern.residents)
            if placed is not None and now() < deadline + allowed_s:
                yield self.pattern_of(_renamed(placed, names))

    def first_prices(self, run: Run) -> Iterator[tuple[list[Priced], Relaxation]]:
        """Yield results of pricing at the least prices of workloads, under ``cost`` only.

        The least price of a workload is that of the part of a GPU that it takes in its best slot without neighbours;
        see ``least_fractions``.
        """
        if not self.minimised:
            return
        priced_pools = zip(self.pricers, self.price, strict=True)
        parts = np.array([least_fractions(pricer.demand) * price for pricer, price in priced_pools])
        least_prices = parts.min(axis=0)
        if np.isfinite(least_prices).all():
            duals = Relaxation(0.0, least_prices, np.zeros(len(self.count)), np.zeros(0))
            for _ in range(SEED_CALLS):
                yield self.price_patterns(duals, self.first_tolerance, self.node_limits[0], run.deadline), duals

    def obstacle(self, patterns: list[Pattern]) -> str:
        """Return a message about the first workload that no GPU type serves at any rate; empty if there is none."""
        for w, workload in enumerate(self.instance.workloads) if self.minimised else ():
            if self._largest_part[self.class_of[w]] <= 0.0:
                return f"{workload.id}: no GPU of the pool serves {workload.model} within {workload.slo_ms:g} ms"
        return ""

    # Plans -------------------------------------------------------------------------------------------------------

    def complete(self, patterns: list[Pattern]) -> bool:
        """Return whether these patterns form a plan; under ``goodput`` they may cover too much: see ``realise``."""
        return super().complete(patterns) if self.minimised else self.in_pool(patterns)

    def realise(self, patterns: list[Pattern]) -> tuple[float, Plan] | None:
        """Return cost and plan of a complete solution: each slot serves one workload, and the surplus is removed."""
        shared = shared_out(self.instance, self.class_of, patterns, self.views)
        if shared is None:
            return None
        gpus = []
        for pattern, residents in zip(patterns, shared, strict=True):
            gpu = fit_gpu(self.views[pattern.pool], residents) if residents else None
            if residents and gpu is None:
                return None
            gpus += [] if gpu is None else [gpu]
        plan = Plan(self.instance.name, tuple(gpus))
        if self.minimised:
            return self.instance.cost_per_hour(plan.gpus), plan
        return -math.fsum(slot.rate_rps for _, _, slot in plan.slots()), plan


def _renamed(gpu: PlacedGpu, names: Mapping[str, str]) -> PlacedGpu:
    return gpu.with_slots(lambda slot: replace(slot, workload=names[slot.workload]))


def split_obstacle(instance: Instance) -> str:
    """Return a one-line reason why the class ``split`` is not supported for an instance; empty if it is."""
    if instance.objective not in OBJECTIVES:
        return f"no bound on split plans is known for {instance.objective}"
    if instance.slo_rule is SloRule.P99:
        return "no bound on split plans is known under p99: the rate that a slot can serve is known by simulation only"
    return ""
