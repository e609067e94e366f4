"""GPUs as clusters assign them: whole, in equal shares or in time slices."""

import time
from dataclasses import replace

import pytest

from bench.api import Outcome, Run, Scheduler, Status
from bench.judging.judge import judge
from heuristics.baselines.equal_shares import EqualShares, TimeSlicing, WholeGpu
from heuristics.baselines.local_search import LocalSearch
from instances import GpuPool, Instance, Plan, SloRule
from instances.generate import generate
from instances.suites import suite


def planned(scheduler: Scheduler, instance: Instance) -> Plan:
    outcome: Outcome = scheduler.schedule(instance, Run())
    assert outcome.status is Status.FEASIBLE
    assert outcome.plan is not None
    return outcome.plan


@pytest.fixture(scope="module")
def mix() -> Instance:
    return generate("igniter-mix", 8, 0)


def test_whole_gpus_serve_one_workload_each(mix: Instance) -> None:
    plan = planned(WholeGpu(), mix)
    assert judge(plan, mix).feasible
    assert all(len(gpu.gpulets) == 1 and gpu.share_units == 40 for gpu in plan.gpus)
    assert len(plan.gpus) >= len(mix.workloads)


def test_equal_shares_are_equal_and_need_no_fewer_gpus_than_free_ones(mix: Instance) -> None:
    plan = planned(EqualShares(), mix)
    assert judge(plan, mix).feasible
    assert len({gpulet.share_units for gpu in plan.gpus for gpulet in gpu.gpulets}) == 1
    assert planned(LocalSearch(rounds=500), mix).gpus_used <= plan.gpus_used <= planned(WholeGpu(), mix).gpus_used
    (units,) = {gpulet.share_units for gpu in planned(EqualShares(4), mix).gpus for gpulet in gpu.gpulets}
    assert units == 10


def test_time_slices_take_turns_on_whole_gpus(mix: Instance) -> None:
    plan = planned(TimeSlicing(), mix)
    assert all(len(gpu.gpulets) == 1 and gpu.share_units == 40 for gpu in plan.gpus)
    assert {violation.kind for violation in judge(plan, mix).violations} <= {"duty-cycle", "rate"}
    served = {slot.workload for _, _, slot in plan.slots()}
    assert served == set(mix.workload_index)


def test_under_attainment_equal_shares_are_feasible(mix: Instance) -> None:
    under_attainment = replace(mix, slo_rule=SloRule.ATTAINMENT)
    assert judge(planned(EqualShares(), under_attainment), under_attainment).feasible
    assert judge(planned(WholeGpu(), under_attainment), under_attainment).feasible
    assert {v.kind for v in judge(planned(TimeSlicing(), under_attainment), under_attainment).violations} <= {
        "duty-cycle",
        "latency",
    }


def test_a_pool_that_is_too_small_gives_a_reason(mix: Instance) -> None:
    small = replace(mix, gpus=(GpuPool(mix.gpus[0].type, 1),))
    outcome = WholeGpu().schedule(small, Run())
    assert (outcome.status, outcome.plan) == (Status.UNKNOWN, None)
    assert outcome.reason
    with pytest.raises(ValueError, match="expected 1 to 100"):
        EqualShares(-1)


def test_a_service_has_separate_gpus() -> None:
    (services,) = suite("llm-4gpu").build()
    plan = planned(WholeGpu(by_service=True), services)
    assert judge(plan, services).feasible
    for gpu in plan.gpus:
        assert len({slot.workload.split("/")[0] for gpulet in gpu.gpulets for slot in gpulet.slots}) == 1
    assert plan.gpus_used <= planned(WholeGpu(), services).gpus_used

    small = replace(services, gpus=(GpuPool(services.gpus[0].type, 1),))
    assert "too few GPUs of type a100-llm" in WholeGpu(by_service=True).schedule(small, Run()).reason


def test_a_plain_workload_beside_services_has_a_separate_gpu() -> None:
    (services, *_) = suite("llm-4gpu").build()
    prefill = services.workloads[0]
    mixed = replace(services, workloads=(*services.workloads, replace(prefill, id="plain", service=None)))
    plan = planned(WholeGpu(by_service=True), mixed)
    assert judge(plan, mixed).feasible
    (alone,) = [gpu for gpu in plan.gpus if "plain" in {s.workload for gpulet in gpu.gpulets for s in gpulet.slots}]
    assert sum(len(gpulet.slots) for gpulet in alone.gpulets) == 1


def test_after_the_deadline_no_other_number_of_replicas_is_tried(mix: Instance) -> None:
    outcome = EqualShares().schedule(mix, Run(deadline=time.monotonic() - 1.0))
    assert (outcome.status, outcome.reason) == (Status.UNKNOWN, "the time was over before a plan was found")


def test_the_last_failure_before_the_deadline_is_the_reason(mix: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(mix, gpus=(replace(mix.gpus[0], count=1),))
    remaining_s = iter([1.0, 0.0])
    monkeypatch.setattr(Run, "remaining_s", property(lambda _: next(remaining_s)))
    assert EqualShares().schedule(small, Run()).reason.endswith("do not fit on 1 v100")
