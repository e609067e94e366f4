"""``cpsat`` under ``scale``: agreement with brute force, plans at higher rates, and undecided scales."""

from dataclasses import replace

import pytest

from bench.api import Status
from bench.judging.judge import judge
from instances import SCALE_STEP, GpuPool, Objective, SloRule, Workload
from tests.formulations import by_share, exhaustive
from tests.formulations.cpsat.tiny import (
    V100,
    Reports,
    check_reports,
    draw,
    instance_of,
    solve,
    value,
    without_shortcuts,
)
from tests.instances.reference import TOY


@pytest.mark.parametrize("shortcuts", [True, False])
def test_the_largest_scale_is_that_of_brute_force(
    shortcuts: bool, monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    if not shortcuts:
        without_shortcuts(monkeypatch)
    for seed in range(10):
        with subtests.test(seed=seed):
            check_largest_scale(seed)


def check_largest_scale(seed: int) -> None:
    instance, reports = draw(seed, Objective.SCALE), Reports()
    optimum = exhaustive.largest_scale(instance, SCALE_STEP)

    outcome = solve(instance, reports)

    if optimum is None:
        assert outcome.status is Status.INFEASIBLE
    else:
        assert outcome.status is Status.OPTIMAL
        assert value(outcome.plan, instance) == pytest.approx(optimum, abs=1e-9)
        assert outcome.bound is not None
        assert outcome.bound.value == pytest.approx(optimum + SCALE_STEP, abs=1e-9)
        check_reports(reports, instance, optimum)


def test_under_assembly_a_scale_may_need_higher_rates_than_its_own() -> None:
    """On a whole GPU, batch 1 serves up to 162 req/s. Batch 2 fills in time from 218 req/s on, and serves up to 224."""
    workload = Workload("w", "ssd", 13.5, 100.0)
    instance = instance_of((workload,), GpuPool(V100, 1), objective=Objective.SCALE, slo_rule=SloRule.ASSEMBLY)
    exact = [
        step
        for step in range(1, 1000)
        if any(exhaustive.fitting_batches(instance.scaled(step * SCALE_STEP), V100, (0,)))
    ]
    assert max(exact) * SCALE_STEP > 2.0
    assert round(2.0 / SCALE_STEP) not in exact  # a scale of 2 is 200 req/s: too many for batch 1, too few for batch 2

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert outcome.bound is not None
    assert outcome.bound.value == pytest.approx((max(exact) + 1) * SCALE_STEP)
    assert value(outcome.plan, instance) >= max(exact) * SCALE_STEP - 1e-9


def test_a_p99_bound_on_the_scale_is_not_certified() -> None:
    """Under ``p99`` a higher rate may be feasible where a lower one is not, but only the scaled rates are tried."""
    workload = Workload("w", "large", 60.0, 20.0)
    gpu = exhaustive.small_batches(TOY, 2)
    instance = instance_of((workload,), GpuPool(gpu, 1), objective=Objective.SCALE, slo_rule=SloRule.P99)

    outcome = solve(instance)

    assert value(outcome.plan, instance) > 0.0
    assert outcome.bound is not None
    assert not outcome.bound.certified


def test_scale_needs_a_bounded_pool() -> None:
    workloads = (Workload("w", "alexnet", 20.0, 100.0),)

    outcome = solve(instance_of(workloads, GpuPool(V100), objective=Objective.SCALE))

    assert outcome.status is Status.UNKNOWN
    assert "no number of v100 GPUs" in outcome.reason


def test_an_undecided_scale_counts_neither_as_feasible_nor_as_infeasible(monkeypatch: pytest.MonkeyPatch) -> None:
    from formulations.cpsat import scale

    without_shortcuts(monkeypatch)
    monkeypatch.setattr(scale, "solve", lambda *_, **__: False)
    instance = draw(3, Objective.SCALE)
    optimum = exhaustive.largest_scale(instance, SCALE_STEP)
    assert optimum is not None

    outcome = solve(instance)

    assert outcome.status is Status.UNKNOWN
    assert outcome.bound is not None
    assert outcome.bound.value > optimum
    assert outcome.statistics["scales"] > 1  # smaller and larger scales than the first are tried


def test_more_requests_may_arrive_than_are_served_under_attainment() -> None:
    """Half of the requests may be dropped, so the largest scale exceeds the throughput of a whole GPU."""
    workload = Workload("w", "alexnet", 15.0, 100.0)
    gpu = exhaustive.small_batches(replace(V100, name="few", share_units=4), 3)
    drawn = instance_of((workload,), GpuPool(gpu, 1), objective=Objective.SCALE, slo_rule=SloRule.ATTAINMENT)
    instance = replace(drawn, attainment=0.5)

    outcome = solve(instance)

    assert outcome.plan is not None
    ((slot,),) = [gpulet.slots for gpulet in outcome.plan.gpus[0].gpulets]
    assert slot.rate_rps > 1.2 * judge(outcome.plan, instance).slots[0].throughput_rps
    assert outcome.bound is not None
    assert outcome.bound.value == pytest.approx(value(outcome.plan, instance) + SCALE_STEP)
    higher = replace(instance.scaled(outcome.bound.value), objective=Objective.COST)
    assert by_share.oversized(higher) == {0}


@pytest.mark.parametrize("rate_rps", [0.5, 1e-30])
def test_the_scale_of_small_rates_is_large(rate_rps: float) -> None:
    workload = Workload("a", "alexnet", 50.0, rate_rps)
    instance = instance_of((workload,), GpuPool(V100, 1), objective=Objective.SCALE, slo_rule=SloRule.HALF_SLO)

    outcome = solve(instance)

    assert outcome.status is Status.OPTIMAL
    assert value(outcome.plan, instance) * rate_rps == pytest.approx(9167.12, abs=0.02)


def test_a_plan_below_the_grid_of_scales_is_returned() -> None:
    """The GPU serves 0.3 % of the rate, and the grid starts at 0.5 %."""
    workload = Workload("a", "alexnet", 50.0, 9167.0 / 0.003)
    instance = instance_of((workload,), GpuPool(V100, 1), objective=Objective.SCALE, slo_rule=SloRule.HALF_SLO)

    outcome = solve(instance)

    assert outcome.status is Status.FEASIBLE
    assert value(outcome.plan, instance) == pytest.approx(0.0025)
    assert outcome.bound is not None
    assert outcome.bound.value == SCALE_STEP
    assert "the grid of scales starts at 0.005" in outcome.reason
