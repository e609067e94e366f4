"""Confirmation of a claim by column generation, whose bounds are certified.

A solver of nonlinear models works in floating point and proves nothing. What it says about optimality or infeasibility
becomes a claim of this suite only where a certified bound says the same.
"""

from dataclasses import dataclass, replace

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen import ColGen
from instances import Instance, Plan
from instances.costs import next_cost

AGREEMENT = 1e-9
"""Relative difference at which a value and a bound are the same."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """The answer of column generation to one claim.

    Attributes
    ----------
    confirmed
        Whether the claim holds.
    bound
        The certified bound, if there is one.
    reason
        Why the instance is infeasible, or why the claim is not confirmed; empty for a confirmed plan.
    """

    confirmed: bool
    bound: Bound | None
    reason: str = ""


def confirm_optimal(instance: Instance, plan: Plan, value: float, run: Run) -> Confirmation:
    """Try to confirm that no plan is better than ``plan``, which is worth ``value``, until the deadline of ``run``."""
    answer = _column_generation(instance, run, plan)
    bound = answer.bound
    if bound is None or not bound.certified:
        return Confirmation(False, None, answer.reason or "column generation has no bound in time")
    if instance.objective.minimised:
        bound = replace(bound, value=next_cost(bound.value, instance))
        reached = value <= bound.value * (1.0 + AGREEMENT)
    else:
        reached = value >= bound.value * (1.0 - AGREEMENT)
    if reached:
        return Confirmation(True, bound)
    return Confirmation(False, bound, f"the certified bound of column generation is {bound.value:.6g}")


def confirm_infeasible(instance: Instance, run: Run) -> Confirmation:
    """Try to confirm that no plan exists, until the deadline of ``run``."""
    answer = _column_generation(instance, run, None)
    if answer.status is Status.INFEASIBLE:
        return Confirmation(True, None, answer.reason)
    if answer.plan is not None:
        return Confirmation(False, None, "column generation has a plan")
    return Confirmation(False, None, answer.reason or "column generation does not end in time")


def _column_generation(instance: Instance, run: Run, start: Plan | None) -> Outcome:
    # Its own plans and bounds are not reported: they are not what the caller found.
    quiet = Run(run.deadline, run.seed, run.threads, run.memory_limit_mb, start)
    return ColGen().schedule(instance, quiet)
