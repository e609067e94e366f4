"""Objective ``scale``: the largest multiple of all rates that fits on the pool, by bisection over a grid."""

from dataclasses import replace

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.clock import alone
from formulations.colgen.solution import Solution
from formulations.colgen.spatial import FitGeneration
from formulations.problem import TOO_FEW, WHOLE
from formulations.rates import SCALE_STEP
from instances import Instance, Objective, Plan, PlanClass, SloRule

MOST_STEPS = 200_000


class _Fit(Solution):
    """Feasibility check of a cost problem: the run ends as soon as a plan is found or excluded."""

    def proven(self) -> bool:
        """Return whether a plan was found or excluded."""
        return self.plan is not None or self.impossible()

    def bound_suffices(self) -> bool:
        """Return whether a plan was found or excluded, or more patterns could hardly improve the bound."""
        return self.proven() or super().bound_suffices()


def largest_scale(instance: Instance, run: Run, integer_fraction: float) -> Outcome:
    """Bisect the multiples of the rates; a feasibility check on the pool decides each one.

    The bound is the smallest multiple on the grid that is proven infeasible. No plan reaches it, but plans above the
    last feasible grid point and below the bound may exist.

    Parameters
    ----------
    instance
        Instance of objective ``scale``; every GPU type must have a count.
    run
        Limits of the run.
    integer_fraction
        See ``ColGen``.
    """
    if any(pool.count is None for pool in instance.gpus):
        return Outcome(Status.UNKNOWN, reason="scale needs a number of GPUs for every type of the pool")
    if not instance.workloads:
        return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, True, PlanClass.SPATIAL))
    best: Plan | None = None
    fits, too_many = 0, MOST_STEPS
    reason = f"{TOO_FEW}, {WHOLE}"
    undecided = False

    def bound() -> Bound | None:
        # Under p99 a higher rate than the workload's own may have a larger latency budget; those are not tried.
        certified = instance.slo_rule is not SloRule.P99
        return Bound(too_many * SCALE_STEP, certified, PlanClass.SPATIAL) if too_many < MOST_STEPS else None

    while too_many - fits > 1 and run.remaining_s > 0.0 and not undecided:
        steps = _next(fits, too_many)
        outcome = _decide(instance, steps * SCALE_STEP, run, integer_fraction)
        if outcome.plan is not None:
            best, fits = outcome.plan, steps
            run.report(plan=best)
        elif outcome.status is Status.INFEASIBLE:
            too_many, reason = steps, outcome.reason
            run.report(bound=bound())
        else:
            undecided = True
    decided = too_many - fits == 1
    if best is None:
        status = Status.INFEASIBLE if decided else Status.UNKNOWN
        return Outcome(status, bound=bound(), reason=reason if decided else "no multiple was decided in time")
    return Outcome(Status.OPTIMAL if decided else Status.FEASIBLE, best, bound())


def _next(fits: int, too_many: int) -> int:
    """Return the next multiple in grid steps: doubled from 1 until one is infeasible, then the middle."""
    if too_many == MOST_STEPS:
        return min(max(round(1.0 / SCALE_STEP), 2 * fits), MOST_STEPS - 1)
    return (fits + too_many) // 2


def _decide(instance: Instance, factor: float, run: Run, integer_fraction: float) -> Outcome:
    """Find a plan at ``factor`` times the rates, or prove that none exists."""
    scaled = replace(instance.scaled(factor), name=instance.name, objective=Objective.COST)
    # The cost problem reports dollars, not multiples of the rates, so its run has no listener.
    unheard = alone(run)
    try:
        generation = FitGeneration(scaled, unheard)
    except TimeoutError as late:
        return Outcome(Status.UNKNOWN, reason=str(late))
    return _Fit(generation, integer_fraction).solve()
