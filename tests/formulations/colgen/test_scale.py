"""``colgen`` under ``scale``: agreement with brute force, and plans at higher rates than the scaled ones."""

import time
from dataclasses import replace

import pytest

from bench.api import Outcome, Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from instances import SCALE_STEP, GpuPool, Instance, Objective, Plan, SloRule, Workload
from instances.generate import generate
from instances.library import LIBRARY
from tests.formulations import exhaustive
from tests.formulations.colgen.coarse import COARSE, V100
from tests.instances.reference import TOY


def solve(instance: Instance, limit_s: float = 60.0) -> Outcome:
    return ColGen().schedule(instance, Run(deadline=time.monotonic() + limit_s))


def alone(workload: Workload, pool: GpuPool, slo_rule: SloRule) -> Instance:
    return Instance("alone", Objective.SCALE, slo_rule, "igniter", (pool,), (workload,))


@pytest.mark.parametrize("seed", range(8))
def test_the_largest_scale_is_that_of_brute_force(seed: int) -> None:
    pool = GpuPool(COARSE, 1 + seed % 2)
    instance = replace(generate("igniter-mix", 3, seed, Objective.SCALE, gpus=2), gpus=(pool,))
    optimum = exhaustive.largest_scale(instance, SCALE_STEP)

    outcome = solve(instance)

    if optimum is None:
        assert outcome.status is Status.INFEASIBLE
        return
    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert judge(outcome.plan, instance).value == pytest.approx(optimum, abs=1e-9)
    assert outcome.bound.value == pytest.approx(optimum + SCALE_STEP, abs=1e-9)

    plans: list[Plan] = []
    again = Run(
        deadline=time.monotonic() + 60.0,
        start=outcome.plan,
        listener=lambda plan, bound: plans.extend(() if plan is None else (plan,)),
    )
    assert ColGen().schedule(instance, again).status is Status.OPTIMAL
    assert judge(plans[0], instance).value == pytest.approx(optimum, abs=1e-9)  # the start comes first


def test_under_assembly_a_scale_may_need_higher_rates_than_its_own() -> None:
    """On a whole GPU, batch 1 serves up to 162 req/s. Batch 2 fills in time from 218 req/s on, and serves up to 224."""
    instance = alone(Workload("w", "ssd", 13.5, 100.0), GpuPool(V100, 1), SloRule.ASSEMBLY)
    exact = [
        step
        for step in range(1, 1000)
        if any(exhaustive.fitting_batches(instance.scaled(step * SCALE_STEP), V100, (0,)))
    ]
    assert round(2.0 / SCALE_STEP) not in exact  # a scale of 2 is 200 req/s: too many for batch 1, too few for batch 2

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert outcome.bound.value == pytest.approx((max(exact) + 1) * SCALE_STEP)
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value is not None
    assert verdict.value >= max(exact) * SCALE_STEP - 1e-9


def test_a_p99_bound_is_not_certified() -> None:
    """Under ``p99`` a higher rate may be feasible where a lower one is not, but only the scaled rates are tried."""
    gpu = exhaustive.small_batches(TOY, 2)

    outcome = solve(alone(Workload("w", "large", 60.0, 20.0), GpuPool(gpu, 1), SloRule.P99))

    assert outcome.bound is not None
    assert not outcome.bound.certified


def test_an_instance_without_workloads_is_optimal() -> None:
    instance = replace(alone(Workload("w", "ssd", 20.0, 10.0), GpuPool(V100, 1), SloRule.HALF_SLO), workloads=())

    assert solve(instance).status is Status.OPTIMAL


def test_without_time_nothing_is_claimed() -> None:
    outcome = solve(alone(Workload("w", "ssd", 20.0, 10.0), GpuPool(V100, 1), SloRule.HALF_SLO), limit_s=0.0)

    assert outcome.status is Status.UNKNOWN
    assert outcome.bound is None


@pytest.mark.parametrize("rate_rps", [0.5, 1e-3, 1e-30, pytest.param(1e-250, marks=pytest.mark.soak)])
def test_the_scale_has_no_upper_limit(rate_rps: float) -> None:
    """One AlexNet on a V100 serves 9,167 req/s; the scale is 9,167 divided by the workload's rate, however small."""
    instance = alone(Workload("a", "alexnet", 50.0, rate_rps), GpuPool(V100, 1), SloRule.HALF_SLO)

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    value = judge(outcome.plan, instance).value
    assert value is not None
    # Scales are multiples of 1/200, so the served rate is below 9,167 req/s by up to one step.
    step_rps = max(SCALE_STEP * rate_rps, 9167.0 * 1e-9)
    assert value * rate_rps == pytest.approx(9167.12, abs=0.01 + step_rps)
    assert value < outcome.bound.value <= value + 2.0 * max(SCALE_STEP, 1e-9 * value)


def test_a_plan_below_the_grid_of_scales_is_returned() -> None:
    """The GPU serves 0.3 % of the rate, and the grid starts at 0.5 %."""
    instance = alone(Workload("a", "alexnet", 50.0, 9167.0 / 0.003), GpuPool(V100, 1), SloRule.HALF_SLO)

    outcome = solve(instance)

    assert outcome.status is Status.FEASIBLE
    assert outcome.plan is not None
    verdict = judge(outcome.plan, instance)
    assert verdict.feasible
    assert verdict.value is not None
    assert 0.0015 <= verdict.value < SCALE_STEP
    assert outcome.bound is not None
    assert outcome.bound.value == SCALE_STEP
    assert outcome.reason == "a scale of 0.0025 is feasible; the grid of scales starts at 0.005, which is not"


def test_a_workload_that_no_rate_makes_feasible_is_infeasible() -> None:
    outcome = solve(alone(Workload("a", "alexnet", 0.1, 100.0), GpuPool(V100, 1), SloRule.HALF_SLO))

    assert outcome.status is Status.INFEASIBLE
    assert outcome.plan is None


def test_batches_that_a_short_search_leaves_undecided_are_decided_later() -> None:
    # On an A100 a workload has up to 22 undominated batches. At 2.815 times the rates, a short search leaves one set of
    # residents undecided.
    instance = LIBRARY.entry("scale-a100-7").instance

    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() + 300.0, work_limit=200_000))

    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None
    assert outcome.bound is not None
    assert judge(outcome.plan, instance).value == pytest.approx(2.845)
    assert outcome.bound.value == pytest.approx(2.85)
