"""Column generation for ``split``: patterns whose slots serve parts of workloads."""

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from bench.api import Run
from formulations.colgen.clock import alone, now
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.restricted_master import Covering, Pattern, Priced, Relaxation
from formulations.colgen.solution import GENERATIONS, Solution
from formulations.colgen.split.plans import shared_out
from formulations.colgen.split.pricer import Gpu, SplitPricer
from formulations.colgen.split.slots import SplitMarket, least_fractions, market
from instances import GOODPUT_STEP, Gpulet, Instance, Objective, PlacedGpu, Plan, PlanClass, SloRule
from instances.arrays import Floats
from instances.one_gpu import Resident, fit_gpu

CUSHION = 1e-12
"""Part of the largest rate that a slot can serve by which its planned rate is lower."""

SEED_PATTERNS, SEED_TIME_FRACTION, SEED_CALLS = 3_000, 0.3, 2
"""Patterns taken from column generation without splitting, its fraction of the time, and first pricing calls."""

MOST_PARTS = 20_000
"""Largest number of equal parts of workloads with which column generation without splitting is tried."""


class SplitGeneration(ColumnGeneration):
    """Base of ``cost`` and ``goodput`` with split workloads.

    Every share of every batch makes another pattern: too many to list those of small reduced costs.
    """

    plan_class: ClassVar[PlanClass] = PlanClass.SPLIT
    # Pricing rounds each term of the bound up, and no enumeration replaces it by an exact value.
    agreement: ClassVar[float] = 1e-8
    diving_tolerance: float = 1e-3
    first_node_limit, last_node_limit = 50, 500  # regions halved in a pricing call

    def __init__(self, instance: Instance, run: Run) -> None:
        super().__init__(instance, run)
        self.pricers = [SplitPricer(each) for each in self.markets]
        self._whole: list[list[Pattern]] = []
        self.initial_columns()

    @cached_property
    def markets(self) -> list[SplitMarket]:
        """Classes of workloads as seen from each GPU type."""
        _, first_of_class = np.unique(self.class_of, return_index=True)
        return [market(self.instance, view, first_of_class, self.copies) for view in self.views]

    @cached_property
    def asked_rps(self) -> Floats:
        """Rate of one workload of each class, shape (classes,)."""
        return self.markets[0].asked_rps

    # Patterns ---------------------------------------------------------------------------------------------------

    def amounts(self, pattern: Pattern) -> Floats:
        """Return the number of workloads of each class that a pattern covers: at most one per slot and all of them."""
        covered = np.zeros(len(self.copies))
        for w, _, rate in pattern.members:
            group = self.class_of[w]
            covered[group] += min(1.0, rate / float(self.asked_rps[group]))
        return np.minimum(covered, self.copies)

    def cost_of(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        return self.cost_of_amounts(pattern.pool, self.amounts(pattern))

    def cost_of_amounts(self, pool: int, amounts: Floats) -> float:
        """Return the master's cost of a GPU of a pool that covers ``amounts`` workloads of each class."""
        raise NotImplementedError

    def pattern_of_contents(self, pool: int, gpu: Gpu) -> Pattern | None:
        """Return the pattern of a GPU at the rates that its slots can serve; ``None`` if a slot can serve nothing."""
        times_ms = self.pricers[pool].times_ms(gpu)
        if times_ms is None:
            return None
        members = []
        for (group, batch, _), time_ms in zip(gpu, times_ms.tolist(), strict=True):
            w = int(np.flatnonzero(self.class_of == group)[0])
            rate = self._rate_rps(pool, w, batch, time_ms)
            if rate <= 0.0:
                return None
            members.append((w, batch, rate))
        members.sort()
        residents = [Resident(*member) for member in members]
        return None if fit_gpu(self.views[pool], residents) is None else Pattern(pool, tuple(members))

    def _rate_rps(self, pool: int, workload: int, batch: int, time_ms: float) -> float:
        """Return the planned rate of a slot: its workload's rate, or the largest rate it can serve if that is lower."""
        seen, view = self.markets[pool], self.views[pool]
        own = float(view.rate_rps[workload])
        overhead_ms = float(seen.overhead_ms[view.model[workload], batch])
        requests = float(seen.requests[self.class_of[workload], batch])
        most = 1000.0 * requests / (seen.buffer * (time_ms + overhead_ms)) * (1.0 - CUSHION)
        if seen.steps:
            most = own * (GOODPUT_STEP * math.floor(min(float(seen.steps), most / own * seen.steps + 1e-9)))
        if most < own:
            return most
        # Under ``assembly`` a batch may fill too slowly at the workload's own rate. Only the bound allows higher rates.
        return own if float(view.budget_ms(workload, batch, own)) >= time_ms else 0.0

    def _pattern_of_gpulets(self, pool: int, gpulets: tuple[Gpulet, ...]) -> Pattern | None:
        """Return the pattern of gpulets, each slot at the rate that it can serve."""
        if any(gpulet.share_units not in self.views[pool].tables.permitted for gpulet in gpulets):
            return None
        where, slots = self.instance.workload_index, [(gpulet.slots[0], gpulet.share_units) for gpulet in gpulets]
        content = tuple(sorted((int(self.class_of[where[s.workload]]), s.batch, units) for s, units in slots))
        return self.pattern_of_contents(pool, content)

    # Pricing ----------------------------------------------------------------------------------------------------

    def weight(self, relaxation: Relaxation) -> Floats:
        """Return the worth of one whole workload of each class at the duals, shape (classes,)."""
        return relaxation.workload_dual

    def price_at(
        self, relaxation: Relaxation, tolerance: float, node_limit: int, left: Floats | None = None
    ) -> list[Priced[Pattern]]:
        """Solve the pricing problem of every GPU type, for all workloads or for ``left`` of each class."""
        weight, results = self.weight(relaxation), []
        for pool, pricer in enumerate(self.pricers):
            least = max(0.0, self.threshold(pool, relaxation, tolerance))
            found = pricer.price(weight, least, node_limit, self.run.deadline, left)
            patterns = [self.pattern_of_contents(pool, gpu) for gpu in found.patterns]
            results.append(Priced(found.bound, [p for p in patterns if p is not None], found.nodes))
        return results

    # Beginning --------------------------------------------------------------------------------------------------

    def initial_columns(self) -> None:
        """Add each class alone on a whole GPU, and the patterns of column generation without splitting.

        There a workload that no GPU serves alone counts as several workloads with equal parts of its rate, unless
        these are too many.
        """
        served = np.zeros(len(self.copies))
        for pool, pricer in enumerate(self.pricers):
            for group in range(len(self.copies)):
                gpu = pricer.best_alone(group)
                pattern = None if gpu is None else self.pattern_of_contents(pool, gpu)
                if pattern is not None:
                    self.add([pattern])
                    served[group] = max(served[group], self.amounts(pattern)[group])
        self._servable = served > 0.0
        if not self._servable.all() and self.minimised:
            return
        parts = [
            (w, math.ceil(1.0 / served[group] - 1e-9) if 0.0 < served[group] < 1.0 and self.minimised else 1)
            for w, group in enumerate(self.class_of.tolist())
        ]
        if sum(many for _, many in parts) > MOST_PARTS:
            return
        apart = [
            replace(self.instance.workloads[w], id=f"{w}:{k}", rate_rps=self.instance.workloads[w].rate_rps / many)
            for w, many in parts
            for k in range(many)
        ]
        self._seed_from(replace(self.instance, workloads=tuple(apart)))

    def _seed_from(self, apart: Instance) -> None:
        allowed_s = SEED_TIME_FRACTION * self.run.remaining_s
        deadline = now() + allowed_s
        unheard = alone(self.run, deadline)
        try:
            generation = GENERATIONS[apart.objective](apart, unheard)
        except TimeoutError:
            return
        outcome = Solution(generation, 0.5).solve()
        relaxation = generation.master.relax()
        names = {w.id: self.instance.workloads[int(w.id.partition(":")[0])].id for w in apart.workloads}
        if outcome.plan is not None:
            of_plan = [self._pattern_of(_renamed(gpu, names)) for gpu in outcome.plan.gpus]
            self._whole.append([pattern for pattern in of_plan if pattern is not None])
            self.add(self._whole[-1])
        near = sorted(generation.master.patterns, key=lambda p: generation.reduced_cost(p, relaxation))
        for pattern in near[:SEED_PATTERNS]:
            placed = generation.placed(pattern, [Resident(*member) for member in pattern.members])
            if placed is not None and now() < deadline + allowed_s:
                self.add([self._pattern_of(_renamed(placed, names))])

    def starts(self) -> list[list[Pattern]]:
        """Return initial solutions: the plan without splitting, and the given start plan."""
        return [*(p for p in self._whole if self.complete(p)), *super().starts()]

    # Plans ------------------------------------------------------------------------------------------------------

    def realise(self, counts: Mapping[int, int]) -> tuple[float, Plan] | None:
        """Turn a solution of the master into a plan: assign its slots to workloads and remove the surplus."""
        patterns = self.master.chosen(counts)
        if not self.complete(patterns):
            return None
        shared = shared_out(self.instance, self.class_of, patterns, self.views)
        if shared is None:
            return None
        gpus = []
        for pattern, residents in zip(patterns, shared, strict=True):
            if residents:
                gpu = self.placed(pattern, residents)
                if gpu is None:
                    return None
                gpus.append(gpu)
        plan = Plan(self.instance.name, tuple(gpus))
        return self.value(plan), plan

    def value(self, plan: Plan) -> float:
        """Return the value of a plan as the master counts it: its cost, or its negated throughput."""
        if self.minimised:
            return self.instance.cost_per_hour(plan.gpus)
        return -math.fsum(slot.rate_rps for _, _, slot in plan.slots())


class SplitCostGeneration(SplitGeneration):
    """Column generation for ``cost``: cover every workload with the cheapest GPUs, split where that is cheaper."""

    def cover(self) -> Covering:
        """Return the rows of the master."""
        free = np.full_like(self.copies, np.inf)
        return Covering(self.copies, free, self.count, artificial_cost=100.0 * float(self.price.max()))

    def cost_of_amounts(self, pool: int, amounts: Floats) -> float:
        """Return the cost of a GPU."""
        return float(self.price[pool])

    def initial_columns(self) -> None:
        """Also add the patterns that gain if each workload pays for the least part of a GPU that it can take."""
        super().initial_columns()
        parts = np.array([least_fractions(each) * price for each, price in zip(self.markets, self.price, strict=True)])
        fair = parts.min(axis=0)
        if np.isfinite(fair).all():
            duals = Relaxation(0.0, fair, np.zeros(len(self.count)), np.zeros(0))
            for _ in range(SEED_CALLS):
                self.learn(self.price_at(duals, self.first_tolerance, self.first_node_limit), duals)

    def obstacle(self) -> str:
        """Name the first workload that no GPU type serves at any rate."""
        for w, asked in enumerate(self.instance.workloads):
            if not self._servable[self.class_of[w]]:
                return f"{asked.id}: no GPU of the pool serves {asked.model} within {asked.slo_ms:g} ms"
        return ""


class SplitGoodputGeneration(SplitGeneration):
    """Column generation for ``goodput``: serve the most requests; service beyond a workload's rate has no value."""

    last_tolerance = 5e-10

    def cover(self) -> Covering:
        """Return the rows of the master."""
        free = np.full_like(self.copies, -np.inf)
        return Covering(free, self.copies, self.count, 0.0, surplus_cost=self.asked_rps)

    def cost_of_amounts(self, pool: int, amounts: Floats) -> float:
        """Return the negated throughput of a GPU that covers ``amounts``."""
        return -float(amounts @ self.asked_rps)

    def complete(self, patterns: list[Pattern]) -> bool:
        """Return whether the pools are large enough; ``realise`` removes surplus coverage."""
        used = np.bincount([p.pool for p in patterns], minlength=len(self.count))
        return bool(np.all(used <= self.count))

    def weight(self, relaxation: Relaxation) -> Floats:
        """Return the worth of one whole workload of each class at the duals, shape (classes,)."""
        return np.maximum(0.0, self.asked_rps + relaxation.workload_dual)

    def charge(self, relaxation: Relaxation) -> Floats:
        """Return the charge for a workload of each class, at most its rate, shape (classes,)."""
        return self.asked_rps - self.weight(relaxation)


def _renamed(gpu: PlacedGpu, names: Mapping[str, str]) -> PlacedGpu:
    return gpu.with_slots(lambda slot: replace(slot, workload=names[slot.workload]))


SPLIT_GENERATIONS: dict[Objective, type[SplitGeneration]] = {
    Objective.COST: SplitCostGeneration,
    Objective.GOODPUT: SplitGoodputGeneration,
}


def split_obstacle(instance: Instance) -> str:
    """Return a one-line reason why the class ``split`` is not supported for an instance; empty if it is."""
    if instance.objective not in SPLIT_GENERATIONS:
        return f"no bound on split plans is known for {instance.objective}"
    if instance.slo_rule is SloRule.P99:
        return "no bound on split plans is known under p99: the rate that a slot can serve is known by simulation only"
    return ""
