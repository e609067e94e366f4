"""Batches, drops and turns of an executor, against those of the simulator."""

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plan_simulation import Interference, Settings, simulate
from bench.replay.batching import ExecutorQueues, SlotQueue
from bench.simulation.arrivals import Stream, parse_arrivals
from bench.simulation.layout import sites
from instances import Gpulet, Instance, PlacedGpu, Plan, Slot
from instances.queueing import batch_latencies_ms


def serve(
    executor: ExecutorQueues,
    arrivals_ms: Sequence[np.ndarray],
    service_ms: Callable[[int, int], float],
    delay_ms: Callable[[int, int], float] = lambda *_: 0.0,
) -> tuple[list[dict[int, float]], int]:
    """Serve in virtual time as a worker does in real time.

    Return the latencies in ms by request for each slot, and the number of dropped requests.
    """
    events = sorted((ms, place, n) for place, times_ms in enumerate(arrivals_ms) for n, ms in enumerate(times_ms))
    latencies: list[dict[int, float]] = [{} for _ in arrivals_ms]
    now_ms, arrived, drops = 0.0, 0, 0
    while True:
        while arrived < len(events) and events[arrived][0] <= now_ms:
            due_ms, place, number = events[arrived]
            executor.queues[place].waiting.append((number, due_ms))
            arrived += 1
        ready_ms, place = executor.next()
        if ready_ms > now_ms:
            next_arrival_ms = events[arrived][0] if arrived < len(events) else np.inf
            if min(ready_ms, next_arrival_ms) == np.inf:
                return latencies, drops
            now_ms = min(ready_ms, next_arrival_ms)
            continue
        batch, dropped = executor.take(place, now_ms)
        drops += len(dropped)
        if batch:
            now_ms += service_ms(place, len(batch))
            done_ms = now_ms + delay_ms(place, len(batch))
            latencies[place] |= {number: done_ms - arrivals_ms[place][number] for number in batch}


@given(
    st.lists(st.floats(0.0, 50.0), min_size=1, max_size=60),
    st.integers(1, 5),
    st.floats(0.0, 30.0),
    st.floats(0.1, 40.0),
)
def test_a_slot_alone_has_the_latencies_of_the_common_batch_queue(
    gaps_ms: list[float], batch: int, timeout_ms: float, service_ms: float
) -> None:
    arrivals_ms = np.cumsum(gaps_ms)
    expected_ms = np.empty_like(arrivals_ms)
    batch_latencies_ms(arrivals_ms, batch, service_ms, timeout_ms, expected_ms)

    turns = ExecutorQueues([SlotQueue(batch, timeout_ms, 100.0, service_ms, service_ms)], dropping=False)
    (latencies,), drops = serve(turns, [arrivals_ms], lambda *_: service_ms)

    assert drops == 0
    assert [latencies[n] for n in range(len(arrivals_ms))] == pytest.approx(list(expected_ms))


class _QueueWithTable(SlotQueue):
    """Queue of a slot whose expected times are those of the simulator."""

    table_ms: np.ndarray

    def expected_ms(self, size: int) -> float:
        return float(self.table_ms[size])


@pytest.mark.parametrize("share_units", [4, 10])
def test_slots_that_take_turns_drop_and_serve_as_in_the_simulator(
    share_units: int, make_instance: Callable[..., Instance]
) -> None:
    """On 4 share units the slots are overloaded and drop requests; on 10 they are not."""
    instance = make_instance(
        workloads=[
            {"id": "w1", "model": "alexnet", "slo_ms": 30, "rate_rps": 150},
            {"id": "w2", "model": "resnet50", "slo_ms": 60, "rate_rps": 60},
        ]
    )
    slots = (Slot("w1", 4, 150.0), Slot("w2", 3, 60.0))
    plan = Plan(instance.name, (PlacedGpu("v100", (Gpulet(share_units, slots, 25.0),)),))
    settings = Settings(parse_arrivals("poisson"), 20.0, 0.0, interference=Interference.STATIC)
    (site,) = sites(plan, instance, instance)
    # Requests after the 20 s are needed to fill the last batches.
    streams = [Stream(settings.arrivals, w.rate_rps, 0, w.id).until(21_000.0) for w in instance.workloads]

    queues = []
    for row, slot in enumerate(site.slots):
        queues.append(_QueueWithTable(int(slot["batch"]), float(slot["timeout_ms"]), float(slot["slo_ms"]), 0.0, 0.0))
        queues[-1].table_ms = site.times[row]["promised_ms"]
    busy_ms = site.times["gpu_ms"] + site.times["tail_ms"]
    delay_ms = site.times["delay_ms"]
    latencies, _ = serve(
        ExecutorQueues(queues, dropping=True),
        streams,
        lambda place, size: float(busy_ms[place, size]),
        lambda place, size: float(delay_ms[place, size]),
    )

    expected = simulate(plan, instance, settings)
    assert (sum(workload.dropped for workload in expected.workloads) > 50) == (share_units == 4)
    for workload, latency_ms in zip(expected.workloads, latencies, strict=True):
        measured = [ms for number, ms in latency_ms.items() if number < workload.requests]
        assert len(measured) == workload.requests - workload.dropped
        assert workload.mean_ms == pytest.approx(np.mean(measured))


def test_a_batch_is_filled_up_after_a_late_request_is_dropped() -> None:
    queue = SlotQueue(batch=2, timeout_ms=0.0, slo_ms=10.0, single_ms=5.0, full_ms=5.0)
    queue.waiting.extend([(0, 0.0), (1, 7.0), (2, 7.5)])

    assert ExecutorQueues([queue], dropping=True).take(0, 8.0) == ([1, 2], [0])


def test_after_a_drop_a_partial_batch_waits_for_its_timeout() -> None:
    queue = SlotQueue(batch=2, timeout_ms=4.0, slo_ms=10.0, single_ms=5.0, full_ms=5.0)
    queue.waiting.extend([(0, 0.0), (1, 7.0)])
    turns = ExecutorQueues([queue], dropping=True)

    assert turns.take(0, 8.0) == ([], [0])
    assert turns.next() == (11.0, 0)


def test_without_dropping_late_requests_are_served() -> None:
    queue = SlotQueue(batch=2, timeout_ms=0.0, slo_ms=1.0, single_ms=5.0, full_ms=5.0)
    queue.waiting.extend([(0, 0.0), (1, 1.0)])

    assert ExecutorQueues([queue], dropping=False).take(0, 90.0) == ([0, 1], [])


def test_times_of_partial_batches_are_interpolated_linearly() -> None:
    queue = SlotQueue(batch=5, timeout_ms=0.0, slo_ms=1.0, single_ms=2.0, full_ms=10.0)

    assert [queue.expected_ms(size) for size in (1, 3, 5)] == [2.0, 6.0, 10.0]
    assert SlotQueue(1, 0.0, 1.0, 3.0, 3.0).expected_ms(1) == 3.0
