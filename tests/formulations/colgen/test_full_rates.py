"""Plans at full rates: proof where the pool serves everything, and a plan where lower rates take too long."""

import math
import time
from dataclasses import replace

import pytest

from bench.api import Run, Status
from bench.certificate.checking import check
from bench.certificate.proving import certificate
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.full_rates import packed_at_full_rates, serves_everything
from formulations.colgen.spatial import boxes
from instances import Objective, SloRule
from instances.generate import generate
from instances.pool_mix import pool_mix
from tests.bench.certificate.drawn import nodes_of


def test_a_pool_that_serves_everything_is_proven_without_pricing() -> None:
    instance = generate("igniter-mix", 10, 0, Objective.GOODPUT, gpus=8)

    outcome = ColGen().schedule(instance, Run())

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert judge(outcome.plan, instance).value == pytest.approx(math.fsum(w.rate_rps for w in instance.workloads))
    assert "iterations" not in outcome.statistics
    assert check(certificate(instance, outcome.plan, nodes_of(outcome), outcome.bound.value), "proof").proven


@pytest.mark.parametrize("rule", [SloRule.HALF_SLO, SloRule.ATTAINMENT])
def test_plans_at_full_rates_are_feasible_and_serve_a_workload_wholly_or_not_at_all(rule: SloRule) -> None:
    instance = pool_mix(12, 3, "v100:1,t4:1", objective=Objective.GOODPUT, slo_rule=rule)

    plan = packed_at_full_rates(instance, Run(deadline=time.monotonic() + 20.0))

    assert plan is not None
    assert judge(plan, instance).feasible
    served = {slot.workload: slot.rate_rps for _, _, slot in plan.slots()}
    assert served
    assert all(instance.workloads[instance.workload_index[name]].rate_rps == rps for name, rps in served.items())
    assert not serves_everything(instance, plan)


def test_if_lower_rates_take_too_long_there_is_still_a_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boxes, "LATE_S", -1e9)
    instance = pool_mix(6, 3, "v100:1", objective=Objective.GOODPUT, slo_rule=SloRule.ATTAINMENT)

    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() + 60.0))

    assert (outcome.status, outcome.reason) == (Status.FEASIBLE, "the time was over before pricing began")
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert 0.0 < judge(outcome.plan, instance).value <= outcome.bound.value


@pytest.mark.parametrize("seed", range(3))
def test_under_cost_a_first_plan_comes_before_the_budgets_of_all_batches(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boxes, "LATE_S", -1e9)
    instance = pool_mix(12, seed, "v100,t4", objective=Objective.COST, slo_rule=SloRule.ATTAINMENT)

    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() + 60.0))

    assert (outcome.status, outcome.reason) == (Status.FEASIBLE, "the time was over before pricing began")
    assert outcome.plan is not None
    assert judge(outcome.plan, instance).feasible


@pytest.mark.parametrize("pool", ["v100,t4", "v100:3,t4:4"])
def test_the_least_shares_bound_the_cost_before_any_budget(pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is certified, is not above the optimum, and is reported before the first plan."""
    instance = pool_mix(6, 2, pool, objective=Objective.COST, slo_rule=SloRule.ATTAINMENT)
    optimum = ColGen().schedule(instance, Run(deadline=time.monotonic() + 60.0))
    assert optimum.status is Status.OPTIMAL
    monkeypatch.setattr(boxes, "LATE_S", -1e9)
    reports: list[tuple[bool, bool]] = []
    first_run = Run(
        deadline=time.monotonic() + 60.0, listener=lambda plan, bound: reports.append((bool(plan), bool(bound)))
    )

    outcome = ColGen().schedule(instance, first_run)

    assert reports[:2] == [(False, True), (True, False)]
    assert outcome.bound is not None
    assert optimum.plan is not None
    assert 0.0 < outcome.bound.value <= judge(optimum.plan, instance).value
    assert check(certificate(instance, outcome.plan, nodes_of(outcome), outcome.bound.value), "proof").proven


def test_under_cost_there_is_no_first_plan_without_a_workload() -> None:
    instance = pool_mix(12, 3, "v100:1", objective=Objective.COST, slo_rule=SloRule.ATTAINMENT)
    again = (replace(workload, id=f"{workload.id}-again") for workload in instance.workloads)
    crowded = replace(instance, workloads=(*instance.workloads, *again))

    assert packed_at_full_rates(crowded, Run()) is None
