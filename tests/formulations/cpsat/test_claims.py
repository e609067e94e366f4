"""``cpsat`` claims only what is proven without CP-SAT's presolve, whose open bugs lose feasible solutions."""

import math
import time
from typing import Any

import pytest
from ortools.sat.python import cp_model

from bench.api import Bound, Run, Status
from bench.doctor.cp_sat import BEST, lossy_model
from formulations.confirmation import Confirmation
from formulations.cpsat import CpSat, claims, scale, search
from formulations.cpsat.assignment import Assignment
from formulations.cpsat.search import _problem
from formulations.cpsat.solving import solver_of
from instances import GpuPool, Instance, Objective, SloRule, Workload
from instances.dominance import why_not_exact
from instances.library import LIBRARY
from instances.view import View
from tests.formulations import exhaustive
from tests.formulations.cpsat.tiny import V100, draw, instance_of, solve, value, without_shortcuts

LARGEST = 2**31
"""Sum that a row must stay below, because some code in CP-SAT's presolve computes in 32 bits."""


def finished_with_presolve(*_: Any, presolve: bool = True, **__: Any) -> bool:
    """Replace ``solve``: claim, only with presolve, to have finished without a plan."""
    return presolve


def unconfirmed(*_: Any) -> Confirmation:
    """Replace ``confirm``: column generation that has no time."""
    return Confirmation(False, None, "column generation did not finish in time")


def servable() -> Instance:
    """Return an instance on which some plan serves more than the empty plan, with which the search starts."""
    for seed in range(60):
        instance = draw(seed, Objective.GOODPUT)
        best = exhaustive.most_goodput(instance)
        if best > 0.0:
            return instance
    raise AssertionError


def test_a_false_optimum_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    without_shortcuts(monkeypatch)
    monkeypatch.setattr(search, "solve", lambda *_, **__: True)
    instance = servable()

    outcome = solve(instance)

    assert outcome.status is Status.FEASIBLE
    assert value(outcome.plan, instance) < exhaustive.most_goodput(instance)
    assert outcome.reason.startswith("CP-SAT's proof is not confirmed: the certified bound of column generation is")
    assert outcome.bound is None or not outcome.bound.certified


def test_a_search_without_presolve_refutes_a_false_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    without_shortcuts(monkeypatch)
    monkeypatch.setattr(search, "solve", lambda *_, **__: True)
    monkeypatch.setattr(claims, "confirm", unconfirmed)

    outcome = solve(servable())

    assert outcome.status is Status.FEASIBLE
    assert outcome.reason == "CP-SAT's proof is not confirmed: column generation did not finish in time"


@pytest.mark.parametrize("objective", [Objective.COST, Objective.GOODPUT])
def test_a_search_without_presolve_confirms_true_claims(objective: Objective, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "confirm", unconfirmed)
    without_shortcuts(monkeypatch)
    for seed in range(6):
        instance = draw(seed, objective)
        best = (exhaustive.least_cost if objective is Objective.COST else exhaustive.most_goodput)(instance)

        outcome = solve(instance)

        if best is None:
            assert outcome.status is Status.INFEASIBLE
        else:
            assert outcome.status is Status.OPTIMAL
            plan_value = value(outcome.plan, instance)
            assert plan_value == pytest.approx(best, abs=1e-9)
            assert outcome.bound == Bound(plan_value, certified=True)


def test_false_infeasibility_is_not_claimed(monkeypatch: pytest.MonkeyPatch) -> None:
    without_shortcuts(monkeypatch)
    monkeypatch.setattr(search, "solve", lambda *_, **__: True)
    drawn = (draw(seed, Objective.COST) for seed in range(60))
    instance = next(instance for instance in drawn if exhaustive.least_cost(instance))

    outcome = solve(instance)

    assert outcome.status is Status.UNKNOWN
    assert outcome.plan is None
    assert outcome.reason == "CP-SAT's proof is not confirmed: column generation found a plan"


def test_a_false_bound_on_the_scale_is_not_certified(monkeypatch: pytest.MonkeyPatch) -> None:
    without_shortcuts(monkeypatch)
    monkeypatch.setattr(scale, "solve", finished_with_presolve)
    workload = Workload("w", "alexnet", 20.0, 100.0)
    instance = instance_of((workload,), GpuPool(V100, 1), objective=Objective.SCALE, slo_rule=SloRule.HALF_SLO)

    outcome = solve(instance)

    assert outcome.status is Status.UNKNOWN
    assert outcome.reason.startswith("CP-SAT's proof is not confirmed")
    assert outcome.bound is not None
    assert not outcome.bound.certified


def test_the_presolve_rule_that_loses_solutions_is_off() -> None:
    solver = solver_of(Run())
    assert solver.solve(lossy_model()) == cp_model.OPTIMAL
    assert solver.objective_value == BEST


def models() -> list[tuple[str, cp_model.CpModel]]:
    """Return the names and assignment models of the first thirty small library entries that have one."""
    named_models = []
    for name in LIBRARY.names():
        instance = LIBRARY.instance(name)
        modelled = instance.objective in CpSat.objectives - {Objective.CAPACITY} and not instance.slo_rule.by_share
        exact = not any(why_not_exact(View.of(instance, pool.type).tables) for pool in instance.gpus)
        if not (modelled and exact) or len(instance.workloads) > 12 or instance.services:
            continue
        problem = _problem(instance)
        counts = [min(offer.count, len(instance.workloads)) for offer in problem.offers]
        named_models.append((name, Assignment(problem, counts, 1000, math.inf).model))
        if len(named_models) == 30:
            break
    return named_models


@pytest.mark.soak
def test_no_row_of_thirty_library_entries_reaches_32_bits() -> None:
    measured = models()
    assert len(measured) == 30
    largest = 0
    for name, model in measured:
        proto = model.proto
        largest_of = [max(map(abs, list(variable.domain))) for variable in proto.variables]
        for row in proto.constraints:
            if not row.has_linear():
                continue
            linear = row.linear
            terms = zip(list(linear.vars), list(linear.coeffs), strict=True)
            reach = sum(abs(a) * largest_of[v] for v, a in terms)
            limits = [abs(limit) for limit in list(linear.domain) if abs(limit) < 2**62]
            assert reach + max(limits, default=0) < LARGEST, name
            largest = max(largest, reach)
    assert largest > LARGEST // 100  # the rows are as fine as 32 bits permit


def test_time_is_left_for_the_confirmation(monkeypatch: pytest.MonkeyPatch) -> None:
    times_left_s: list[float] = []

    def record(instance: Instance, run: Run, *_: Any) -> Confirmation:
        times_left_s.append(run.deadline - time.monotonic())
        return Confirmation(False, None, "no")

    monkeypatch.setattr(claims, "confirm", record)
    without_shortcuts(monkeypatch)
    solve(draw(0, Objective.COST), deadline=time.monotonic() + 4.0)

    assert times_left_s
    assert min(times_left_s) > 0.5
