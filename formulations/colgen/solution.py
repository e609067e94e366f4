"""Run of column generation: the incumbent, and the passes that look for better plans or prove that none exists."""

import math
from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np

from bench.api import Bound, Duals, Outcome, Run, Status
from formulations.colgen.clock import now, work_done
from formulations.colgen.column_generation import ColumnGeneration, is_better
from formulations.colgen.pattern_problem import PatternProblem, prices_and_counts
from formulations.colgen.restricted_master import Relaxation
from formulations.problem import TOO_FEW, WHOLE
from formulations.rounding import sum_rounded_down
from instances import PART_STEPS, Instance, Plan, PlanClass
from instances.arrays import Floats
from instances.costs import cost_step, next_cost

GOOD_ENOUGH = 1e-4
"""Relative gap between bound and relaxation at which a throughput objective turns to integer solutions."""

FIRST_ROUNDING_FRACTION = 0.2
"""Largest fraction of the remaining time for the integer restricted master before diving, where costs are minimised."""

MOST_GPUS = 1_000_000
"""Largest number of GPUs of a plan that rounding makes."""

DIVING_PART = 0.05
"""Fraction of the open GPUs that one step of diving fixes."""

ALMOST_INTEGER = 0.999
"""Weights at or above this count as integers."""

CLOSING_ROOM = 1e-6
"""Relative tolerance for the rounding of reduced costs when every pattern below a reduced cost is added."""

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
        self._reported = -math.inf if self.minimised else math.inf

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
        problem = self.generation.problem
        complete_solutions = [patterns for patterns in problem.known if problem.complete(patterns)]
        start_solutions = [self.generation.add_plan(plan) for plan in self._starts]
        for patterns in (*complete_solutions, *start_solutions):
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

    def round(self, most_s: float = 1e6) -> bool:
        """Solve the restricted master over integers within ``most_s``; return whether it was solved to optimality."""
        if self.proven() or self.run.remaining_s <= 0.0:
            return False
        limit_s = min(self._integer_fraction * self.run.remaining_s, most_s)
        target = next_cost(self.generation.bound, self.instance) if self.minimised else -math.inf
        counts, proven = self.generation.master.integer(limit_s, self.run.seed, self.counts, target)
        self.accept(counts)
        return proven

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
        return proves(self.generation.bound, value, self.instance, self.generation.problem.proof_tolerance)

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
        if bound is not None and is_better(bound.value, self._reported, self.instance):
            self._reported = bound.value
            self.run.report(bound=bound)

    def _bound(self) -> Bound | None:
        bound = self.generation.bound
        if not math.isfinite(bound) or (bound < 0.0 and not self.minimised):  # no plan exists that it could bound
            return None
        return self.generation.problem.certified(bound)

    def _outcome(self) -> Outcome:
        generation = self.generation
        patterns = len(generation.master.patterns)
        counted = {"iterations": generation.iterations, "nodes": generation.nodes, "patterns": patterns}
        statistics = {**{name: float(number) for name, number in counted.items()}, "work": work_done()}
        if excludes_every_plan(generation.bound, self.instance):
            reason = f"{TOO_FEW}, {WHOLE}" if generation.problem.plan_class is PlanClass.SPATIAL else TOO_FEW
            return Outcome(Status.INFEASIBLE, statistics=statistics, reason=reason, proof=generation.proof)
        status = Status.UNKNOWN if self.plan is None else Status.OPTIMAL if self.proven() else Status.FEASIBLE
        return Outcome(status, self.plan, self._bound(), statistics, proof=generation.proof)


class UndecidedGpus(Protocol):
    """GPUs that a dive has not fixed yet."""

    def relax(self) -> float:
        """Price patterns beside the fixed GPUs, and solve the relaxation; return the sum of the open weights."""

    def fix(self, fewest: int) -> bool:
        """Fix open GPUs of largest weight, at least ``fewest`` unless they conflict; return whether any remain."""

    def solution(self) -> dict[int, int] | None:
        """Return the number of GPUs of each pattern, or ``None`` if the fixed GPUs make no solution."""


def dive(undecided: UndecidedGpus, run: Run) -> dict[int, int] | None:
    """Fix GPUs until none are left; return the number of GPUs of each pattern.

    The number of GPUs per step is chosen such that the dive takes half of the remaining time. The result is ``None`` if
    the time or the pool was exhausted.
    """
    while run.remaining_s > 0.0:
        began = now()
        open_gpus = undecided.relax()
        step_s = now() - began
        # The least number per step with which the dive ends in time; 0 without a deadline.
        fewest = math.ceil(open_gpus * step_s / max(run.remaining_s / 2.0, step_s)) if open_gpus > 0.0 else 0
        if not undecided.fix(max(1, fewest)):
            return undecided.solution()
    return None


def dive_by_weight(solution: Solution) -> None:
    """Fix the largest weights of the restricted master step by step, with pricing in between."""
    undecided = OpenWeights(solution.generation)
    try:
        solution.accept(dive(undecided, solution.run))
    finally:
        undecided.release()


