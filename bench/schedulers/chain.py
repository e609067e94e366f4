"""Chains of schedulers: in ``b@a``, ``b`` starts from the plan of ``a``."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from bench.api import Bound, Outcome, Run, Scheduler, Status
from instances import Instance, Plan

Chain = Sequence[tuple[str, Scheduler]]
"""Schedulers with their names, in the order in which they run."""


class RefusedError(Exception):
    """Error of a scheduler that returned or reported an invalid plan, bound or outcome."""


def run_chain(chain: Chain, instance: Instance, run: Run, enough: Callable[[Plan], bool] = lambda _: False) -> Outcome:
    """Run schedulers in turn, each from the latest plan, and return the outcome of the last one with its plan.

    All schedulers share the limits of ``run``. Its listener also receives the outcomes of all schedulers but the last.
    The returned plan is the plan of the last scheduler. If the last scheduler has none, it is the latest plan that any
    scheduler reported or returned. A claim ``infeasible`` withdraws the reports of the scheduler that makes it, but not
    the plan of an earlier scheduler, which may search another class of plans. ``run.start`` does not count as a result.

    Parameters
    ----------
    enough
        Function that says whether a plan is good enough to leave out the remaining schedulers.

    Raises
    ------
    RefusedError
        If a scheduler returns no outcome, or claims to have a plan but returns none.
    """
    listener = _LatestPlanListener(run)
    plan: Plan | None = None
    for position, (name, scheduler) in enumerate(chain):
        listener.plan = plan
        stage_run = replace(run, start=run.start if plan is None else plan, listener=listener)
        outcome = checked_outcome(scheduler.schedule(instance, stage_run), name)
        plan = outcome.plan or (plan if outcome.status is Status.INFEASIBLE else listener.plan)
        if position + 1 == len(chain):
            break
        run.report(outcome.plan, outcome.bound)
        if plan is not None and enough(plan):
            break
    if plan is None and outcome.status in (Status.OPTIMAL, Status.FEASIBLE):
        raise RefusedError(f'status is "{outcome.status}" but there is no plan')
    return replace(outcome, plan=plan)


class _LatestPlanListener:
    """Listener that stores the latest plan and forwards every report."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.plan: Plan | None = None

    def __call__(self, plan: Plan | None, bound: Bound | None) -> None:
        self._run.report(plan, bound)
        self.plan = plan or self.plan


def checked_outcome(outcome: object, name: str) -> Outcome:
    """Return the outcome of the scheduler ``name``.

    Raises
    ------
    RefusedError
        If ``outcome`` is not an ``Outcome``, or its status is not a ``Status``.
    """
    if not isinstance(outcome, Outcome):
        raise RefusedError(f"{name} returned a {type(outcome).__name__}; expected an Outcome")
    if not isinstance(outcome.status, Status):
        raise RefusedError(f"{name}: status is a {type(outcome.status).__name__}; expected a Status")
    return outcome
