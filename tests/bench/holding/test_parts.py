"""Independent parts of a plan: GPUs that share no workload or service."""

from dataclasses import replace

import pytest

from bench.holding.parts import PlanPart, independent_parts, rate_rps
from bench.plan_simulation import Settings, simulate
from bench.simulation.serving_rules import offered_rps
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, Slot, spatial_gpu
from instances.catalogue import gpu_type
from instances.instance import instance_of_services
from instances.services import Service
from instances.suites import suite

(TWELVE,) = suite("igniter-12").build()


def gpu_with(*shares: tuple[str, float]) -> PlacedGpu:
    return spatial_gpu("v100", [(name, 8, 2, rate) for name, rate in shares])


def parts_of(plan: Plan, instance: Instance) -> list[PlanPart]:
    return independent_parts(PlanPart(plan, instance, instance))


def test_gpus_that_share_a_workload_are_one_part() -> None:
    six = replace(TWELVE, workloads=TWELVE.workloads[:6])
    gpus = (
        gpu_with(("W1", 10.0), ("W2", 10.0)),
        gpu_with(("W3", 10.0)),
        gpu_with(("W2", 10.0), ("W4", 10.0)),
        gpu_with(("W5", 10.0)),
    )
    parts = parts_of(Plan(six.name, gpus), six)

    assert [[w.id for w in part.instance.workloads] for part in parts] == [["W1", "W2", "W4"], ["W3"], ["W5"], ["W6"]]
    assert [part.plan.gpus for part in parts] == [(gpus[0], gpus[2]), (gpus[1],), (gpus[3],), ()]
    assert sum(rate_rps(part) for part in parts) == pytest.approx(sum(w.rate_rps for w in six.workloads))


def test_a_part_gets_the_requests_of_the_whole_plan() -> None:
    """The simulation of a part has exactly the results of the whole plan."""
    three = replace(TWELVE, workloads=TWELVE.workloads[:3])
    plan = Plan(three.name, (gpu_with(("W1", 10.0)), gpu_with(("W2", 10.0), ("W3", 10.0))))
    settings = Settings(seconds=3.0, seed=5, warmup_s=1.0)
    in_whole_plan = {workload.id: workload for workload in simulate(plan, three, settings).workloads}

    for part in parts_of(plan, three):
        for workload in simulate(part.plan, part.instance, settings, part.truth).workloads:
            assert workload == in_whole_plan[workload.id]


@pytest.mark.parametrize("objective", [Objective.GOODPUT, Objective.SCALE])
def test_rates_are_those_that_the_whole_plan_serves(objective: Objective) -> None:
    """Under goodput and scale, rates follow from the plan; the scale is that of the workload that is served least."""
    pool = (GpuPool(gpu_type("v100"), 4),)
    instance = replace(TWELVE, workloads=TWELVE.workloads[:3], objective=objective, gpus=pool)
    plan = Plan(
        instance.name,
        (gpu_with(("W1", 0.5 * instance.workloads[0].rate_rps)), gpu_with(("W2", instance.workloads[1].rate_rps))),
    )
    offered = offered_rps(plan, instance)

    rates_of_parts = {w.id: w.rate_rps for part in parts_of(plan, instance) for w in part.instance.workloads}
    assert rates_of_parts == {name: rate for name, rate in offered.items() if rate > 0.0}


def test_prefill_and_decoding_of_a_service_are_one_part() -> None:
    services = [(Service(name, "llama-13b", 256, 256, 1500.0, 60.0), 2.0) for name in ("a", "b")]
    asked = instance_of_services("chats", services, [GpuPool(gpu_type("a100-llm"))])
    slots = ("a/prefill", "b/prefill", "a/decode", "b/decode")
    gpus = tuple(PlacedGpu("a100-llm", (Gpulet(54, (Slot(name, 4, 2.0),)),)) for name in slots)

    parts = parts_of(Plan("chats", gpus), asked)
    assert [[w.id for w in part.instance.workloads] for part in parts] == [list(slots[::2]), list(slots[1::2])]
    assert [[service.name for service in part.instance.services] for part in parts] == [["a"], ["b"]]
