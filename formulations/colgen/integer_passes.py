"""Passes that turn weights into whole GPUs: dives, and closing of the gap by patterns of small reduced costs."""

import math
from typing import Protocol

import numpy as np

from bench.api import Run
from formulations.colgen.clock import now
from formulations.colgen.column_generation import PatternProblem
from formulations.colgen.restricted_master import Relaxation
from formulations.colgen.solution import ColumnGeneration, Solution
from formulations.rounding import sum_rounded_down
from instances import PART_STEPS
from instances.arrays import Floats

DIVING_PART = 0.05
"""Fraction of the open GPUs that one step of diving fixes."""

ALMOST_INTEGER = 0.999
"""Weights at or above this count as integers."""

CLOSING_ROOM = 1e-6
"""Relative tolerance for the rounding of reduced costs when every pattern below a reduced cost is added."""


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
