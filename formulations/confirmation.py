"""Confirmation of a solver's claim by column generation, whose bounds are certified.

A solver of nonlinear models computes in floating point, so its claims are not proofs. ``minlp`` repeats SCIP's claim
that a plan is optimal, or that none exists, only if column generation confirms it.
"""

from dataclasses import dataclass, replace

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen import ColGen
from instances import Instance, Plan
from instances.costs import next_cost

AGREEMENT = 1e-9
"""Relative difference below which a value and a bound count as equal."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Result of checking one claim by column generation, with the certified bound if there is one.

    Attributes
    ----------
    reason
        Why the instance is infeasible, or why the claim is not confirmed; empty for a confirmed plan.
    """

    confirmed: bool
    bound: Bound | None
    reason: str = ""


def confirm_optimal(instance: Instance, plan: Plan, value: float, run: Run) -> Confirmation:
    """Check until the deadline of ``run`` whether no plan is better than ``plan``, whose value is ``value``."""
    answer = _column_generation(instance, run, plan)
    bound = answer.bound
    if bound is None or not bound.certified:
        return Confirmation(False, None, answer.reason or "column generation found no bound in time")
    if instance.objective.minimised:
        bound = replace(bound, value=next_cost(bound.value, instance))
        reached = value <= bound.value * (1.0 + AGREEMENT)
    else:
        reached = value >= bound.value * (1.0 - AGREEMENT)
    if reached:
        return Confirmation(True, bound)
    return Confirmation(False, bound, f"the certified bound of column generation is {bound.value:.6g}")


def confirm_infeasible(instance: Instance, run: Run) -> Confirmation:
    """Check until the deadline of ``run`` whether no plan exists."""
    answer = _column_generation(instance, run, None)
    if answer.status is Status.INFEASIBLE:
        return Confirmation(True, None, answer.reason)
    if answer.plan is not None:
        return Confirmation(False, None, "column generation found a plan")
    return Confirmation(False, None, answer.reason or "column generation did not finish in time")


def _column_generation(instance: Instance, run: Run, start: Plan | None) -> Outcome:
    # A run without a listener: the caller reports only its own plans and bounds.
    quiet = Run(run.deadline, run.seed, run.threads, run.memory_limit_mb, start)
    return ColGen().schedule(instance, quiet)
