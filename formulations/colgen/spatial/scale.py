"""Objective ``scale``: the largest multiple of all rates that fits on the pool, by bisection over a grid."""

from dataclasses import replace

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.clock import alone
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.solution import Solution
from formulations.colgen.spatial.problem import SpatialProblem
from formulations.colgen.spatial.solution import passes_for
from formulations.scale import ScaleBisection, impossible_scale
from instances import SCALE_STEP, Instance, Objective, Plan, PlanClass
from instances.configurations import rates_at


def largest_scale(instance: Instance, run: Run, integer_fraction: float) -> Outcome:
    """Bisect the multiples of the rates; a feasibility check on the pool decides each one.

    The result is unknown unless every GPU type has a count. See ``ColGen`` for ``integer_fraction``.
    """
    if any(pool.count is None for pool in instance.gpus):
        return Outcome(Status.UNKNOWN, reason="scale needs a number of GPUs for every type of the pool")
    if not instance.workloads:
        return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, True, plan_class=PlanClass.SPATIAL))
    bisection, undecided, impossible = ScaleBisection(instance, run), False, impossible_scale(instance)
    while not (bisection.decided or undecided) and run.remaining_s > 0.0:
        scale = _next(bisection.fits, bisection.fails, impossible)
        outcome = _decide(instance, scale * SCALE_STEP, run, integer_fraction)
        if outcome.plan is not None:
            bisection.accept(scale, outcome.plan)
        elif outcome.status is Status.INFEASIBLE:
            bisection.exclude(scale, outcome.reason, outcome.proof)
        else:
            undecided = True
    bisection.look_below_the_grid(lambda factor: _decide(instance, factor, run, integer_fraction))
    return bisection.outcome("no multiple was decided in time")


def _next(fits: int, fails: int | None, impossible: int) -> int:
    """Return the next scale in steps: the given rates, doubled until they are infeasible, then the middle."""
    if fails is None:
        return max(fits + 1, min(max(round(1.0 / SCALE_STEP), 2 * fits), impossible))
    return (fits + fails) // 2


def _decide(instance: Instance, factor: float, run: Run, integer_fraction: float) -> Outcome:
    """Find a plan at ``factor`` times the rates, or prove that none exists."""
    scaled = replace(instance.scaled(factor), name=instance.name, objective=Objective.COST)
    # The cost problem reports dollars, not multiples of the rates, so its run has no listener.
    unheard = alone(run)
    try:
        # A higher rate may be easier to serve.
        problem = SpatialProblem(scaled, unheard.deadline, rates=rates_at(scaled, 1.0))
    except TimeoutError as late:
        return Outcome(Status.UNKNOWN, reason=str(late))
    generation = ColumnGeneration(problem, unheard)
    return Solution(generation, passes_for(problem), integer_fraction, any_plan=True).solve()
