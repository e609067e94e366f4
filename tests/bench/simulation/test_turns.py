"""Slots of a gpulet that take turns: by hand, and against the reference simulation with SimPy."""

from dataclasses import replace

import pytest

from bench.plan_simulation import Interference, Settings
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from tests.bench.simulation.agreement import agree, poisson_ms
from tests.bench.simulation.reference import Resident, igniter_demand, igniter_ms
from tests.instances.reference import TOY

# A GPU without transfer and scheduling times: on 40 % of it, n requests take n + 1 ms by "small", 4 n + 2 by "large".
GPU = replace(
    TOY,
    models={
        name: replace(model, scheduling_alone_ms=0.0, input_bytes=0, output_bytes=0)
        for name, model in TOY.models.items()
    },
)
# Workload, model, SLO in ms and rate in requests per second
A, B, C = Workload("a", "small", 40.0, 200.0), Workload("b", "large", 60.0, 100.0), Workload("c", "small", 25.0, 150.0)
SECOND = Settings(seconds=1.0, warmup_s=0.0)


def shared(cycle_ms: float, *slots: tuple[str, int, float], beside: tuple[Gpulet, ...] = ()) -> Plan:
    """Return a plan whose slots (workload, batch, rate) take turns on 40 % of a GPU, with other gpulets beside them."""
    gpulet = Gpulet(4, tuple(Slot(*slot) for slot in slots), cycle_ms)
    return Plan("turns", (PlacedGpu("toy", (gpulet, *beside)),))


def instance() -> Instance:
    pools = (GpuPool(GPU, None),)
    return Instance("turns", Objective.COST, SloRule.DUTY_CYCLE, "igniter", pools, (A, B, C))


def test_an_idle_gpulet_starts_full_batches_at_once() -> None:
    plan = shared(20.0, ("a", 2, 200.0), ("b", 1, 50.0))

    result = agree(plan, instance(), {"a": [7.0, 8.0], "b": [30.0]}, SECOND)

    assert [workload.max_ms for workload in result.workloads[:2]] == [1.0 + 3.0, 6.0]


def test_a_partial_batch_starts_a_duty_cycle_before_the_deadline() -> None:
    result = agree(shared(12.5, ("a", 2, 200.0)), instance(), {"a": [1.0]}, SECOND).workloads[0]

    assert result.max_ms == 40.0 - 12.5 + 2.0


def test_the_batch_that_was_ready_first_goes_first() -> None:
    """While the first batch of ``a`` runs, ``b`` is ready at 1 ms and the second batch of ``a`` at 2 ms."""
    plan = shared(20.0, ("a", 2, 200.0), ("b", 1, 50.0))

    result = agree(plan, instance(), {"a": [0.0, 0.0, 0.5, 2.0], "b": [1.0]}, SECOND)

    assert result.workloads[1].max_ms == 3 + 6 - 1
    assert result.workloads[0].max_ms == 9 + 3 - 0.5


def test_of_two_slots_that_are_ready_at_once_the_first_runs_first() -> None:
    plan = shared(20.0, ("b", 1, 50.0), ("a", 1, 200.0))

    result = agree(plan, instance(), {"a": [5.0], "b": [5.0]}, SECOND)

    assert [workload.max_ms for workload in result.workloads[:2]] == [6 + 2, 6]


def test_a_slot_that_drops_requests_may_lose_its_turn() -> None:
    """At 34 ms, two of the second batch of ``b`` are dropped; the other six can wait, so ``a`` runs first."""
    plan = shared(10.0, ("a", 2, 200.0), ("b", 8, 50.0))
    arrivals = {"b": [0.0] * 8 + [2.0] * 8, "a": [1.0]}

    result = agree(plan, instance(), arrivals, SECOND)

    assert result.workloads[0].max_ms == 34 + 2 - 1
    # The six start 60 - 10 ms after their arrival, when only two of them can still be in time.
    assert result.workloads[1].dropped == 2 + 4
    assert result.workloads[1].max_ms == 50 + 10


@pytest.mark.parametrize("dropping", [True, False], ids=["dropping", "not dropping"])
@pytest.mark.parametrize("scale", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("cycle_ms", [9.0, 20.0, 33.0])
def test_three_slots_agree_with_simpy(cycle_ms: float, scale: float, dropping: bool) -> None:
    plan = shared(cycle_ms, ("a", 4, 200.0), ("b", 2, 100.0), ("c", 3, 150.0))
    arrivals = {w.id: poisson_ms(scale * w.rate_rps, 3.0, 3 + k) for k, w in enumerate((A, B, C))}

    result = agree(plan, instance(), arrivals, Settings(seconds=2.0, warmup_s=0.5, dropping=dropping))

    # At scale 1, full batches take (200 / 4) 5 + (100 / 2) 10 + (150 / 3) 4 = 950 ms of every second.
    assert (result.violation_rate > 0.5) == (scale == 3.0)


def test_the_same_workload_may_have_two_slots_of_a_gpulet() -> None:
    plan = shared(20.0, ("a", 2, 150.0), ("b", 1, 40.0), ("a", 1, 50.0))
    arrivals = {"a": poisson_ms(200.0, 2.0, 6), "b": poisson_ms(40.0, 2.0, 7)}

    agree(plan, instance(), arrivals, SECOND)


@pytest.mark.parametrize("interference", list(Interference))
def test_turns_beside_another_gpulet_agree_with_simpy(interference: Interference) -> None:
    """The neighbour is slowed by the largest demand of any slot (static), or by the running batch (dynamic)."""
    plan = shared(20.0, ("a", 4, 200.0), ("b", 2, 100.0), beside=(Gpulet(5, (Slot("c", 3, 150.0),)),))
    arrivals = {w.id: poisson_ms(w.rate_rps, 3.0, 8 + k) for k, w in enumerate((A, B, C))}
    settings = Settings(seconds=2.0, warmup_s=0.5, interference=interference)

    agree(plan, instance(), arrivals, settings)
    alone = agree(replace(plan, gpus=(PlacedGpu("toy", plan.gpus[0].gpulets[1:]),)), instance(), arrivals, settings)
    with_idle_turns = agree(plan, instance(), {"a": [], "b": [], "c": arrivals["c"]}, settings)

    # Without requests of ``a`` and ``b``, ``c`` is as fast as alone only with dynamic interference.
    same = with_idle_turns.workloads[2].mean_ms == pytest.approx(alone.workloads[2].mean_ms)
    assert same == (interference is Interference.DYNAMIC)


def test_slots_that_take_turns_do_not_disturb_each_other() -> None:
    resident = Resident("small", 4, 4)
    assert igniter_ms(GPU, resident, [igniter_demand(GPU, resident)]) > igniter_ms(GPU, resident, [])
    plan = shared(20.0, ("a", 4, 200.0), ("c", 4, 200.0))

    result = agree(plan, instance(), {"a": [0.0] * 4, "c": [0.0] * 4}, SECOND)

    assert [result.workloads[w].max_ms for w in (0, 2)] == [5.0, 10.0]
