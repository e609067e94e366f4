"""Passes that turn weights into whole GPUs: dives, and closing of the gap by patterns of small reduced costs."""

import math
from collections.abc import Callable
from typing import Protocol

import numpy as np

from bench.api import Run
from formulations.colgen.clock import now
from formulations.colgen.column_generation import PatternProblem
from formulations.colgen.restricted_master import Relaxation, whole_counts
from formulations.colgen.solution import ColumnGeneration, Solution
from formulations.rounding import sum_rounded_down
from instances import PART_STEPS
from instances.arrays import Floats
from instances.costs import next_cost

DIVING_PART = 0.05
"""Fraction of the open GPUs that one step of diving fixes."""

ALMOST_INTEGER = 0.999
"""Weights at or above this count as integers."""

LEAST_ROUNDING_S = 1.0
"""Least time for the integer restricted master between dives, where costs are minimised."""

DIVES, MANY_DIVES = (0.1, 20), (0.4, 100)
"""Fraction of the remaining time for random dives, and number of dives without a better plan that ends them.

``MANY_DIVES`` are made if the relaxation costs no more than the bound, so that a plan of this cost may exist.
"""

FEW_PATTERNS = 50
"""Largest number of patterns that a pricing call adds in a random dive. More of them slow down later dives."""

CLOSING_ROOM = 1e-6
"""Relative tolerance for the rounding of reduced costs when every pattern below a reduced cost is added."""


class UndecidedGpus(Protocol):
    """GPUs that a dive has not fixed yet."""

    def relax(self) -> float:
        """Price patterns, and solve the relaxation beside the fixed GPUs; return the sum of the weights not fixed."""

    def fix(self, fewest: int) -> bool:
        """Fix GPUs of largest weight, at least ``fewest`` unless they conflict; return whether any remain open."""

    def solution(self) -> dict[int, int] | None:
        """Return the number of GPUs of each pattern, or ``None`` if the fixed GPUs make no solution."""


