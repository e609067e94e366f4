"""Chains of schedulers: the plan that each scheduler starts from, and the outcome of the chain."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from bench.api import Bound, Outcome, Run, Scheduler, Status
from bench.schedulers.chain import RefusedError, run_chain
from instances import Instance, Objective, Plan
from instances.suites import suite

INSTANCE = suite("igniter-3").build()[0]
FIRST, SECOND, THIRD, OLD = (Plan(name, ()) for name in ("first", "second", "third", "old"))
BOUND = Bound(1.0, certified=True)


@dataclass(frozen=True)
class Scripted:
    """Scheduler that passes its start to ``record_start``, reports plans, and returns a given outcome."""

    outcome: Any
    reports: tuple[Plan, ...] = ()
    record_start: Callable[[Plan | None], None] = lambda _: None
    name: ClassVar[str] = "scripted"
    objectives: ClassVar[frozenset[Objective]] = frozenset(Objective)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        self.record_start(run.start)
        for plan in self.reports:
            run.report(plan)
        outcome: Outcome = self.outcome
        return outcome


def run_schedulers(*schedulers: Scheduler, run: Run | None = None, **options: Any) -> Outcome:
    chain = [(f"stage {number}", scheduler) for number, scheduler in enumerate(schedulers)]
    return run_chain(chain, INSTANCE, run or Run(), **options)


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        pytest.param(Scripted(Outcome(Status.FEASIBLE, SECOND)), SECOND, id="the returned plan counts"),
        pytest.param(Scripted(Outcome(Status.UNKNOWN), (SECOND, THIRD)), THIRD, id="else the latest report"),
        pytest.param(Scripted(Outcome(Status.FEASIBLE, SECOND), (THIRD,)), SECOND, id="a returned plan beats reports"),
        pytest.param(Scripted(Outcome(Status.UNKNOWN)), FIRST, id="else the plan of an earlier scheduler"),
        pytest.param(Scripted(Outcome(Status.INFEASIBLE)), FIRST, id="a claim about one class leaves earlier plans"),
        pytest.param(Scripted(Outcome(Status.INFEASIBLE), (SECOND,)), FIRST, id="the claim withdraws its own reports"),
    ],
)
def test_the_plan_of_a_chain(last: Scripted, expected: Plan) -> None:
    outcome = run_schedulers(Scripted(Outcome(Status.FEASIBLE, FIRST)), last)
    assert (outcome.plan, outcome.status) == (expected, last.outcome.status)


def test_the_plan_of_one_scheduler() -> None:
    assert run_schedulers(Scripted(Outcome(Status.UNKNOWN), (FIRST,))).plan is FIRST
    assert run_schedulers(Scripted(Outcome(Status.INFEASIBLE), (FIRST,))).plan is None


def test_a_start_is_handed_over_but_is_no_result() -> None:
    starts: list[Plan | None] = []
    silent = Scripted(Outcome(Status.UNKNOWN), record_start=starts.append)
    assert run_schedulers(silent, silent, run=Run(start=OLD)).plan is None
    assert starts == [OLD, OLD]


def test_each_scheduler_starts_from_the_best_plan_so_far() -> None:
    starts: list[Plan | None] = []
    run_schedulers(
        Scripted(Outcome(Status.UNKNOWN), (FIRST, SECOND), starts.append),
        Scripted(Outcome(Status.INFEASIBLE), (THIRD,), starts.append),
        Scripted(Outcome(Status.UNKNOWN), record_start=starts.append),
        run=Run(start=OLD),
    )
    assert starts == [OLD, SECOND, SECOND]


def test_a_good_enough_plan_ends_the_chain() -> None:
    outcome = run_schedulers(
        Scripted(Outcome(Status.FEASIBLE, FIRST)),
        Scripted(Outcome(Status.OPTIMAL, SECOND)),
        enough=lambda plan: plan is FIRST,
    )
    assert outcome == Outcome(Status.FEASIBLE, FIRST)


def test_the_listener_gets_every_report_and_the_outcomes_of_all_but_the_last() -> None:
    reports: list[tuple[Plan | None, Bound | None]] = []
    run_schedulers(
        Scripted(Outcome(Status.FEASIBLE, SECOND, BOUND), (FIRST,)),
        Scripted(Outcome(Status.OPTIMAL, OLD), (THIRD,)),
        run=Run(listener=lambda plan, bound: reports.append((plan, bound))),
    )
    assert reports == [(FIRST, None), (SECOND, BOUND), (THIRD, None)]


@pytest.mark.parametrize(
    ("outcome", "problem"),
    [
        ("a plan", "stage 0 returned a str; expected an Outcome"),
        (Outcome("optimal", FIRST), "stage 0: status is a str; expected a Status"),  # type: ignore[arg-type]
        (Outcome(Status.OPTIMAL), 'status is "optimal" but there is no plan'),
        (Outcome(Status.FEASIBLE), 'status is "feasible" but there is no plan'),
    ],
)
def test_invalid_outcomes_are_refused(outcome: Any, problem: str) -> None:
    with pytest.raises(RefusedError, match=problem):
        run_schedulers(Scripted(outcome))
