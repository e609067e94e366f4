"""Routing of a workload's requests to several slots: in proportion to planned rates, in turns or at random."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plan_simulation import Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from bench.simulation.routing import next_slot, routing_of, spread
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from tests.instances.reference import TOY


def split(*rates_rps: float, total_rps: float = 200.0) -> tuple[Plan, Instance]:
    """Return a plan with a slot of workload "a" on one GPU for each rate, and its instance."""
    asked = Instance(
        "split",
        Objective.COST,
        SloRule.HALF_SLO,
        "igniter",
        (GpuPool(TOY, None),),
        (Workload("a", "small", 50.0, total_rps),),
    )
    return Plan("split", tuple(spatial_gpu("toy", [("a", 4, 1, rate)]) for rate in rates_rps)), asked


def routed_in_turns(rates_rps: list[float], requests: int) -> np.ndarray:
    routing = routing_of(1, np.zeros(len(rates_rps), dtype=np.int64), np.array(rates_rps))
    chosen = np.empty(requests, dtype=np.int64)
    spread(routing, 0, chosen)
    return chosen


def routed_at_random(rates_rps: list[float], requests: int, seed: int) -> np.ndarray:
    routing = routing_of(1, np.zeros(len(rates_rps), dtype=np.int64), np.array(rates_rps), seed)
    chosen = np.empty(requests, dtype=np.int64)
    third = requests // 3
    spread(routing, 0, chosen[:third])
    spread(routing, 0, chosen[third:])
    return chosen


@pytest.mark.parametrize("seed", [0, 7, 2**62])
def test_random_routing_sends_each_request_independently(seed: int) -> None:
    requests, parts = 200_000, np.array([0.5, 0.3, 0.2])
    chosen = routed_at_random([50.0, 30.0, 20.0], requests, seed)
    counts = np.bincount(chosen, minlength=3)
    errors = np.sqrt(requests * parts * (1.0 - parts))
    assert np.all(np.abs(counts - requests * parts) < 4.5 * errors)
    # The slots of two successive requests are independent.
    pairs = np.bincount(3 * chosen[:-1] + chosen[1:], minlength=9) / (requests - 1)
    expected = np.outer(parts, parts).ravel()
    assert np.all(np.abs(pairs - expected) < 4.5 * np.sqrt(expected / requests))


def test_the_seed_determines_random_routing() -> None:
    slots = routed_at_random([3.0, 1.0], 1000, 5)
    assert np.array_equal(slots, routed_at_random([3.0, 1.0], 1000, 5))
    assert not np.array_equal(slots, routed_at_random([3.0, 1.0], 1000, 6))
    routing = routing_of(2, np.array([1, 1]), np.array([3.0, 1.0]), 5)
    other_slots = np.array([next_slot(routing, 1) for _ in range(1000)])
    assert not np.array_equal(slots, other_slots)  # every workload has its own random numbers
    assert next_slot(routing, 0) == -1


def test_random_routing_makes_more_requests_late_than_turns() -> None:
    plan, asked = split(60.0, 60.0, 60.0, total_rps=180.0)
    settings = Settings(seconds=200.0)
    in_turns, random = (
        simulate(plan, replace(asked, random_routing=routing), settings).workloads[0] for routing in (False, True)
    )
    assert in_turns.requests == random.requests
    assert in_turns.p99_ms is not None
    assert random.p99_ms is not None
    assert random.p99_ms > in_turns.p99_ms


def test_rates_of_three_to_one_send_every_fourth_request_to_the_second_slot() -> None:
    chosen = routed_in_turns([150.0, 50.0], 400)

    assert np.bincount(chosen).tolist() == [300, 100]
    assert set(np.diff(np.flatnonzero(chosen == 1)).tolist()) == {4}


@given(rates=st.lists(st.floats(0.1, 1000.0), min_size=1, max_size=6), requests=st.integers(1, 300))
def test_each_slot_has_its_part_up_to_the_number_of_slots(rates: list[float], requests: int) -> None:
    chosen = routed_in_turns(rates, requests)

    for slot, rate in enumerate(rates):
        excess = np.cumsum(chosen == slot) - rate / sum(rates) * np.arange(1, requests + 1)
        assert np.all(np.abs(excess) < len(rates))


def test_routing_in_pieces_is_that_of_the_whole() -> None:
    rates, workload = np.array([3.0, 5.0, 1.0]), np.zeros(3, dtype=np.int64)
    whole, routing = routed_in_turns([3.0, 5.0, 1.0], 100), routing_of(1, workload, rates)

    pieces = np.empty(100, dtype=np.int64)
    for first, last in ((0, 1), (1, 40), (40, 100)):
        spread(routing, 0, pieces[first:last])

    assert np.array_equal(pieces, whole)


def test_requests_are_routed_to_slots_of_their_workload_only() -> None:
    routing = routing_of(4, np.array([2, 0, 2, 0, 3]), np.array([1.0, 2.0, 3.0, 4.0, 5.0]))

    ranges = [slice(routing.first[w], routing.first[w + 1]) for w in range(4)]
    assert [routing.slot[range_].tolist() for range_ in ranges] == [[1, 3], [], [0, 2], [4]]
    assert [routing.part[range_].sum() for range_ in ranges] == pytest.approx([1.0, 0.0, 1.0, 1.0])
    assert next_slot(routing, 1) == -1
    assert [int(next_slot(routing, 3)) for _ in range(3)] == [4, 4, 4]


def test_a_late_slot_drops_its_part_of_the_requests() -> None:
    """Of two slots with rates three to one, the second is always late, so its quarter is dropped."""
    plan, asked = split(150.0, 50.0)
    slow = spatial_gpu("toy", [("a", 1, 8, 50.0)])  # expects 41.65 ms for eight, far above the SLO of 4.5 ms
    settings = Settings(Arrivals(Process.CONSTANT), seconds=20.0, warmup_s=2.0)
    both_in_time = simulate(plan, asked, settings).workloads[0]

    hurried = replace(asked, workloads=(replace(asked.workloads[0], slo_ms=4.5),))
    result = simulate(replace(plan, gpus=(plan.gpus[0], slow)), hurried, settings)

    assert both_in_time.violation_rate == 0.0
    assert result.workloads[0].drop_rate == pytest.approx(0.25, abs=0.001)


def test_two_replicas_serve_a_rate_that_one_cannot() -> None:
    """A batch of one takes 2.15 ms: at most 465 req/s."""
    one, two = (simulate(*split(*[900.0 / replicas] * replicas, total_rps=900.0)).workloads[0] for replicas in (1, 2))

    assert one.throughput_rps == pytest.approx(1000.0 / 2.15, rel=0.01)
    assert two.throughput_rps == pytest.approx(900.0, rel=0.02)
    assert two.violation_rate < 0.01


def test_replicas_on_one_gpu_slow_each_other() -> None:
    plan, asked = split(100.0, 100.0)
    on_one_gpu = Plan("split", (spatial_gpu("toy", [("a", 4, 1, 100.0), ("a", 4, 1, 100.0)]),))

    apart_ms, together_ms = (simulate(plan_, asked).workloads[0].mean_ms for plan_ in (plan, on_one_gpu))

    assert apart_ms is not None
    assert together_ms is not None
    assert together_ms > apart_ms
