"""The batch queue: against values worked out by hand, textbook queues and an event-by-event simulation."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from instances.queueing import (
    P99_REQUESTS,
    P99_SEED,
    batch_latencies_ms,
    next_batch,
    p99_latency_ms,
    p99_service_budget_ms,
)
from tests.instances.reference import percentile_99, served_latencies_ms


def latencies_ms(arrivals_ms: list[float], batch: int, service_ms: float, timeout_ms: float) -> list[float]:
    """Return the latencies of the compiled kernel."""
    latencies = np.full(len(arrivals_ms), -1.0)
    batch_latencies_ms(np.array(arrivals_ms, float), batch, service_ms, timeout_ms, latencies)
    return latencies.tolist()


@pytest.mark.parametrize(
    ("arrivals", "batch", "service", "timeout", "expected"),
    [
        pytest.param([], 4, 3.0, 5.0, [], id="no requests"),
        pytest.param([7.0], 1, 3.0, 5.0, [3.0], id="a batch of one leaves at once"),
        pytest.param([7.0], 2, 3.0, 5.0, [8.0], id="a lone request waits for the timeout"),
        pytest.param([0.0, 3.0, 5.0, 20.0], 3, 4.0, 8.0, [9.0, 6.0, 4.0, 12.0], id="full at 5; the last waits till 28"),
        pytest.param([0.0, 3.0, 20.0], 3, 4.0, 8.0, [12.0, 9.0, 12.0], id="times out at 8 with two requests"),
        pytest.param([0.0, 8.0], 3, 4.0, 8.0, [12.0, 4.0], id="a request that arrives at the timeout joins"),
        pytest.param([0.0, 1.0, 2.0, 3.0], 2, 10.0, 5.0, [11.0, 10.0, 19.0, 18.0], id="the second batch waits"),
        pytest.param(
            [0.0, 1.0, 2.0, 10.5], 2, 10.0, 5.0, [11.0, 10.0, 19.0, 10.5], id="a partner joins while the server is busy"
        ),
        pytest.param([0.0, 0.0, 0.0], 2, 1.0, 4.0, [1.0, 1.0, 5.0], id="all at once"),
        pytest.param([0.0, 0.0, 0.0], 2, 1.0, 0.0, [1.0, 1.0, 2.0], id="no timeout at all"),
    ],
)
def test_latencies_are_as_worked_out_by_hand(
    arrivals: list[float], batch: int, service: float, timeout: float, expected: list[float]
) -> None:
    assert latencies_ms(arrivals, batch, service, timeout) == expected
    assert served_latencies_ms(arrivals, batch, service, timeout) == expected


def test_d_d_1_below_capacity_serves_at_once() -> None:
    assert latencies_ms([10.0 * k for k in range(100)], 1, 4.0, 5.0) == [4.0] * 100


def test_d_d_1_beyond_capacity_falls_behind_by_a_constant() -> None:
    assert latencies_ms([10.0 * k for k in range(100)], 1, 12.0, 5.0) == [12.0 + 2.0 * k for k in range(100)]


def test_d_d_1_in_full_batches_waits_for_the_last_request() -> None:
    # Four every 40 ms, 12 ms each: the first waits 30 ms, the last not at all
    assert latencies_ms([10.0 * k for k in range(40)], 4, 12.0, 100.0) == [42.0, 32.0, 22.0, 12.0] * 10


@pytest.mark.parametrize("load", [0.2, 0.5, 0.8])
def test_mean_waits_in_m_d_1_agree_with_theory(load: float) -> None:
    """Pollaczek-Khinchine: the mean wait is load / (2 (1 - load)) service times."""
    arrivals = np.cumsum(np.random.default_rng(14).exponential(10.0, 1_000_000))
    latencies, service_ms = np.empty_like(arrivals), 10.0 * load

    batch_latencies_ms(arrivals, 1, service_ms, 5.0, latencies)

    assert np.mean(latencies - service_ms) == pytest.approx(service_ms * load / (2 * (1 - load)), rel=0.02)


def test_kernel_agrees_with_an_event_by_event_simulation() -> None:
    random = Random(15)
    for _ in range(300):
        batch, timeout = random.randint(1, 6), random.choice([0.0, random.uniform(0.1, 30.0)])
        service = random.uniform(0.1, 30.0)
        now, arrivals = 0.0, []
        for _ in range(80):
            now += random.choice([0.0, random.expovariate(0.1), random.expovariate(1.0)])
            arrivals.append(now)

        assert latencies_ms(arrivals, batch, service, timeout) == served_latencies_ms(arrivals, batch, service, timeout)


def batch_by_events(
    arrivals_ms: list[float], first: int, free_ms: float, batch: int, timeout_ms: float
) -> tuple[float, int]:
    """Return the start of the next batch and the first request after it, by trying the time of every event."""
    times_ms = sorted({free_ms, *arrivals_ms[first:], arrivals_ms[first] + timeout_ms})
    for now in times_ms:
        waiting = [k for k in range(first, len(arrivals_ms)) if arrivals_ms[k] <= now]
        if now >= free_ms and waiting and (len(waiting) >= batch or now >= arrivals_ms[first] + timeout_ms):
            return now, first + min(batch, len(waiting))
    raise AssertionError("the timeout is one of the times")


@given(
    quarters=st.lists(st.integers(0, 80), min_size=1, max_size=15).map(sorted),
    place=st.floats(0.0, 1.0, exclude_max=True),
    free=st.integers(0, 100),
    batch=st.integers(1, 6),
    timeout=st.integers(0, 60),
)
def test_the_next_batch_starts_at_the_first_possible_event(
    quarters: list[int], place: float, free: int, batch: int, timeout: int
) -> None:
    arrivals = [quarter / 4.0 for quarter in quarters]
    first = int(place * len(arrivals))

    start_and_end = next_batch(np.array(arrivals), first, len(arrivals), free / 4.0, batch, timeout / 4.0)

    assert start_and_end == batch_by_events(arrivals, first, free / 4.0, batch, timeout / 4.0)


def test_the_next_batch_sees_only_known_requests() -> None:
    arrivals = np.array([1.0, 2.0, 3.0, 4.0])

    assert next_batch(arrivals, 0, 4, 0.0, 2, 5.0) == (2.0, 2)
    assert next_batch(arrivals, 0, 1, 0.0, 2, 5.0) == (6.0, 1)
    assert next_batch(arrivals, 1, 3, 9.0, 8, 5.0) == (9.0, 3)


def test_requests_are_served_in_order_of_arrival() -> None:
    random = Random(16)
    arrivals = sorted(random.uniform(0.0, 1000.0) for _ in range(500))

    latencies = latencies_ms(arrivals, 4, 9.0, 20.0)

    ends = [arrival + latency for arrival, latency in zip(arrivals, latencies, strict=True)]
    assert min(latencies) >= 9.0 - 1e-9
    assert ends == sorted(ends)


# In batches of 4, the 99th of 100 requests waits for the timeout; in batches of 1, none waits for others
@pytest.mark.parametrize(("batch", "service_ms"), [(4, 9.0), (1, 2.0)])
def test_p99_is_the_percentile_of_a_fixed_sample(batch: int, service_ms: float) -> None:
    sample = np.cumsum(np.random.Generator(np.random.PCG64(P99_SEED)).standard_exponential(P99_REQUESTS))

    expected = percentile_99(served_latencies_ms((sample * (1000.0 / 300.0)).tolist(), batch, service_ms, 20.0))

    assert p99_latency_ms(batch, service_ms, 20.0, 300.0) == expected


def test_a_longer_service_can_make_a_request_faster() -> None:
    """A server that is busy until 16.5 includes the last request in its batch; one that is free at 15 does not."""
    arrivals = [0.0, 0.0, 5.0, 16.0]

    assert latencies_ms(arrivals, 2, 8.0, 10.0) == [8.0, 8.0, 18.0, 18.0]
    assert latencies_ms(arrivals, 2, 16.5, 10.0) == [16.5, 16.5, 28.0, 17.0]


def test_p99_budgets_separate_sufficient_from_excessive_times_within_a_percent() -> None:
    """P99 is not quite monotone in the service time (see above), so the threshold is slightly fuzzy."""
    random = Random(17)
    for _ in range(150):
        slo_ms, batch = random.uniform(10, 100), random.choice([1, 2, 3, 4, 8, 16])
        rate_rps = 2000.0 * batch / (slo_ms * random.uniform(0.1, 3.0))  # batches fill before or after the timeout
        budget_ms = p99_service_budget_ms(slo_ms, rate_rps, batch)

        for shorter in (0.2, 0.5, 0.8, 0.95, 0.99):
            assert p99_latency_ms(batch, shorter * budget_ms, slo_ms / 2, rate_rps) <= slo_ms
        for longer in (1.01, 1.05, 1.2, 2.0):
            assert p99_latency_ms(batch, longer * budget_ms, slo_ms / 2, rate_rps) > slo_ms


@pytest.mark.parametrize("rate_rps", [5e-324, 1e-300, 1e-12, 1e-3])
@pytest.mark.parametrize("slo_ms", [1.0, 40.0, 6e5, 1e300])
def test_p99_budgets_at_tiny_rates_leave_half_the_slo_for_the_timeout(rate_rps: float, slo_ms: float) -> None:
    """At a rate of 5e-324, arrival times must not overflow to infinity."""
    if rate_rps * slo_ms > 0.1:
        return  # not a low rate for this SLO
    assert p99_service_budget_ms(slo_ms, rate_rps, 4) == pytest.approx(slo_ms / 2.0, rel=1e-5)
    assert p99_service_budget_ms(slo_ms, rate_rps, 1) == pytest.approx(slo_ms, rel=1e-3)


def test_p99_budgets_are_repeatable() -> None:
    first = p99_service_budget_ms(40.0, 200.0, 4)
    p99_service_budget_ms.cache_clear()

    assert p99_service_budget_ms(40.0, 200.0, 4) == first
