"""Last pass of a run: every pattern that a better plan could use, then the restricted master over integers."""

import math

import numpy as np

from formulations.colgen.column_generation import ColumnGeneration, Solution
from formulations.colgen.pattern_problem import PatternProblem
from formulations.colgen.restricted_master import Relaxation
from formulations.rounding import sum_rounded_down
from instances import PART_STEPS

CLOSING_ROOM = 1e-6
"""Relative tolerance for the rounding of reduced costs when every pattern below a reduced cost is added."""


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
