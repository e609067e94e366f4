"""One run of column generation: a list of passes that improve the bound and the plan."""

import math
from collections.abc import Callable, Sequence

from bench.api import Bound, Duals, Outcome, Status
from formulations.colgen.clock import work_done
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.diving import OpenWeights, dive
from formulations.colgen.pattern_problem import excludes_every_plan, pool_price, proves_optimal
from formulations.problem import TOO_FEW, WHOLE
from instances import Plan, PlanClass
from instances.costs import cost_step, next_cost

GOOD_ENOUGH = 1e-4
"""Relative gap between bound and relaxation at which a throughput objective turns to integer solutions."""

FIRST_ROUNDING_FRACTION = 0.2
"""Largest fraction of the remaining time for the integer restricted master before diving, where costs are minimised."""

MOST_GPUS = 1_000_000
"""Largest number of GPUs of a plan that rounding makes."""

Pass = Callable[["Solution"], object]
"""Part of a run; passes after the first relaxation are skipped once the plan is proven optimal."""


class Solution:
    """One run: the column generation, the incumbent and the best bound.

    Parameters
    ----------
    passes
        Passes after the first relaxation.
    integer_fraction
        See ``ColGen``.
    pattern_fraction
        Fraction of the time for the first relaxation.
    starts
        Plans that may be known, besides the run's start plan.
    any_plan
        Whether the run ends as soon as a plan is found or excluded.
    """

    def __init__(
        self,
        generation: ColumnGeneration,
        passes: Sequence[Pass],
        integer_fraction: float,
        pattern_fraction: float = 0.5,
        starts: Sequence[Plan | None] = (),
        any_plan: bool = False,
    ) -> None:
        self.generation, self.passes = generation, passes
        self.instance, self.run = generation.instance, generation.run
        self.minimised = generation.problem.minimised
        self.counts: dict[int, int] | None = None
        self.plan: Plan | None = None
        self.value = math.inf  # of the minimised objective
        self._integer_fraction, self._pattern_fraction = integer_fraction, pattern_fraction
        self._starts, self._any_plan = (self.run.start, *starts), any_plan
        self._reported = -math.inf

    def solve(self) -> Outcome:
        """Run until the plan is proven optimal or time is up."""
        obstacle = self.generation.problem.obstacle(self.generation.master.patterns)
        if obstacle:
            # The duals do not matter: some workload fits on no GPU.
            nothing = Duals((0.0,) * len(self.instance.workloads), (0.0,) * len(self.instance.gpus))
            return Outcome(Status.INFEASIBLE, reason=obstacle, proof=[nothing])
        self.use_known_plans()
        self.relax_at_first()
        for improve in self.passes:
            if self.proven():
                break
            improve(self)
        return self._outcome()

    # Passes ------------------------------------------------------------------------------------------------------

    def use_known_plans(self) -> None:
        """Accept the solutions that the problem and the run begin with."""
        known = [patterns for patterns in self.generation.problem.known if self.generation.problem.complete(patterns)]
        started = [self.generation.add_plan(plan) for plan in self._starts]
        for patterns in (*known, *started):
            if patterns is not None:
                self.accept(self.generation.master.counts(patterns))
        self.report_bound()

    def relax_at_first(self) -> None:
        """Generate columns for part of the time, until the bound hardly improves."""
        left_s = (1.0 - self._pattern_fraction) * self.run.remaining_s
        self.generation.solve(lambda: self.bound_suffices() or self.run.remaining_s < left_s)

    def relax(self) -> None:
        """Generate columns until the bound is that of the relaxation."""
        self.generation.solve(lambda: self.bound_suffices(gap=1e-9))

    def round_at_first(self) -> None:
        """Solve the restricted master over integers, under ``cost`` for a short time: diving takes less."""
        self.round(FIRST_ROUNDING_FRACTION * self.run.remaining_s if self.minimised else 1e6)

    def dive(self) -> None:
        """Fix the largest weights step by step, and price for the rest."""
        rest = OpenWeights(self.generation)
        try:
            self.accept(dive(rest, self.run))
        finally:
            rest.release()

    def round(self, most_s: float = 1e6) -> bool:
        """Solve the restricted master over integers within ``most_s``; return whether it was solved to optimality."""
        if self.proven() or self.run.remaining_s <= 0.0:
            return False
        limit_s = min(self._integer_fraction * self.run.remaining_s, most_s)
        target = next_cost(self.generation.bound, self.instance) if self.minimised else -math.inf
        counts, proven = self.generation.master.integer(limit_s, self.run.seed, self.counts, target)
        self.accept(counts)
        return proven

    def close(self) -> None:
        """Add every pattern that a better plan could use, and solve the restricted master over integers exactly."""
        worst = self.worst_of_interest()
        if math.isinf(worst) or self.run.remaining_s <= 0.0:
            return
        if self.generation.complete_below(worst) and self.round():
            # A better plan could use only the known patterns, and the restricted master has no better solution.
            cost = math.inf if self.plan is None else self.value
            self.generation.bound = cost if self.minimised else -cost
            self.report_bound()

    # State -------------------------------------------------------------------------------------------------------

    def accept(self, counts: dict[int, int] | None) -> None:
        """Make a solution of the master the incumbent if it is better."""
        if counts is None or sum(counts.values()) > MOST_GPUS:
            return  # where a GPU costs next to nothing, the solver may take any number
        counts = self.generation.own_slots(counts)
        realised = self.generation.realise(counts)
        if realised is not None and realised[0] < self.value:
            self.value, self.plan = realised
            self.counts = counts
            self.run.report(plan=self.plan)

    def proven(self) -> bool:
        """Return whether the bound proves the incumbent optimal, or any plan was enough."""
        if self._any_plan:
            return self.plan is not None or excludes_every_plan(self.generation.bound, self.instance)
        if self.plan is None:
            return False
        value = self.value if self.minimised else -self.value
        return proves_optimal(self.generation.bound, value, self.instance, self.generation.problem.agreement)

    def worst_of_interest(self) -> float:
        """Return the largest master cost at which a plan is of interest."""
        if self.plan is None:
            return pool_price(self.instance) if self.minimised else 0.0
        return self.value - cost_step(self.instance) if self.minimised else self.value

    def bound_suffices(self, gap: float = GOOD_ENOUGH) -> bool:
        """Report the bound; return whether more patterns could hardly improve it: a throughput's by this gap."""
        self.report_bound()
        relaxation = self.generation.relaxation
        if relaxation is None or (self._any_plan and self.proven()):
            return True  # the time may be over before the first relaxation
        if self.minimised:
            # No bound exceeds the master's value over all patterns, which is at most its value over the known ones.
            return next_cost(self.generation.bound, self.instance) >= next_cost(relaxation.value, self.instance)
        return self.generation.bound <= -relaxation.value * (1.0 + gap)

    def report_bound(self) -> None:
        """Report the bound of the column generation if it is better than the last one."""
        bound = self._bound()
        if bound is None:
            return
        better = bound.value if self.minimised else -bound.value
        if better > self._reported:
            self._reported = better
            self.run.report(bound=bound)

    def _bound(self) -> Bound | None:
        bound = self.generation.bound
        if not math.isfinite(bound) or (bound < 0.0 and not self.minimised):  # no plan exists that it could bound
            return None
        return self.generation.problem.certified(bound)

    def _outcome(self) -> Outcome:
        generation = self.generation
        statistics = {
            "iterations": float(generation.iterations),
            "nodes": float(generation.nodes),
            "patterns": float(len(generation.master.patterns)),
            "work": work_done(),
        }
        if excludes_every_plan(generation.bound, self.instance):
            reason = f"{TOO_FEW}, {WHOLE}" if generation.problem.plan_class is PlanClass.SPATIAL else TOO_FEW
            return Outcome(Status.INFEASIBLE, statistics=statistics, reason=reason, proof=generation.proof)
        status = Status.UNKNOWN if self.plan is None else Status.OPTIMAL if self.proven() else Status.FEASIBLE
        return Outcome(status, self.plan, self._bound(), statistics, proof=generation.proof)
