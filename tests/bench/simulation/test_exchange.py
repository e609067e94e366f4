"""Exchange of plans during a simulation: by hand, and without losing requests."""

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
from tests.bench.simulation.test_batches import EXACT_GPU

# A batch of one takes 2.125 ms at 40 % and 1.625 ms at 80 %, then 0.0625 ms of feedback, and 0.125 ms of loading add to
# the latency. At an SLO of 12 ms, a partial batch waits for 6 ms.
SECOND = Settings(seconds=1.0, warmup_s=0.0, dropping=False)
AT_40, AT_80 = 2.125 + 0.0625 + 0.125, 1.625 + 0.0625 + 0.125


def instance_of(*ids: str, slo_ms: float = 12.0) -> Instance:
    workloads = tuple(Workload(name, "small", slo_ms, 200.0) for name in ids)
    return Instance("few", Objective.COST, SloRule.HALF_SLO, "igniter", (GpuPool(EXACT_GPU, None),), workloads)


def plan_of(*gpus: Sequence[tuple[str, int, int]]) -> Plan:
    """Return a plan whose GPUs are given as (workload, share units, batch) rows."""
    return Plan("few", tuple(spatial_gpu("toy", [(*resident, 200.0) for resident in gpu]) for gpu in gpus))


def simulate_exchanges(
    instance: Instance,
    arrivals_ms: Mapping[str, Sequence[float]],
    first: Plan,
    *later: tuple[float, Plan],
    settings: Settings = SECOND,
) -> Simulated:
    """Simulate ``first``, and from each time of ``later`` on the plan given with it."""
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
        pytest.param(
            [10.0, 10.0], plan_of([("a", 8, 1)]), AT_40 + 1 + AT_80, id="waiting requests move and running ones stay"
        ),
        pytest.param([10.0], plan_of([("a", 8, 1)]), AT_40, id="a batch in flight is not changed"),
        # 10 + 2.125 + 0.0625 is when the process is free again: 2.1875 ms of waiting
        pytest.param([10.0, 10.0], plan_of([("a", 4, 1)]), 2 * AT_40 + 2.1875, id="an unchanged process continues"),
        pytest.param(
            [10.0, 10.0], plan_of([], [("a", 4, 1)]), 2 * AT_40 + 1, id="on another GPU it is another process"
        ),
        # the second request fills half a batch and waits for 6 ms; a batch of one at 40 % takes as long as before
        pytest.param(
            [10.0, 10.0], plan_of([("a", 4, 2)]), 2 * AT_40 + 6, id="with another batch it is another process"
        ),
        pytest.param([20.0], plan_of([("a", 8, 1)]), AT_80, id="later requests use the new plan"),
    ],
)
def test_latencies_around_an_exchange_are_those_calculated_by_hand(
    arrivals: list[float], later: Plan, total_ms: float
) -> None:
    result = simulate_exchanges(instance_of("a"), {"a": arrivals}, plan_of([("a", 4, 1)]), (11.0, later)).workloads[0]

    assert result.mean_ms is not None
    assert result.mean_ms * result.requests == pytest.approx(total_ms, abs=1e-9)
    assert (result.requests, result.unfinished) == (len(arrivals), 0)


def test_requests_of_a_workload_without_a_slot_are_dropped() -> None:
    empty, full = plan_of([("b", 4, 1)]), plan_of([("a", 4, 1), ("b", 4, 1)])
    arrivals = {"a": [10.0, 10.0, 15.0, 30.0], "b": []}

    result = simulate_exchanges(
        instance_of("a", "b"), arrivals, full, (11.0, empty), (20.0, full), settings=replace(SECOND, interval_s=1.0)
    )

    assert (result.workloads[0].requests, result.workloads[0].dropped, result.workloads[0].late) == (4, 2, 0)
    assert result.series is not None
    assert (result.series.arrived[0, 0], result.series.in_time[0, 0], result.series.dropped[0, 0]) == (4, 2, 2)


