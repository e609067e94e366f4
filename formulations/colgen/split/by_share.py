"""Column generation for ``split`` under rules whose budget depends on the share: parts are multiples of a step.

Column generation without splitting comes first: its plan, patterns and duals are close to those with splitting.
"""

from dataclasses import replace

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.bounds import most_served
from formulations.colgen.clock import alone, now
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.solution import Solution
from formulations.colgen.spatial.problem import SpatialProblem
from formulations.colgen.spatial.solution import passes_for, whole_solution
from instances import Instance, PlanClass

WHOLE_TIME_FRACTION = 0.3
"""Fraction of the time for column generation without splitting."""

PATTERN_FRACTION = 0.9
"""Fraction of the time for patterns and bound: the plan without splitting, a start, is hardly worse."""


def solve_split_by_share(instance: Instance, run: Run, integer_fraction: float) -> Outcome:
    """Solve an instance of objective cost or goodput without splitting, then with it; see ``ColGen``."""
    outcome = Outcome(Status.UNKNOWN)
    try:
        unheard = alone(run, now() + WHOLE_TIME_FRACTION * run.remaining_s)
        whole = whole_solution(instance, unheard, integer_fraction)
        outcome = whole.solve()
        run.report(plan=outcome.plan)
        every = frozenset(range(len(instance.workloads)))
        problem = SpatialProblem(instance, run.deadline, every, whole=whole.generation)
        generation = ColumnGeneration(problem, run)
        return Solution(generation, passes_for(problem), integer_fraction, PATTERN_FRACTION, [whole.plan]).solve()
    except TimeoutError as late:
        status = Status.UNKNOWN if outcome.plan is None else Status.FEASIBLE
        bound = None if instance.objective.minimised else Bound(most_served(instance), True, plan_class=PlanClass.SPLIT)
        return replace(outcome, status=status, bound=bound, reason=str(late))