def dive(undecided: UndecidedGpus, run: Run) -> dict[int, int] | None:
    """Fix GPUs until none are left; return the number of GPUs of each pattern.

    The number of GPUs per step is chosen such that the dive takes at most half of the remaining time. The result is
    ``None`` if the time or the pool was exhausted.
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


def dive_repeatedly(
    dive_once: Callable[[Solution, np.random.Generator], None], time_fraction: float, patience: int, solution: Solution
) -> None:
    """Repeat random dives for this fraction of the remaining time; each uses the patterns of all earlier ones.

    They end earlier after ``patience`` dives without a better plan.
    """
    random, idle = np.random.default_rng(solution.run.seed), 0
    until = now() + time_fraction * solution.run.remaining_s
    while idle < patience and not solution.proven() and now() < until:
        value_before = solution.value
        dive_once(solution, random)
        idle = 0 if solution.value < value_before else idle + 1


def dive_at_random(solution: Solution) -> None:
    """Repeat random dives by weight under ``cost``, half of them only for a plan as cheap as the bound permits."""
    relaxation = solution.generation.relaxation
    reaches_bound = relaxation is not None and next_cost(relaxation.value, solution.instance) <= _least_cost(solution)
    dive_repeatedly(_dive_for_less, *(MANY_DIVES if reaches_bound else DIVES), solution)


def _dive_for_less(solution: Solution, random: np.random.Generator) -> None:
    """Dive by weights times random numbers; end once the relaxation costs more than the plan that is sought."""
    problem, most_cost = solution.generation.problem, solution.worst_of_interest()
    if random.random() < 0.5:
        most_cost = min(most_cost, _least_cost(solution))
    patterns_per_call, problem.patterns_per_call = problem.patterns_per_call, FEW_PATTERNS
    try:
        dive_by_weight(solution, random, most_cost)
    finally:
        problem.patterns_per_call = patterns_per_call


def _least_cost(solution: Solution) -> float:
    """Return the least cost of whole GPUs that the bound permits."""
    return next_cost(solution.generation.bound, solution.instance)


def round_briefly(solution: Solution) -> None:
    """Solve the restricted master over integers.

    Under ``cost`` dives find plans faster. With a deadline, the solver then runs only if there are new patterns, and at
    most as long as the run has taken so far. Without one, time sets no limit, so that results do not depend on it.
    """
    if not (solution.minimised and math.isfinite(solution.run.deadline)):
        solution.round()
    elif len(solution.generation.master.patterns) > solution.patterns_at_rounding:
        solution.round(max(LEAST_ROUNDING_S, now() - solution.began))


def dive_by_weight(solution: Solution, random: np.random.Generator | None = None, most_cost: float = math.inf) -> None:
    """Fix the largest weights of the restricted master step by step, with pricing in between; see ``OpenWeights``."""
    undecided = OpenWeights(solution.generation, random, most_cost)
    try:
        solution.accept(dive(undecided, solution.run))
    finally:
        undecided.release()


class OpenWeights:
    """Undecided GPUs of a dive in which fixed GPUs are lower limits on the weights of the restricted master.

    Parameters
    ----------
    generation
        Column generation; its master receives the patterns found.
    random
        Multiplies each weight by a number between 0 and 1, so that repeated dives differ; ``None`` for 1.
    most_cost
        Largest cost of the plan that is sought; the dive ends once the relaxation costs more.
    """

    def __init__(
        self, generation: ColumnGeneration, random: np.random.Generator | None = None, most_cost: float = math.inf
    ) -> None:
        self._generation, self._master = generation, generation.master
        self._random, self._most_cost = random, most_cost
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
        self._fraction[self._fraction < 1.0 - ALMOST_INTEGER] = 0.0
        self._solved = self._master.solved() and self._may_cost(relaxation.value)
        if not self._solved:  # too expensive, out of time, or infeasible with the fixed GPUs
            self._fraction = np.zeros(0)
            return 0.0
        for column in np.flatnonzero(unfixed_weight >= ALMOST_INTEGER).tolist():
            self._fix(column, math.floor(unfixed_weight[column] + 1.0 - ALMOST_INTEGER))
        return float(self._fraction.sum())

    def _may_cost(self, cost: float) -> bool:
        """Return whether the least cost of whole GPUs that is at least ``cost`` is permitted."""
        most_cost = self._most_cost * (1.0 + 1e-9)
        return math.isinf(most_cost) or next_cost(cost, self._generation.instance) <= most_cost

    def fix(self, fewest: int) -> bool:
        """Fix the columns of the largest fractions, of which no two hold workloads of one class."""
        if not self._fraction.any():
            return False
        at_once = max(fewest, math.ceil(self._fraction.sum() * DIVING_PART))
        factor = 1.0 if self._random is None else 1.0 - self._random.random(len(self._fraction))  # above 0
        for column in without_common_classes(self._generation, self._fraction * factor, at_once):
            self._fix(column, 1.0)
        return True

    def _fix(self, column: int, count: float) -> None:
        self._fixed[column] = self._fixed.get(column, 0.0) + count
        self._master.fix(column, self._fixed[column])

    def solution(self) -> dict[int, int] | None:
        """Return the weights of the last relaxation; ``None`` if they do not cover every workload."""
        if not (self._solved and self._master.complete()):
            return None
        return whole_counts(self._weight)

    def release(self) -> None:
        """Undo all fixing."""
        for column in self._fixed:
            self._master.release(column)


def without_common_classes(generation: ColumnGeneration, fraction: Floats, most: int) -> list[int]:
    """Return at most ``most`` columns of the largest positive fractions; no two hold workloads of one class."""
    chosen: list[int] = []
    chosen_classes: set[int] = set()
    for column in np.argsort(-fraction, kind="stable").tolist():
        residents = generation.master.patterns[column].residents
        classes = {int(generation.problem.class_of[slot.workload]) for slot in residents}
        if len(chosen) == most or fraction[column] == 0.0:
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
            added = [pattern for pattern in priced.patterns if generation.add([pattern])]
            # A plan has at most one pattern per workload, or per step of a divisible one. So reduced costs of at least
            # -room / most sum to at least -room in a plan.
            most = len(problem.class_of) + PART_STEPS * len(problem.divisible)
            gains = gains or any(generation.reduced_cost(p, relaxation) < -room / most for p in added)
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
