"""Second proofs of CP-SAT's claims, by column generation or by a search without presolve."""

from bench.api import Bound, Outcome, Status
from formulations.confirmation import confirm
from formulations.cpsat.assignment import Assignment
from formulations.cpsat.progress import CpSatProgress, solver_deadline
from formulations.cpsat.solving import solve
from formulations.problem import IN_PARTS, TOO_FEW, WHOLE


def confirmed(progress: CpSatProgress, model: Assignment) -> Outcome:
    """Return the outcome of a search that CP-SAT finished; a proof by CP-SAT counts only if a second proof confirms it.

    If the best bound on an incumbent is certified already, no second proof is needed. Otherwise the first choice is
    column generation, which needs milliseconds for most instances that CP-SAT finishes. If it does not agree in time,
    CP-SAT must prove without presolve that no plan, or no better plan than the incumbent, exists.
    """
    infeasible = progress.plan is None
    if progress.bound is not None and progress.bound == progress.certified_bound and not infeasible:
        return progress.outcome()
    instance, run = progress.problem.instance, progress.run
    value = 0.0 if infeasible else progress.value()
    confirmation = confirm(instance, run, progress.plan, value)
    agrees = confirmation.agrees and (infeasible or _same_plans(confirmation.bound, progress.best_bound()))
    if not agrees and not _excluded_without_presolve(progress, model):
        return progress.outcome(f"CP-SAT's proof is not confirmed: {confirmation.reason or 'it covers other plans'}")
    if infeasible:
        reason = f"{TOO_FEW}, {IN_PARTS if progress.problem.split else WHOLE}"
        return Outcome(Status.INFEASIBLE, statistics=progress.statistics, reason=reason)
    progress.improve_bound(progress.worth, certified=True)
    return progress.outcome()


def _same_plans(bound: Bound | None, other: Bound | None) -> bool:
    """Return whether two bounds are about the same plans."""
    if bound is None or other is None:
        return False
    return (bound.plan_class, bound.split_workloads) == (other.plan_class, other.split_workloads)


def _excluded_without_presolve(progress: CpSatProgress, model: Assignment) -> bool:
    """Return whether CP-SAT proves without presolve that the model has no plan, or none better than the incumbent."""
    if progress.plan is not None:
        model.require_better(progress.worth)
    model.deadline = solver_deadline(progress.run)
    plans = 0

    def accept(patterns: object) -> None:
        nonlocal plans
        plans += 1

    finished = solve(model, progress.run, accept, lambda _: None, progress.statistics, presolve=False)
    return finished and plans == 0
