"""Relations between the results of two related instances: a change that can only help never makes a result worse.

They are tested without knowing the right values. Proven optima, bounds and the judge must satisfy them; local search
and heuristics need not. docs/metrics.md lists relations that do not hold.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from bench.api import Bound, Outcome, Run, Scheduler, Status
from bench.holding.check import holding
from bench.judging.judge import judge
from bench.plan_simulation import finished
from bench.simulation.arrivals import Arrivals
from formulations.colgen import ColGen
from formulations.colgen.scheduler import SearchedClass
from formulations.colgen.temporal.generation import TemporalGeneration
from formulations.cpsat import CpSat
from formulations.mig import Mig
from instances import Objective, Partition, SloRule
from tests.relations.changes import EQUAL, HELPFUL, ON_ALL_GPUS, Change, Changed, other_currency
from tests.relations.drawn import Case, cases, cases_of_mig_instances, cases_of_services

ROUNDING = 1e-8
"""Relative allowance for rounding of values and bounds."""

PAIRS, MANY_PAIRS = 4, 150
"""Number of pairs for each change: in an ordinary run of the tests, and in the soak test."""

HELD = 3
"""Number of plans that are tested in the simulator in an ordinary run of the tests."""

STANDARD_ERRORS = 6.0
"""Distance below the target, in standard errors, from which a workload counts as late."""

LIMIT_S = 20.0
"""Time limit of a scheduler."""


@dataclass(frozen=True)
class Solved:
    """Outcome of a case, with the judge's value of its plan and its certified bound.

    If the objective is minimised, value and bound are negated, so that larger is better.
    """

    case: Case
    outcome: Outcome
    value: float | None
    bound: float | None

    @property
    def minimised(self) -> bool:
        return self.case.instance.objective.minimised


def solve(case: Case, scheduler: Scheduler) -> Solved:
    """Solve a case, and check that its plan, bound and status do not contradict each other."""
    run = Run(deadline=time.monotonic() + LIMIT_S, work_limit=400_000)
    outcome = scheduler.schedule(case.instance, run)
    sign = -1.0 if case.instance.objective.minimised else 1.0
    value = None
    if outcome.plan is not None:
        verdict = judge(outcome.plan, case.instance)
        assert verdict.violations == (), verdict.violations
        value = sign * verdict.value
    bound = outcome.bound
    certified = bound.value if isinstance(bound, Bound) and bound.certified else None
    solved = Solved(case, outcome, value, None if certified is None else sign * certified)
    assert not_beaten(solved, value, 1.0)
    if outcome.status is Status.OPTIMAL and case.instance.objective is not Objective.SCALE:
        assert value is not None
        assert solved.bound is not None
        proof_tolerance = 1e-6 if case.plan_class is SearchedClass.SPATIAL else TemporalGeneration.proof_tolerance
        assert abs(solved.bound - value) <= proof_tolerance * abs(value) or case.instance.objective is Objective.COST
    return solved


def not_beaten(solved: Solved, value: float | None, factor: float) -> bool:
    """Return whether the status and the bound of a solved case permit a plan of value ``factor * value``."""
    if value is None:
        return True
    if solved.outcome.status is Status.INFEASIBLE:
        return False
    return solved.bound is None or factor * value <= solved.bound + ROUNDING * abs(solved.bound)


def scheduler_of(case: Case, exact: bool) -> Scheduler:
    """Return ``mig`` for MIG instances, ``cpsat`` for spatial plans if ``exact``, and otherwise ``colgen``."""
    if case.instance.partition is Partition.MIG:
        return Mig()
    if exact and case.plan_class is SearchedClass.SPATIAL:
        return CpSat()
    return ColGen(plan_class=case.plan_class)


def check(before: Case, changed: Changed, exact: bool) -> tuple[Solved, Solved]:
    """Check that the change makes the result no worse, and return both cases solved."""
    note(f"before: {before}")
    note(f"after: {changed.case}")
    first = solve(before, scheduler_of(before, exact))
    if first.outcome.plan is not None and changed.plan is not None:
        same_plan = changed.plan(first.outcome.plan)
        verdict = judge(same_plan, changed.case.instance)
        assert verdict.violations == (), verdict.violations
    second = solve(changed.case, scheduler_of(changed.case, exact))
    assert not_beaten(second, first.value, changed.factor), (first.value, second.outcome)
    return first, second


few = settings(max_examples=PAIRS, suppress_health_check=list(HealthCheck))
many = settings(max_examples=MANY_PAIRS, suppress_health_check=list(HealthCheck))
drawn = given(case=cases(), size=st.floats(0.0, 1.0), exact=st.booleans())
helpful = pytest.mark.parametrize("change", HELPFUL, ids=lambda change: change.__name__)
equal = pytest.mark.parametrize("change", EQUAL, ids=lambda change: change.__name__)


@helpful
@few
@drawn
def test_a_change_that_can_only_help_makes_nothing_worse(change: Change, case: Case, size: float, exact: bool) -> None:
    nothing_worse(change, case, size, exact)


@pytest.mark.soak
@helpful
@many
@drawn
def test_many_changes_that_can_only_help_make_nothing_worse(
    change: Change, case: Case, size: float, exact: bool
) -> None:
    nothing_worse(change, case, size, exact)


def nothing_worse(change: Change, case: Case, size: float, exact: bool) -> None:
    changed = change(case, size)
    assume(changed is not None)
    assert changed is not None
    check(case, changed, exact)


@equal
@few
@drawn
def test_another_order_or_unit_scales_every_value(change: Change, case: Case, size: float, exact: bool) -> None:
    values_scale(change, case, size, exact)


@pytest.mark.soak
@equal
@many
@drawn
def test_many_other_orders_and_units_scale_every_value(change: Change, case: Case, size: float, exact: bool) -> None:
    values_scale(change, case, size, exact)


def values_scale(change: Change, case: Case, size: float, exact: bool) -> None:
    """Check that the values before and after the change differ by its factor."""
    changed = change(case, size)
    assume(changed is not None)
    assert changed is not None
    first, after = check(case, changed, exact)
    assert not_beaten(first, after.value, 1.0 / changed.factor)
    if first.outcome.status is after.outcome.status is Status.OPTIMAL:
        assert first.value is not None
        assert after.value == pytest.approx(first.value * changed.factor, rel=1e-6)


of_services = pytest.mark.parametrize("drawn_cases", [cases_of_services, cases_of_mig_instances])
on_all_gpus = pytest.mark.parametrize("change", [*ON_ALL_GPUS, other_currency], ids=lambda change: change.__name__)


@on_all_gpus
@of_services
@settings(few, max_examples=PAIRS // 2)
@given(data=st.data(), size=st.floats(0.0, 1.0), exact=st.booleans())
def test_relations_of_services_and_of_mig_instances(
    change: Change, drawn_cases: Callable[[], st.SearchStrategy[Case]], data: st.DataObject, size: float, exact: bool
) -> None:
    nothing_worse(change, data.draw(drawn_cases()), size, exact)


@pytest.mark.soak
@on_all_gpus
@of_services
@many
@given(data=st.data(), size=st.floats(0.0, 1.0), exact=st.booleans())
def test_many_relations_of_services_and_of_mig_instances(
    change: Change, drawn_cases: Callable[[], st.SearchStrategy[Case]], data: st.DataObject, size: float, exact: bool
) -> None:
    nothing_worse(change, data.draw(drawn_cases()), size, exact)


@few
@given(case=cases(), exact=st.booleans())
def test_a_run_that_starts_from_an_optimum_keeps_it(case: Case, exact: bool) -> None:
    optimum_is_kept(case, exact)


@pytest.mark.soak
@many
@given(case=cases(), exact=st.booleans())
def test_many_runs_that_start_from_an_optimum_keep_it(case: Case, exact: bool) -> None:
    optimum_is_kept(case, exact)


def optimum_is_kept(case: Case, exact: bool) -> None:
    scheduler = scheduler_of(case, exact)
    first = solve(case, scheduler)
    assume(first.outcome.status is Status.OPTIMAL)
    run = Run(deadline=time.monotonic() + LIMIT_S, work_limit=400_000, start=first.outcome.plan)
    again = scheduler.schedule(case.instance, run)
    assert again.plan is not None
    assert first.value is not None
    assert judge(again.plan, case.instance).value == pytest.approx(abs(first.value), rel=1e-6)


@settings(few, max_examples=HELD)
@given(case=cases((SloRule.ATTAINMENT,)), exact=st.booleans())
def test_a_plan_under_attainment_holds_in_the_simulator(case: Case, exact: bool) -> None:
    holds(case, exact)


@pytest.mark.soak
@many
@given(case=cases((SloRule.ATTAINMENT,)), exact=st.booleans())
def test_many_plans_under_attainment_hold_in_the_simulator(case: Case, exact: bool) -> None:
    holds(case, exact)


def holds(case: Case, exact: bool) -> None:
    """Check that no workload of the plan is clearly late in the simulator.

    A workload that just meets the target is called late in 5 % of the tests, so only a large distance counts.
    """
    plan = solve(case, scheduler_of(case, exact)).outcome.plan
    assume(plan is not None)
    assert plan is not None
    result = finished(holding(plan, case.instance, Arrivals()))
    note(f"{case}: {result}")
    assert result.dropping == case.instance.dropping
    for late in result.late:
        assert late.load is None
        assert late.attainment >= result.target - STANDARD_ERRORS * late.standard_error
