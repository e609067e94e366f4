"""Confirmation of a solver's claims by column generation, whose bounds are certified.

SCIP computes in floating point, and presolve of CP-SAT 9.15 has open bugs that make it claim false optima. Their claims
count only if a certified bound agrees.
"""

from dataclasses import dataclass, replace

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen import ColGen
from instances import Instance, Plan
from instances.costs import next_cost

CONFIRM_S = 10.0
"""Largest time reserved for a confirmation, seconds."""

CONFIRM_PART = 0.25
"""Largest fraction of the remaining time that is reserved for a confirmation."""

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
        Whether column generation proves the claim.
    bound
        Certified bound of column generation, if there is one; a bound on cost is raised to the next sum of GPU prices.
    reason
        Reason why no plan exists, if column generation proves that; empty if it proves a plan optimal; otherwise the
        reason for doubt.
    """

    agrees: bool
    bound: Bound | None
    reason: str


def reserved_s(run: Run) -> float:
    """Return the seconds before the deadline that are reserved for a confirmation."""
    return min(CONFIRM_S, CONFIRM_PART * run.remaining_s)


def confirm(instance: Instance, run: Run, plan: Plan | None, value: float) -> Confirmation:
    """Try to prove in the remaining time that ``plan`` is optimal or, without a plan, that none exists.

    ``value`` is the value of the plan. Column generation starts from the plan, but its own plans are not used.
    """
    # This run reports nothing: only the plans and bounds of the claiming scheduler are reported.
    silent_run = Run(run.deadline, run.seed, run.threads, run.memory_limit_mb, plan)
    if run.work_limit is not None:
        silent_run = replace(silent_run, work_limit=CONFIRM_WORK)
    outcome = ColGen().schedule(instance, silent_run)
    if plan is None:
        if outcome.status is Status.INFEASIBLE:
            return Confirmation(True, None, outcome.reason)
        return _doubtful(outcome, "column generation found a plan")
    bound = outcome.bound
    if bound is None or not bound.certified:
        return _doubtful(outcome, "column generation found no bound in time")
    sign = -1 if instance.objective.minimised else 1
    if instance.objective.minimised:
        bound = replace(bound, value=next_cost(bound.value, instance))
    agrees = sign * value >= sign * bound.value * (1.0 - sign * AGREEMENT)
    doubt = "" if agrees else f"the certified bound of column generation is {bound.value:.6g}"
    return Confirmation(agrees, bound, doubt)


def _doubtful(outcome: Outcome, doubt_with_plan: str) -> Confirmation:
    """Return a doubt: ``doubt_with_plan`` if column generation has a plan, otherwise the reason of its outcome."""
    doubt_without_plan = outcome.reason or "column generation did not finish in time"
    return Confirmation(False, None, doubt_without_plan if outcome.plan is None else doubt_with_plan)
