"""iGniter, FFD+ and FFD++: constraints that every plan meets, on random mixes."""

from collections import Counter

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from bench.api import Run, Scheduler, Status
from bench.judging.judge import judge
from heuristics.igniter.igniter import IGniter
from instances import Instance, Objective, Plan
from instances.generate import FAMILIES
from tests.heuristics.mixes import INTERFERENCE_AWARE, SCHEDULERS, V100, Demand, by_name, contents, instance, planned
from tests.instances import reference

FAMILY = FAMILIES["heavy-mix"].demands
HOT = ("vgg19", 20.0, 450.0)  # 97.5 % of a V100 would suffice without throttling


@st.composite
def demand_lists(draw: st.DrawFn, largest: int = 10) -> list[Demand]:
    """Draw mixes similar to iGniter's; some rates are too high for one GPU."""
    demands = []
    for _ in range(draw(st.integers(1, largest))):
        model = draw(st.sampled_from(sorted(FAMILY)))
        slo_ms, rate_rps = FAMILY[model]
        slo = draw(st.integers(slo_ms.low, slo_ms.high))
        demands.append((model, float(slo), draw(st.floats(1.0, 3.0 * rate_rps.high))))
    return demands


def check_physics(plan: Plan) -> None:
    """Check that shares are positive integers within the GPU, with one slot per gpulet."""
    for gpu in plan.gpus:
        assert gpu.gpulets
        assert all(isinstance(gpulet.share_units, int) and gpulet.share_units >= 1 for gpulet in gpu.gpulets)
        assert gpu.share_units <= V100.share_units
        assert all(len(gpulet.slots) == 1 and gpulet.duty_cycle_ms is None for gpulet in gpu.gpulets)


def check_memory(plan: Plan, problem: Instance) -> None:
    models = {w.id: V100.models[w.model] for w in problem.workloads}
    for gpu in plan.gpus:
        resident = [models[slot.workload].memory_mib(slot.batch) for gpulet in gpu.gpulets for slot in gpulet.slots]
        assert sum(resident) <= V100.memory_mib


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
@given(demand_lists())
@settings(max_examples=60)
def test_every_workload_is_served_and_no_gpu_is_overfilled(scheduler: Scheduler, demands: list[Demand]) -> None:
    problem = instance(demands)

    plan = planned(scheduler, problem)

    check_physics(plan)
    check_memory(plan, problem)
    parts = Counter(slot.workload for _, _, slot in plan.slots())
    assert set(parts) == {w.id for w in problem.workloads}
    for workload in problem.workloads:
        rates = [slot.rate_rps for _, _, slot in plan.slots() if slot.workload == workload.id]
        assert rates == pytest.approx([workload.rate_rps / len(rates)] * len(rates))
    assert {v.kind for v in judge(plan, problem).violations} <= {"latency"}


@pytest.mark.parametrize("scheduler", INTERFERENCE_AWARE, ids=by_name)
@given(demand_lists())
@example([HOT])
@settings(max_examples=60)
def test_only_gpus_with_a_single_resident_have_violations(scheduler: Scheduler, demands: list[Demand]) -> None:
    """A single resident has the share ``r_lower`` (Alg. 1, line 14), which ignores its own power.

    GPUs with more residents have the shares of ``alloc_gpus`` and no violations.
    """
    problem = instance(demands)
    plan = planned(scheduler, problem)
    verdict = judge(plan, problem)
    models = {w.id: V100.models[w.model] for w in problem.workloads}

    for violation in verdict.violations:
        assert violation.gpu is not None
        (gpulet,) = plan.gpus[violation.gpu].gpulets
        (slot,) = gpulet.slots
        model, share_pct = models[slot.workload], V100.share_pct(gpulet.share_units)
        cool_ms = model.scheduling_alone_ms + reference.active_ms(model, slot.batch, share_pct)
        demand_w = reference.power_w(model, slot.batch, share_pct)
        assert V100.hardware.idle_power_w + demand_w > V100.hardware.max_power_w
        assert cool_ms <= violation.limit < violation.actual


