"""The load generator: times of requests, its own lateness, and the slots that get the requests."""

from collections.abc import Callable
from itertools import repeat

import numpy as np
import pytest

from bench.replay.generator import routes, send
from bench.replay.recording import DROPPED, NO_SLOT, REQUEST, SharedRequests
from bench.replay.result import invalid_reason, lateness
from bench.simulation.routing import next_slot, routing_of


class Clock:
    """Clock on which only sleeping takes time, each time ``oversleeps_ms`` longer than asked for."""

    def __init__(self, oversleeps_ms: float) -> None:
        self.now_ms, self.oversleeps_ms = 0.0, oversleeps_ms

    def __call__(self) -> float:
        return self.now_ms

    def sleep(self, wait_ms: float) -> None:
        self.now_ms += wait_ms + self.oversleeps_ms


@pytest.fixture
def sent() -> Callable[..., SharedRequests]:
    """Send 200 requests of one workload, 10 ms apart, to ``slot``."""

    def call(clock: Clock, slot: int = 0) -> SharedRequests:
        requests = np.zeros(200, dtype=REQUEST)
        requests["due_ms"], requests["slot"] = 10.0 * np.arange(1, 201), NO_SLOT
        shared = SharedRequests.in_new_file(requests)
        send(
            shared,
            [[repeat(slot)]],
            deliver=lambda *_: None,
            close_plan=lambda _: None,
            clock=clock,
            sleep=clock.sleep,
        )
        return shared

    return call


def test_the_lateness_of_requests_does_not_add_up(sent: Callable[..., SharedRequests]) -> None:
    requests = sent(Clock(oversleeps_ms=0.25)).requests

    assert requests["sent_ms"] - requests["due_ms"] == pytest.approx(np.full(200, 0.25))
    assert invalid_reason(lateness(requests)) is None


def test_a_generator_that_is_late_makes_the_replay_invalid(sent: Callable[..., SharedRequests]) -> None:
    late = lateness(sent(Clock(oversleeps_ms=1.5)).requests)

    assert late is not None
    assert late["p99"] == pytest.approx(1.5)
    assert invalid_reason(late) == "the load generator was 1.50 ms late at P99; a valid replay has at most 1 ms"


def test_lateness_is_in_percentiles_over_requests() -> None:
    requests = np.zeros(1000, dtype=REQUEST)
    requests["sent_ms"][:10] = 50.0

    assert lateness(requests) == {"mean": 0.5, "p50": 0.0, "p90": 0.0, "p99": 0.0, "max": 50.0}
    requests["sent_ms"][10] = 40.0
    assert lateness(requests)["p99"] == 40.0  # type: ignore[index] # requests were sent
    assert lateness(requests[:0]) is None
    assert invalid_reason(None) == "no request was sent"


def test_requests_are_divided_as_in_the_simulator() -> None:
    rates = [30.0, 10.0, 60.0]
    routing = routing_of(1, np.zeros(3, dtype=np.int64), np.array(rates))

    (slots,) = routes([(number, 0, rate) for number, rate in enumerate(rates)], np.zeros(200, dtype=REQUEST))

    assert list(slots) == [next_slot(routing, 0) for _ in range(200)]


def test_requests_of_a_workload_without_slots_are_routed_to_no_slot() -> None:
    requests = np.zeros(5, dtype=REQUEST)
    requests["workload"] = [0, 1, 0, 2, 1]

    # The only slot has number 7 and serves workload 1.
    assert [list(slots) for slots in routes([(7, 1, 30.0)], requests)] == [[NO_SLOT] * 2, [7, 7], [NO_SLOT]]


def test_requests_without_a_slot_are_dropped(sent: Callable[..., SharedRequests]) -> None:
    requests = sent(Clock(0.0), NO_SLOT).requests

    assert set(requests["outcome"]) == {DROPPED}
    assert set(requests["slot"]) == {NO_SLOT}


def test_after_a_switch_requests_go_to_the_second_plan() -> None:
    requests = np.zeros(6, dtype=REQUEST)
    requests["due_ms"] = np.arange(6.0)
    shared = SharedRequests.in_new_file(requests)
    delivered, finished_plans = [], []

    def deliver(request: int, slot: int) -> None:
        delivered.append((request, slot))
        if request == 2:
            shared.plan = 1

    clock = Clock(0.0)
    send(shared, [[repeat(0)], [repeat(1)]], deliver, finished_plans.append, clock, clock.sleep)

    assert delivered == [(0, 0), (1, 0), (2, 0), (3, 1), (4, 1), (5, 1)]
    assert finished_plans == [0]
