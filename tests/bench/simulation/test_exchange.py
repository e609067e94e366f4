"""One plan in place of another while requests flow: worked by hand, and nobody is lost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from bench.plan_simulation import Interference, Settings, Simulated
from bench.simulation.arrivals import Stream
from bench.simulation.driver import Simulation
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload, spatial_gpu
from instances.suites import SUITES
from tests.bench.simulation.agreement import Given, poisson_ms
from tests.bench.simulation.test_batches import CLOCKWORK

# At 40 % a batch of one takes 2.125 ms, 0.0625 ms of feedback follow, 0.125 ms of loading are on top; at 80 % it takes
# 1.625 ms. SLO 12: a batch that is not full waits for 6 ms.
SECOND = Settings(seconds=1.0, warmup_s=0.0, dropping=False)
AT_40, AT_80 = 2.125 + 0.0625 + 0.125, 1.625 + 0.0625 + 0.125


def instance_of(*ids: str, slo_ms: float = 12.0) -> Instance:
    workloads = tuple(Workload(name, "small", slo_ms, 200.0) for name in ids)
    return Instance("few", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(CLOCKWORK, None),), workloads)


def plan_of(*gpus: Sequence[tuple[str, int, int]]) -> Plan:
    """GPUs of (workload, units, batch)."""
    return Plan("few", tuple(spatial_gpu("toy", [(*resident, 200.0) for resident in gpu]) for gpu in gpus))


def served(
    instance: Instance,
    arrivals_ms: Mapping[str, Sequence[float]],
    first: Plan,
    *later: tuple[float, Plan],
    settings: Settings = SECOND,
) -> Simulated:
    """Simulate one plan after another."""
    streams = {name: cast(Stream, Given(times_ms)) for name, times_ms in arrivals_ms.items()}
    simulation = Simulation(first, instance, settings, instance, streams)
    for at_ms, plan in later:
        simulation.advance(at_ms)
        simulation.exchange(plan)
    simulation.advance(simulation.kernel_settings.to_ms)
    simulation.drain()
    return simulation.result()


@pytest.mark.parametrize(
    ("arrivals", "later", "total_ms"),
    [
        pytest.param([10.0, 10.0], plan_of([("a", 8, 1)]), AT_40 + 1 + AT_80, id="who waits moves, who runs stays"),
        pytest.param([10.0], plan_of([("a", 8, 1)]), AT_40, id="a batch in flight ends at its old pace"),
        # 10 + 2.125 + 0.0625 is when the process is free again: 2.1875 ms of waiting
        pytest.param([10.0, 10.0], plan_of([("a", 4, 1)]), 2 * AT_40 + 2.1875, id="the same process goes on"),
        pytest.param([10.0, 10.0], plan_of([], [("a", 4, 1)]), 2 * AT_40 + 1, id="on another GPU it is another one"),
        # the second request fills half a batch and waits for 6 ms; a batch of one at 40 % takes as long as before
        pytest.param([10.0, 10.0], plan_of([("a", 4, 2)]), 2 * AT_40 + 6, id="with another batch too"),
        pytest.param([20.0], plan_of([("a", 8, 1)]), AT_80, id="who comes later meets the new plan"),
    ],
)
def test_exchange_by_hand(arrivals: list[float], later: Plan, total_ms: float) -> None:
    found = served(instance_of("a"), {"a": arrivals}, plan_of([("a", 4, 1)]), (11.0, later)).workloads[0]

    assert found.mean_ms is not None
    assert found.mean_ms * found.requests == pytest.approx(total_ms, abs=1e-9)
    assert (found.requests, found.unfinished) == (len(arrivals), 0)


def test_who_loses_the_last_slot_is_dropped_until_there_is_one_again() -> None:
    empty, full = plan_of([("b", 4, 1)]), plan_of([("a", 4, 1), ("b", 4, 1)])
    arrivals = {"a": [10.0, 10.0, 15.0, 30.0], "b": []}

    found = served(
        instance_of("a", "b"), arrivals, full, (11.0, empty), (20.0, full), settings=replace(SECOND, interval_s=1.0)
    )

    assert (found.workloads[0].requests, found.workloads[0].dropped, found.workloads[0].late) == (4, 2, 0)
    assert found.series is not None
    assert (found.series.arrived[0, 0], found.series.in_time[0, 0], found.series.dropped[0, 0]) == (4, 2, 2)


def test_waiting_requests_are_spread_over_new_slots() -> None:
    """Four at once on one slot; two processes take the three that wait."""
    found = served(
        instance_of("a"), {"a": [10.0] * 4}, plan_of([("a", 4, 1)]), (11.0, plan_of([("a", 8, 1)], [("a", 8, 1)]))
    ).workloads[0]

    # 1 ms of waiting for three, and for the third of them the 1.6875 ms of the one before it
    assert found.mean_ms is not None
    assert 4 * found.mean_ms == pytest.approx(AT_40 + 3 * (1 + AT_80) + 1.6875, abs=1e-9)


_RESIDENTS = st.lists(
    st.tuples(st.sampled_from("ab"), st.integers(1, 5), st.integers(1, 4)), min_size=0, max_size=2
).map(tuple)


@hypothesis_settings(max_examples=80)
@given(
    plans=st.lists(st.lists(_RESIDENTS, min_size=1, max_size=2), min_size=2, max_size=5),
    rate_rps=st.floats(20.0, 900.0),
    interference=st.sampled_from(Interference),
    dropping=st.booleans(),
)
def test_nobody_is_lost_or_counted_twice(
    plans: list[list[tuple[tuple[str, int, int], ...]]], rate_rps: float, interference: Interference, dropping: bool
) -> None:
    instance = instance_of("a", "b", slo_ms=20.0)
    arrivals = {name: poisson_ms(rate_rps, 0.3, seed) for seed, name in enumerate("ab")}
    first, *others = (plan_of(*gpus) for gpus in plans)
    settings = Settings(seconds=0.3, warmup_s=0.0, interference=interference, dropping=dropping)

    found = served(
        instance, arrivals, first, *((40.0 * (k + 1), plan) for k, plan in enumerate(others)), settings=settings
    )

    always = set("ab").intersection(*({slot.workload for _, _, slot in plan_of(*gpus).slots()} for gpus in plans))
    for each in found.workloads:
        assert each.requests == len(arrivals[each.id])
        assert each.unfinished == 0
        assert int(each.histogram.sum()) == each.requests - each.dropped
        assert each.dropped == 0 or dropping or each.id not in always


@pytest.mark.parametrize("interference", Interference)
def test_exchanging_a_plan_for_itself_changes_nothing(interference: Interference) -> None:
    plan = plan_of([("a", 4, 3), ("b", 5, 2)])
    instance = instance_of("a", "b", slo_ms=20.0)
    arrivals = {name: poisson_ms(600.0, 1.0, seed) for seed, name in enumerate("ab")}
    settings = replace(SECOND, interference=interference, interval_s=1.0)

    once = served(instance, arrivals, plan, settings=settings)
    again = served(instance, arrivals, plan, *((7.3 * k, plan) for k in range(1, 130)), settings=settings)

    for one, other in zip(once.workloads, again.workloads, strict=True):
        assert one.requests > 500
        # sums of latencies are added up in another order
        assert replace(one, mean_ms=None, mean_queue=None) == replace(other, mean_ms=None, mean_queue=None)
        assert one.mean_ms == pytest.approx(other.mean_ms)
        assert (one.histogram == other.histogram).all()


@pytest.mark.parametrize("processes", [1, 3])
def test_processes_in_mig_instances_go_on(processes: int) -> None:
    instance = SUITES["parvagpu"].build()[0]
    workload = replace(instance.workloads[0], rate_rps=100.0)
    instance = replace(instance, workloads=(workload,))
    mig = instance.gpus[0].type.mig
    assert mig is not None
    way = next(way for way in mig.models[workload.model] if way.processes == processes)
    gpulet = Gpulet(way.units, (Slot(workload.id, way.batch, 100.0),), None, 0, processes)
    plan = Plan(instance.name, (PlacedGpu(instance.gpus[0].type.name, (gpulet,)),))
    arrivals = {workload.id: poisson_ms(100.0, 1.0, 3)}

    once = served(instance, arrivals, plan).workloads[0]
    again = served(instance, arrivals, plan, *((1.3 * k, plan) for k in range(1, 700))).workloads[0]

    assert (once.requests, once.unfinished) == (again.requests, again.unfinished)
    if processes == 1:  # of several, the exchange shares those who wait out anew
        assert (once.histogram == again.histogram).all()