@pytest.mark.parametrize("scheduler", INTERFERENCE_AWARE, ids=by_name)
def test_a_single_resident_can_violate_its_slo_by_throttling(scheduler: Scheduler) -> None:
    problem = instance([HOT])

    plan = planned(scheduler, problem)

    (violation,) = judge(plan, problem).violations
    assert contents(plan) == [[("w0", 39, 5)]]
    assert (violation.kind, violation.gpu, violation.workload) == ("latency", 0, "w0")


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
@given(demand_lists(), st.integers(1, 5))
@settings(max_examples=40)
def test_goodput_plans_are_on_the_grid_and_within_the_pool(
    scheduler: Scheduler, demands: list[Demand], gpus: int
) -> None:
    problem = instance(demands, Objective.GOODPUT, gpus)

    plan = planned(scheduler, problem)

    check_physics(plan)
    check_memory(plan, problem)
    assert len(plan.gpus) <= gpus
    assert max(Counter(slot.workload for _, _, slot in plan.slots()).values(), default=1) == 1
    full_rps = {w.id: w.rate_rps for w in problem.workloads}
    for _, _, slot in plan.slots():
        assert 20 * slot.rate_rps / full_rps[slot.workload] == pytest.approx(
            round(20 * slot.rate_rps / full_rps[slot.workload]), rel=1e-9
        )
        assert 0 < slot.rate_rps <= full_rps[slot.workload]
    assert {v.kind for v in judge(plan, problem).violations} <= {"latency"}


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
@given(demand_lists(largest=6), st.sampled_from([Objective.COST, Objective.CAPACITY, Objective.GOODPUT]))
@settings(max_examples=30)
def test_an_instance_has_the_same_plan_for_every_seed(
    scheduler: Scheduler, demands: list[Demand], objective: Objective
) -> None:
    problem = instance(demands, objective, gpus=30)

    first = scheduler.schedule(problem, Run(seed=0))

    assert scheduler.schedule(instance(demands, objective, gpus=30), Run(seed=1)) == first


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
@given(demand_lists(largest=6))
@settings(max_examples=30)
def test_a_pool_of_the_gpus_used_is_sufficient(scheduler: Scheduler, demands: list[Demand]) -> None:
    unlimited = planned(scheduler, instance(demands))
    assume(unlimited.gpus)

    assert planned(scheduler, instance(demands, gpus=len(unlimited.gpus))) == unlimited
    too_small = scheduler.schedule(instance(demands, gpus=len(unlimited.gpus) - 1), Run())
    assert (too_small.status, too_small.plan) == (Status.UNKNOWN, None)


@pytest.mark.parametrize("scheduler", SCHEDULERS, ids=by_name)
def test_schedulers_fulfil_the_contract(scheduler: Scheduler) -> None:
    assert isinstance(scheduler, Scheduler)
    assert scheduler.objectives == {Objective.COST, Objective.CAPACITY, Objective.GOODPUT}
    for objective in scheduler.objectives:
        assert scheduler.warm(objective) is None  # type: ignore[attr-defined]


# --- goodput ---


def test_under_goodput_workloads_may_be_served_partially_or_left_out() -> None:
    problem = instance([("ssd", 50.0, 900.0), ("ssd", 50.0, 200.0), ("alexnet", 20.0, 60.0)], Objective.GOODPUT, gpus=1)

    plan = planned(IGniter(), problem)

    # 30 % of 900 takes nearly a whole V100; the small workload fits beside it, but 200 would need another 60 %
    assert [(slot.workload, slot.rate_rps) for _, _, slot in plan.slots()] == [("w0", 270.0), ("w2", 60.0)]
    assert judge(plan, problem).feasible
    assert judge(plan, problem).value == 330.0


def test_under_goodput_an_unservable_workload_is_left_out() -> None:
    problem = instance([("ssd", 5.0, 100.0), ("alexnet", 20.0, 60.0)], Objective.GOODPUT, gpus=2)

    for scheduler in SCHEDULERS:
        assert [slot.workload for _, _, slot in planned(scheduler, problem).slots()] == ["w1"]
