"""Several slots in one gpulet take turns: worked by hand and against a SimPy model."""

from dataclasses import replace

import pytest

from bench.plan_simulation import Interference, Settings
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from tests.bench.simulation.agreement import agree, poisson_ms
from tests.bench.simulation.reference import Resident, igniter_demand, igniter_ms
from tests.instances.reference import TOY

# Without transfers a batch of b takes b + 1 ms of the small model on 40 %, 4 b + 2 ms of the large.
GPU = replace(
    TOY,
    models={
        name: replace(model, scheduling_alone_ms=0.0, input_bytes=0, output_bytes=0)
        for name, model in TOY.models.items()
    },
)
A, B, C = Workload("a", "small", 40.0, 200.0), Workload("b", "large", 60.0, 100.0), Workload("c", "small", 25.0, 150.0)
SECOND = Settings(seconds=1.0, warmup_s=0.0)


def shared(cycle_ms: float, *slots: tuple[str, int, float], beside: tuple[Gpulet, ...] = ()) -> Plan:
    gpulet = Gpulet(4, tuple(Slot(*slot) for slot in slots), cycle_ms)
    return Plan("turns", (PlacedGpu("toy", (gpulet, *beside)),))


def instance() -> Instance:
    pools = (GpuPool(GPU, None),)
    return Instance("turns", Objective.COST, SloRule.DUTY_CYCLE, "igniter", pools, (A, B, C))


def test_an_idle_executor_keeps_nobody_waiting_whose_batch_is_full() -> None:
    plan = shared(20.0, ("a", 2, 200.0), ("b", 1, 50.0))

    found = agree(plan, instance(), {"a": [7.0, 8.0], "b": [30.0]}, SECOND)

    assert [one.max_ms for one in found.workloads[:2]] == [1.0 + 3.0, 6.0]


def test_a_batch_that_is_not_full_starts_a_duty_cycle_before_the_deadline() -> None:
    found = agree(shared(12.5, ("a", 2, 200.0)), instance(), {"a": [1.0]}, SECOND).workloads[0]

    assert found.max_ms == 40.0 - 12.5 + 2.0


def test_the_batch_that_was_ready_first_goes_first() -> None:
    """While the first pair is served another is ready at 2, then one of b at 1: b's goes first, then the pair."""
    plan = shared(20.0, ("a", 2, 200.0), ("b", 1, 50.0))

    found = agree(plan, instance(), {"a": [0.0, 0.0, 0.5, 2.0], "b": [1.0]}, SECOND)

    assert found.workloads[1].max_ms == 3 + 6 - 1
    assert found.workloads[0].max_ms == 9 + 3 - 0.5


def test_of_two_that_are_ready_at_once_the_first_slot_goes_first() -> None:
    plan = shared(20.0, ("b", 1, 50.0), ("a", 1, 200.0))

    found = agree(plan, instance(), {"a": [5.0], "b": [5.0]}, SECOND)

    assert [one.max_ms for one in found.workloads[:2]] == [6 + 2, 6]


def test_dropping_the_oldest_may_pass_the_turn_on() -> None:
    """At 34 the second batch of b can no longer be in time, but six of it; they have time, so a goes first."""
    plan = shared(10.0, ("a", 2, 200.0), ("b", 8, 50.0))
    arrivals = {"b": [0.0] * 8 + [2.0] * 8, "a": [1.0]}

    found = agree(plan, instance(), arrivals, SECOND)

    assert found.workloads[0].max_ms == 34 + 2 - 1
    # The six wait for company until 60 - 10 after they came: then only two can be in time
    assert found.workloads[1].dropped == 6
    assert found.workloads[1].max_ms == 50 + 10


@pytest.mark.parametrize("dropping", [True, False], ids=["dropping", "not dropping"])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("cycle_ms", [9.0, 20.0, 33.0])
def test_three_slots_agree_with_simpy(cycle_ms: float, scale: float, dropping: bool) -> None:
    plan = shared(cycle_ms, ("a", 4, 200.0), ("b", 2, 100.0), ("c", 3, 150.0))
    arrivals = {w.id: poisson_ms(scale * w.rate_rps, 3.0, 3 + k) for k, w in enumerate((A, B, C))}

    found = agree(plan, instance(), arrivals, Settings(seconds=2.0, warmup_s=0.5, dropping=dropping))

    # In full batches it takes 200/4 x 5 + 100/2 x 10 + 150/3 x 4 = 950 ms of a second
    assert (found.violation_rate > 0.5) == (scale == 3.0)


def test_the_same_workload_may_have_two_slots_of_a_gpulet() -> None:
    plan = shared(20.0, ("a", 2, 150.0), ("b", 1, 40.0), ("a", 1, 50.0))
    arrivals = {"a": poisson_ms(200.0, 2.0, 6), "b": poisson_ms(40.0, 2.0, 7)}

    agree(plan, instance(), arrivals, SECOND)


@pytest.mark.parametrize("interference", list(Interference))
def test_turns_beside_another_gpulet_agree_with_simpy(interference: Interference) -> None:
    """To its neighbour it shows the largest demand of any slot, or whichever batch really runs."""
    plan = shared(20.0, ("a", 4, 200.0), ("b", 2, 100.0), beside=(Gpulet(5, (Slot("c", 3, 150.0),)),))
    arrivals = {w.id: poisson_ms(w.rate_rps, 3.0, 8 + k) for k, w in enumerate((A, B, C))}
    settings = Settings(seconds=2.0, warmup_s=0.5, interference=interference)

    agree(plan, instance(), arrivals, settings)
    alone = agree(replace(plan, gpus=(PlacedGpu("toy", plan.gpus[0].gpulets[1:]),)), instance(), arrivals, settings)
    both = agree(plan, instance(), {"a": [], "b": [], "c": arrivals["c"]}, settings)

    # Nobody comes to the other two: the neighbour is as fast as alone, unless everybody always counts
    same = both.workloads[2].mean_ms == pytest.approx(alone.workloads[2].mean_ms)
    assert same == (interference is Interference.DYNAMIC)


def test_slots_that_take_turns_do_not_disturb_each_other() -> None:
    own = Resident("small", 4, 4)
    assert igniter_ms(GPU, own, [igniter_demand(GPU, own)]) > igniter_ms(GPU, own, [])
    plan = shared(20.0, ("a", 4, 200.0), ("c", 4, 200.0))

    found = agree(plan, instance(), {"a": [0.0] * 4, "c": [0.0] * 4}, SECOND)

    assert [found.workloads[w].max_ms for w in (0, 2)] == [5.0, 10.0]