def test_waiting_requests_are_spread_over_new_slots() -> None:
    """Four requests arrive at once on one slot; two new processes take the three that wait."""
    result = simulate_exchanges(
        instance_of("a"), {"a": [10.0] * 4}, plan_of([("a", 4, 1)]), (11.0, plan_of([("a", 8, 1)], [("a", 8, 1)]))
    ).workloads[0]

    # three wait for 1 ms, and the third of them also for the 1.6875 ms of the one before it
    assert result.mean_ms is not None
    assert 4 * result.mean_ms == pytest.approx(AT_40 + 3 * (1 + AT_80) + 1.6875, abs=1e-9)


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
def test_no_request_is_lost_or_counted_twice(
    plans: list[list[tuple[tuple[str, int, int], ...]]], rate_rps: float, interference: Interference, dropping: bool
) -> None:
    instance = instance_of("a", "b", slo_ms=20.0)
    arrivals = {name: poisson_ms(rate_rps, 0.3, seed) for seed, name in enumerate("ab")}
    first, *others = (plan_of(*gpus) for gpus in plans)
    settings = Settings(seconds=0.3, warmup_s=0.0, interference=interference, dropping=dropping)

    result = simulate_exchanges(
        instance, arrivals, first, *((40.0 * (k + 1), plan) for k, plan in enumerate(others)), settings=settings
    )

    always_placed = set("ab").intersection(
        *({slot.workload for _, _, slot in plan_of(*gpus).slots()} for gpus in plans)
    )
    for workload in result.workloads:
        assert workload.requests == len(arrivals[workload.id])
        assert workload.unfinished == 0
        assert int(workload.histogram.sum()) == workload.requests - workload.dropped
        assert workload.dropped == 0 or dropping or workload.id not in always_placed


@pytest.mark.parametrize("interference", Interference)
def test_exchanging_a_plan_for_itself_changes_nothing(interference: Interference) -> None:
    plan = plan_of([("a", 4, 3), ("b", 5, 2)])
    instance = instance_of("a", "b", slo_ms=20.0)
    arrivals = {name: poisson_ms(600.0, 1.0, seed) for seed, name in enumerate("ab")}
    settings = replace(SECOND, interference=interference, interval_s=1.0)

    once = simulate_exchanges(instance, arrivals, plan, settings=settings)
    exchanged = simulate_exchanges(
        instance, arrivals, plan, *((7.3 * k, plan) for k in range(1, 130)), settings=settings
    )

    for workload, workload_exchanged in zip(once.workloads, exchanged.workloads, strict=True):
        assert workload.requests > 500
        # latencies are summed in another order
        assert replace(workload, mean_ms=None, mean_queue=None) == replace(
            workload_exchanged, mean_ms=None, mean_queue=None
        )
        assert workload.mean_ms == pytest.approx(workload_exchanged.mean_ms)
        assert (workload.histogram == workload_exchanged.histogram).all()


@pytest.mark.parametrize("processes", [1, 3])
def test_unchanged_processes_in_mig_instances_continue(processes: int) -> None:
    instance = SUITES["parvagpu"].build()[0]
    workload = replace(instance.workloads[0], rate_rps=100.0)
    instance = replace(instance, workloads=(workload,))
    mig = instance.gpus[0].type.mig
    assert mig is not None
    configuration = next(
        configuration for configuration in mig.models[workload.model] if configuration.processes == processes
    )
    gpulet = Gpulet(configuration.units, (Slot(workload.id, configuration.batch, 100.0),), None, 0, processes)
    plan = Plan(instance.name, (PlacedGpu(instance.gpus[0].type.name, (gpulet,)),))
    arrivals = {workload.id: poisson_ms(100.0, 1.0, 3)}

    once = simulate_exchanges(instance, arrivals, plan).workloads[0]
    exchanged = simulate_exchanges(instance, arrivals, plan, *((1.3 * k, plan) for k in range(1, 700))).workloads[0]

    assert (once.requests, once.unfinished) == (exchanged.requests, exchanged.unfinished)
    if processes == 1:  # with several processes, an exchange redistributes waiting requests
        assert (once.histogram == exchanged.histogram).all()
