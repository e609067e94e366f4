"""Confirmation of a solver's claims by column generation, whose bounds are certified.

SCIP computes in floating point, and presolve of CP-SAT 9.15 has open bugs that make it claim false optima. Their claims
count only if a certified bound agrees.
"""

from dataclasses import dataclass, replace

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen import ColGen
from instances import Instance, Plan
from instances.costs import next_cost

CONFIRM_S, CONFIRM_PART = 10.0, 0.25
"""Time reserved for a confirmation: seconds, and the largest fraction of the remaining time."""

CONFIRM_WORK = 1_000_000
"""Work limit of a confirmation, in nodes of column generation, if the run has a work limit."""

AGREEMENT = 1e-9
"""Relative difference below which a value and a bound count as equal."""


@dataclass(frozen=True, slots=True)
class Confirmation:
    """Answer of column generation to a claim.

    Attributes
    ----------
    agrees
        Whether it proves the claim.
    bound
        Its certified bound, if there is one; a bound on cost is raised to the next sum of GPU prices.
    reason
        Why no plan exists, if that is the claim and is proven; otherwise the doubt about the claim.
    """

    agrees: bool
    bound: Bound | None
    reason: str


def reserved_s(run: Run) -> float:
    """Return the seconds before the deadline that a confirmation needs."""
    return min(CONFIRM_S, CONFIRM_PART * run.remaining_s)


def confirm(instance: Instance, run: Run, plan: Plan | None, value: float) -> Confirmation:
    """Try to prove in the remaining time that ``plan`` of this value is optimal or, without a plan, that none exists.

    The plan is only a start for column generation; no plan is taken from it.
    """
    # A run without a listener: only the plans and bounds of the claiming scheduler are reported.
    quiet = Run(run.deadline, run.seed, run.threads, run.memory_limit_mb, plan)
    if run.work_limit is not None:
        quiet = replace(quiet, work_limit=CONFIRM_WORK)
    answer = ColGen().schedule(instance, quiet)
    if plan is None:
        if answer.status is Status.INFEASIBLE:
            return Confirmation(True, None, answer.reason)
        return _doubtful(answer, "column generation found a plan")
    bound = answer.bound
    if bound is None or not bound.certified:
        return _doubtful(answer, "column generation found no bound in time")
    sense = -1 if instance.objective.minimised else 1
    if instance.objective.minimised:
        bound = replace(bound, value=next_cost(bound.value, instance))
    reached = sense * value >= sense * bound.value * (1.0 - sense * AGREEMENT)
    doubt = "" if reached else f"the certified bound of column generation is {bound.value:.6g}"
    return Confirmation(reached, bound, doubt)


def _doubtful(answer: Outcome, with_plan: str) -> Confirmation:
    """Return a doubt: ``with_plan`` if column generation has a plan, otherwise its own reason."""
    without_plan = answer.reason or "column generation did not finish in time"
    return Confirmation(False, None, without_plan if answer.plan is None else with_plan)