class OpenWeights:
    """Undecided GPUs of a dive in which fixed GPUs are lower limits on the weights of the restricted master."""

    def __init__(self, generation: ColumnGeneration) -> None:
        self._generation, self._master = generation, generation.master
        self._fixed: dict[int, float] = {}
        self._weight, self._fraction, self._solved = np.zeros(0), np.zeros(0), False

    def relax(self) -> float:
        """Price patterns at the master's duals, solve it again, and fix weights that are integers."""
        generation, problem = self._generation, self._generation.problem
        relaxation = self._master.relax()
        if problem.diving_tolerance is not None:
            limits = problem.diving_tolerance, problem.node_limits[0], generation.run.deadline
            for priced in problem.price_patterns(relaxation, *limits):
                generation.add(priced.patterns)
            relaxation = self._master.relax()
        self._weight = relaxation.weight
        unfixed_weight = self._weight - np.array([self._fixed.get(column, 0.0) for column in range(len(self._weight))])
        self._fraction = unfixed_weight - np.floor(unfixed_weight + 1.0 - ALMOST_INTEGER)
        self._solved = self._master.solved()
        if not self._solved:  # the fixed parts of a workload exceed the whole
            self._fraction = np.zeros(0)
            return 0.0
        for column in np.flatnonzero(unfixed_weight >= ALMOST_INTEGER).tolist():
            self._fix(column, math.floor(unfixed_weight[column] + 1.0 - ALMOST_INTEGER))
        return float(self._fraction.sum())

    def fix(self, fewest: int) -> bool:
        """Fix the columns of the largest fractions, of which no two hold workloads of one class."""
        if self._fraction.max(initial=0.0) < 1.0 - ALMOST_INTEGER:
            return False
        at_once = max(fewest, math.ceil(self._fraction.sum() * DIVING_PART))
        for column in without_common_classes(self._generation, self._fraction, at_once):
            self._fix(column, 1.0)
        return True

    def _fix(self, column: int, count: float) -> None:
        self._fixed[column] = self._fixed.get(column, 0.0) + count
        self._master.fix(column, self._fixed[column])

    def solution(self) -> dict[int, int] | None:
        """Return the weights of the last relaxation; ``None`` if they do not cover every workload."""
        if not (self._solved and self._master.complete()):
            return None
        return {c: round(w) for c, w in enumerate(self._weight.tolist()) if round(w) > 0}

    def release(self) -> None:
        """Undo all fixing."""
        for column in self._fixed:
            self._master.release(column)


def without_common_classes(generation: ColumnGeneration, fraction: Floats, most: int) -> list[int]:
    """Return at most ``most`` columns of the largest fractions, of which no two hold workloads of one class."""
    chosen: list[int] = []
    chosen_classes: set[int] = set()
    for column in np.argsort(-fraction, kind="stable").tolist():
        residents = generation.master.patterns[column].residents
        classes = {int(generation.problem.class_of[slot.workload]) for slot in residents}
        if len(chosen) == most or fraction[column] < 1.0 - ALMOST_INTEGER:
            break
        if chosen_classes.isdisjoint(classes):
            chosen.append(column)
            chosen_classes |= classes
    return chosen


def close(solution: Solution) -> None:
    """Add every pattern that a better plan could use, and solve the restricted master over integers exactly."""
    generation, worst = solution.generation, solution.worst_of_interest()
    if math.isinf(worst) or solution.run.remaining_s <= 0.0:
        return
    if complete_below(generation, worst) and solution.round():
        # A better plan could use only the known patterns, and the restricted master has no better solution.
        cost = math.inf if solution.plan is None else solution.value
        generation.bound = cost if solution.minimised else -cost
        solution.report_bound()


def complete_below(generation: ColumnGeneration, worst: float) -> bool:
    """Add every pattern that a plan of master cost at most ``worst`` can hold; return whether all were found.

    A plan costs the relaxation's value plus the reduced costs of its patterns. If none is negative, each is at most
    the difference between the plan's cost and the relaxation's value.
    """
    problem, gains = generation.problem, True
    while gains:
        gains = False
        relaxation = generation.relaxed()
        room = CLOSING_ROOM * (abs(worst) + abs(relaxation.value))
        slack = max(0.0, worst - _dual_value(problem, relaxation)) + room
        for pool in range(len(problem.views)):
            priced = problem.within(slack, pool, relaxation, generation.run.deadline)
            generation.nodes += priced.nodes
            if priced.cut_short:
                return False
            changed = [pattern for pattern in priced.patterns if generation.add([pattern])]
            # A plan has at most one pattern per workload, or per step of a divisible one: smaller reduced costs
            # sum to at most the tolerance.
            most = len(problem.class_of) + PART_STEPS * len(problem.divisible)
            gains = gains or any(generation.reduced_cost(p, relaxation) < -room / most for p in changed)
    return True


def _dual_value(problem: PatternProblem, relaxation: Relaxation) -> float:
    """Return the value of the master's dual at the duals of a relaxation, rounded down; at most the relaxation's own.

    A coverage dual above the cost of an artificial column counts as that cost.
    """
    workload = np.minimum(relaxation.workload_dual, problem.covering.artificial_cost)
    count = problem.count
    limited = np.isfinite(count)
    terms = [*(workload * problem.copies), *(relaxation.pool_dual[limited] * count[limited])]
    return min(relaxation.value, sum_rounded_down(terms))


def pool_price(instance: Instance) -> float:
    """Return the price of all GPUs of the pool; infinite if some type has no limit."""
    prices_counts = zip(*prices_and_counts(instance), strict=True)
    return sum(float(price) * float(count) for price, count in prices_counts if price > 0.0)


def excludes_every_plan(bound: float, instance: Instance) -> bool:
    """Return whether a bound proves that no plan exists: a cost above the pool's, or a throughput below zero."""
    return bound > pool_price(instance) * (1.0 + 1e-9) if instance.objective.minimised else bound < 0.0


def proves(bound: float, value: float, instance: Instance, proof_tolerance: float) -> bool:
    """Return whether a bound, a cost rounded up to the next cost of a plan, proves a value optimal.

    A throughput or scale may differ from its bound by the fraction ``proof_tolerance``.
    """
    if instance.objective.minimised:
        return value <= next_cost(bound, instance) * (1.0 + 1e-9)
    return value >= bound * (1.0 - proof_tolerance)
