"""Queue of one slot: first come first served, in batches, with a dispatch timeout."""

from functools import lru_cache

import numpy as np
from numba import njit

from instances.arrays import Floats

P99_REQUESTS = 20_000
P99_SEED = 20_220_711
P99_TOLERANCE = 1e-6


@njit(cache=True)
def next_batch(
    arrivals_ms: Floats, first: int, known: int, free_ms: float, batch: int, timeout_ms: float
) -> tuple[float, int]:
    """Return the start of the next batch and the position of the first request after it.

    A batch starts as soon as the server is free and either ``batch`` requests wait or the oldest has waited
    ``timeout_ms``; it takes the requests that wait then, up to ``batch``.

    Parameters
    ----------
    arrivals_ms
        Arrival times, nondecreasing from ``first`` to ``known``.
    first, known
        Positions of the oldest waiting request and of the end of the known arrivals.
    free_ms
        End of the previous batch.
    batch, timeout_ms
        Figures of the slot.
    """
    ready_ms = arrivals_ms[first] + timeout_ms
    if first + batch <= known:
        ready_ms = min(ready_ms, arrivals_ms[first + batch - 1])
    start_ms = max(free_ms, ready_ms)
    last = first
    while last < known and last < first + batch and arrivals_ms[last] <= start_ms:
        last += 1
    return start_ms, last


@njit(cache=True)
def batch_latencies_ms(
    arrivals_ms: Floats, batch: int, service_ms: float, timeout_ms: float, latencies_ms: Floats
) -> None:
    """Serve arrivals in batches on one server and write each request's latency.

    Batches start by the rule of ``next_batch`` and always last ``service_ms``. No request is dropped, so late requests
    count with their whole latency.

    Parameters
    ----------
    arrivals_ms
        Arrival times, nondecreasing, shape (requests,).
    batch, service_ms, timeout_ms
        Figures of the slot.
    latencies_ms
        Output, shape (requests,).
    """
    free_ms, first = 0.0, 0
    while first < len(arrivals_ms):
        start_ms, last = next_batch(arrivals_ms, first, len(arrivals_ms), free_ms, batch, timeout_ms)
        free_ms = start_ms + service_ms
        for request in range(first, last):
            latencies_ms[request] = free_ms - arrivals_ms[request]
        first = last


@lru_cache(maxsize=1)
def _unit_rate_arrivals() -> Floats:
    """Return one fixed sample of a Poisson process of rate 1; other rates scale it."""
    gaps = np.random.Generator(np.random.PCG64(P99_SEED)).standard_exponential(P99_REQUESTS)
    return np.cumsum(gaps)


def p99_latency_ms(batch: int, service_ms: float, timeout_ms: float, rate_rps: float) -> float:
    """Return the P99 latency of the fixed Poisson sample at ``rate_rps``, in ms."""
    arrivals_ms = _unit_rate_arrivals() * (1000.0 / rate_rps)
    latencies_ms = np.empty_like(arrivals_ms)
    batch_latencies_ms(arrivals_ms, batch, service_ms, timeout_ms, latencies_ms)
    # The smallest latency that at least 99 % of the requests do not exceed.
    rank = -(-99 * len(latencies_ms) // 100) - 1
    return float(np.partition(latencies_ms, rank)[rank])


@lru_cache(maxsize=65_536)
def p99_service_budget_ms(slo_ms: float, rate_rps: float, batch: int) -> float:
    """Return the largest full-batch service time whose simulated P99 is within the SLO, by bisection.

    The dispatch timeout is half the SLO. The result is also a definition: a fixed sample of 20,000 Poisson arrivals,
    bisected to a relative 1e-6, gives every method the same number. P99 is not exactly monotone in the service time,
    since a batch that waits longer is fuller. Within 1 % of the result a longer service may meet the SLO too, and a
    shorter one miss it.

    Returns
    -------
    float
        Milliseconds; 0 if every service time misses the SLO.
    """
    timeout_ms = slo_ms / 2.0
    low, high = 0.0, slo_ms
    while high - low > P99_TOLERANCE * slo_ms:
        middle = (low + high) / 2.0
        if p99_latency_ms(batch, middle, timeout_ms, rate_rps) <= slo_ms:
            low = middle
        else:
            high = middle
    return low
