"""``scale``: the largest multiple of all rates that fits on the pool, by bisection over a grid of multiples."""

import math
from dataclasses import replace

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.solution import Solution
from instances import Instance, Objective, Plan, PlanClass

SCALE_STEP = 0.005
"""Multiples are whole numbers of this; what holds at one holds at every smaller one, by the same plan."""

MOST_STEPS = 200_000


class _Fit(Solution):
    """A cost problem of which only the question matters whether it has a plan at all."""

    def proven(self) -> bool:
        """Whether the question is answered."""
        return self.plan is not None or self.impossible()

    def bound_suffices(self) -> bool:
        """Whether the question is answered, or the bound as good as it gets."""
        return self.proven() or super().bound_suffices()

    def impossible(self) -> bool:
        """Whether the bound exceeds what the whole pool costs."""
        whole = math.fsum(pool.type.price_per_hour * (pool.count or 0) for pool in self.instance.gpus)
        return self.generation.bound > whole * (1.0 + 1e-9)


def largest_scale(instance: Instance, run: Run, integer_fraction: float) -> Outcome:
    """Bisect the multiples of the rates; each is decided by a bounded cost problem.

    Parameters
    ----------
    instance
        Objective ``scale``, every pool of known size.
    run
        Its terms.
    integer_fraction
        See ``ColGen``.
    """
    if any(pool.count is None for pool in instance.gpus):
        return Outcome(Status.UNKNOWN, reason="scale needs a pool with a number of GPUs")
    best: Plan | None = None
    fits, too_many = 0, MOST_STEPS
    undecided = False

    def report(steps: int) -> Bound:
        return Bound(steps * SCALE_STEP, True, PlanClass.SPATIAL)

    while too_many - fits > 1 and run.remaining_s > 0.0 and not undecided:
        steps = _next(fits, too_many)
        plan, impossible = _decide(instance, steps * SCALE_STEP, run, integer_fraction)
        if plan is not None:
            best, fits = plan, steps
            run.report(plan=best)
        elif impossible:
            too_many = steps
            run.report(bound=report(too_many - 1))
        else:
            undecided = True
    bound = report(too_many - 1) if too_many < MOST_STEPS else None
    if best is None:
        return Outcome(Status.UNKNOWN, bound=bound, reason="" if run.remaining_s else "time was up")
    return Outcome(Status.OPTIMAL if too_many - fits == 1 else Status.FEASIBLE, best, bound)


def _next(fits: int, too_many: int) -> int:
    """Double from 1 until something is too much, then halve."""
    if too_many == MOST_STEPS:
        return min(max(round(1.0 / SCALE_STEP), 2 * fits), MOST_STEPS - 1)
    return (fits + too_many) // 2


def _decide(instance: Instance, factor: float, run: Run, integer_fraction: float) -> tuple[Plan | None, bool]:
    """Look for a plan at ``factor`` times the rates; the plan, and whether there is proof that none exists."""
    scaled = replace(instance.scaled(factor), name=instance.name, objective=Objective.COST)
    # What the cost problem reports is in dollars, nobody's objective here: its listener is left out.
    alone = Run(run.deadline, run.seed, run.threads, run.memory_limit_mb)
    fit = _Fit(scaled, alone, integer_fraction)
    outcome = fit.solve()
    return outcome.plan, outcome.status is Status.INFEASIBLE or fit.impossible()
