"""One run of column generation: bound, round to whole GPUs, close the gap."""

import math

from bench.api import Bound, Outcome, Status
from formulations.colgen.capacity.generation import CapacityGeneration
from formulations.colgen.generation import Generation
from formulations.colgen.plans import plan_of
from formulations.colgen.rounding import dive
from formulations.colgen.spatial import CostGeneration, GoodputGeneration
from formulations.problem import TOO_FEW
from instances import Objective, Plan, PlanClass
from instances.costs import cost_step, next_cost

GOOD_ENOUGH = 1e-4
"""Relative gap between bound and relaxation at which a throughput goes on to whole GPUs."""

GENERATIONS: dict[Objective, type[Generation]] = {
    Objective.COST: CostGeneration,
    Objective.GOODPUT: GoodputGeneration,
    Objective.CAPACITY: CapacityGeneration,
}


class Solution:
    """One run: the generation, the best plan and the best bound so far.

    Parameters
    ----------
    generation
        Of the instance, on the terms of the run.
    integer_fraction
        See ``ColGen``.
    """

    def __init__(self, generation: Generation, integer_fraction: float) -> None:
        self.instance = generation.instance
        self.run = generation.run
        self.integer_fraction = integer_fraction
        self.generation = generation
        self.minimised = generation.minimised
        self.counts: dict[int, int] | None = None
        self.plan: Plan | None = None
        self.value = math.inf  # of the minimised objective
        self.reported = -math.inf

    def solve(self) -> Outcome:
        """Run until the plan is proven optimal or time is up."""
        generation, run = self.generation, self.run
        if isinstance(generation, CostGeneration):
            unservable = generation.unservable()
            if unservable:
                asked = self.instance.workloads[unservable[0]]
                reason = f"{asked.id}: no GPU of the pool serves {asked.model} at {asked.rate_rps:g} req/s alone"
                return Outcome(Status.INFEASIBLE, reason=reason)
        for patterns in generation.starts():
            self._accept(generation.master.counts(patterns))
        self._report_bound()
        # Half of the time for patterns and bound, then whole GPUs, then what the bound still lacks.
        half_s = run.remaining_s / 2.0
        generation.solve(lambda: self.bound_suffices() or run.remaining_s < half_s)
        self._to_whole_gpus()
        if not self.proven():
            generation.solve(self._bound_reaches_relaxation)
            self._to_whole_gpus()
        if not self.proven():
            self._close()
        return self._outcome()

    def _to_whole_gpus(self) -> None:
        if self.generation.relaxation is None or self.proven():
            return
        if not self.minimised:
            self._round()  # diving prices at every step, which takes longer here than choosing among what is known
        self._accept(dive(self.generation))
        self._round()

    def _close(self) -> None:
        """Add every pattern that a better plan could use, and choose among them exactly."""
        worst = self._worst_of_interest()
        if math.isinf(worst) or self.run.remaining_s <= 0.0:
            return
        if self.generation.complete_below(worst) and self._round():
            # Only the known patterns could have made a better plan, and no choice of them does.
            cost = math.inf if self.plan is None else self.value
            self.generation.bound = cost if self.minimised else -cost
            self._report_bound()

    def _worst_of_interest(self) -> float:
        """Cost, as the master counts it, above which a plan is no better than the best so far, or than none."""
        if self.plan is None:
            return self._whole_pool() if self.minimised else 0.0
        return self.value - cost_step(self.instance) if self.minimised else self.value

    def _whole_pool(self) -> float:
        prices = zip(self.generation.price, self.generation.count, strict=True)
        return math.fsum(price * count for price, count in prices if price > 0.0)

    def _round(self) -> bool:
        """Solve the restricted master over whole GPUs; whether to optimality."""
        if self.proven() or self.run.remaining_s <= 0.0:
            return False
        known = None if self.counts is None else {c: float(n) for c, n in self.counts.items()}
        limit_s = min(self.integer_fraction * self.run.remaining_s, 1e6)
        target = next_cost(self.generation.bound, self.instance) if self.minimised else -math.inf
        counts, proven = self.generation.master.integer(limit_s, self.run.threads, self.run.seed, known, target)
        self._accept(counts)
        return proven

    def bound_suffices(self) -> bool:
        """Whether more patterns could hardly improve the bound; reports the bound on the way."""
        self._report_bound()
        relaxation = self.generation.relaxation
        if relaxation is None:
            return True  # time was up before the first pattern
        if self.minimised:
            # No plan built from patterns costs less than the relaxation: the bound cannot reach the next cost.
            return next_cost(self.generation.bound, self.instance) >= next_cost(relaxation.value, self.instance)
        return self.generation.bound <= -relaxation.value * (1.0 + GOOD_ENOUGH)

    def _bound_reaches_relaxation(self) -> bool:
        suffices = self.bound_suffices()
        relaxation = self.generation.relaxation
        if self.minimised or relaxation is None:
            return suffices
        return self.generation.bound <= -relaxation.value * (1.0 + 1e-9)

    def _report_bound(self) -> None:
        bound = self.generation.bound
        better = bound if self.minimised else -bound
        if math.isfinite(bound) and better > self.reported:
            self.reported = better
            self.run.report(bound=self._bound())

    def _bound(self) -> Bound | None:
        bound = self.generation.bound
        return Bound(bound, True, PlanClass.SPATIAL) if math.isfinite(bound) else None

    def _accept(self, counts: dict[int, int] | None) -> None:
        """Keep a solution of the master if it is the best so far."""
        patterns = self.generation.master.patterns
        # Solvers round: what they call whole and complete is looked at again.
        if counts is None or not self.generation.complete([patterns[c] for c, n in counts.items() for _ in range(n)]):
            return
        value = math.fsum(self.generation.master.costs[c] * n for c, n in counts.items())
        if value < self.value:
            self.value, self.counts = value, counts
            self.plan = plan_of(self.generation, counts)
            self.run.report(plan=self.plan)

    def proven(self) -> bool:
        """Whether the bound shows that no plan is better than the one at hand."""
        if self.plan is None:
            return False
        if self.minimised:
            return self.value <= next_cost(self.generation.bound, self.instance) * (1.0 + 1e-9)
        return -self.value >= self.generation.bound * (1.0 - 1e-9)

    def impossible(self) -> bool:
        """Whether the bound exceeds what the whole pool costs, or is below no throughput at all: no plan exists."""
        if self.minimised:
            return self.generation.bound > self._whole_pool() * (1.0 + 1e-9)
        return self.generation.bound < 0.0

    def _outcome(self) -> Outcome:
        tally = self.generation.tally
        statistics = {
            "iterations": float(tally.iterations),
            "nodes": float(tally.nodes),
            "patterns": float(len(self.generation.master.patterns)),
        }
        if self.impossible():
            return Outcome(Status.INFEASIBLE, statistics=statistics, reason=TOO_FEW)
        status = Status.UNKNOWN if self.plan is None else Status.OPTIMAL if self.proven() else Status.FEASIBLE
        return Outcome(status, self.plan, self._bound(), statistics)
