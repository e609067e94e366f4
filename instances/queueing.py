"""Queue of one slot: first come first served, in batches, with a dispatch timeout."""

from functools import lru_cache

import numpy as np

from instances.arrays import Floats
from instances.compiled import compiled, kernel

P99_REQUESTS = 20_000
P99_SEED = 20_220_711
"""Number of arrivals in the sample of the rule ``p99``, and the sample's seed."""

P99_LEAST_LOAD = 1e-3
"""Least mean number of arrivals within an SLO; the rule ``p99`` raises lower rates to it. At lower rates 99.9 % of the
requests are alone in their batches, and latencies would be small differences of large times."""

P99_TOLERANCE = 1e-6
"""Precision of the budgets of the rule ``p99``, as a fraction of the SLO."""


@compiled
def next_batch(
    arrivals_ms: Floats, first: int, end: int, free_ms: float, batch: int, timeout_ms: float
) -> tuple[float, int]:
    """Return the start of the next batch and the position of the first request after it.

    A batch starts as soon as the server is free and either ``batch`` requests wait or the oldest has waited
    ``timeout_ms``; it takes the requests that wait at that moment, up to ``batch``.

    Parameters
    ----------
    arrivals_ms
        Arrival times, nondecreasing from ``first`` to ``end``.
    first, end
        Position of the oldest waiting request, and the position after the last arrival that is known.
    free_ms
        End of the previous batch.
    """
    ready_ms = arrivals_ms[first] + timeout_ms
    if first + batch <= end:
        ready_ms = min(ready_ms, arrivals_ms[first + batch - 1])
    start_ms = max(free_ms, ready_ms)
    next_first = first
    while next_first < end and next_first < first + batch and arrivals_ms[next_first] <= start_ms:
        next_first += 1
    return start_ms, next_first


@compiled
def batch_latencies_ms(
    arrivals_ms: Floats, batch: int, service_ms: float, timeout_ms: float, latencies_ms: Floats
) -> None:
    """Serve nondecreasing arrivals in batches on one server and write each request's latency, shape (requests,).

    Batches start by the rule of ``next_batch`` and always last ``service_ms``. No request is dropped, so late requests
    count with their whole latency.
    """
    free_ms, first = 0.0, 0
    while first < len(arrivals_ms):
        start_ms, next_first = next_batch(arrivals_ms, first, len(arrivals_ms), free_ms, batch, timeout_ms)
        free_ms = start_ms + service_ms
        for request in range(first, next_first):
            latencies_ms[request] = free_ms - arrivals_ms[request]
        first = next_first


BLOCKS = 40
"""Number of blocks of a sample from which the standard error of a fraction is estimated; a first block is ignored."""


@kernel
def missed_fraction_of_sample(
    arrivals: Floats, slo: float, batch: int, result: Floats, busy: Floats, dropping: bool, limit: float
) -> float:
    """Serve a sample of arrivals; return the fraction that is not served in time plus three standard errors.

    The discipline is that of ``instances.attainment``; without dropping, that of ``instances.backlog``. The standard
    error is that of the fractions of ``BLOCKS`` blocks of the sample, because late requests come in clusters. The block
    before these does not count, because the server is idle at first. All times are in units of the mean gap between
    arrivals.

    Parameters
    ----------
    arrivals
        Arrival times, nondecreasing.
    result, busy
        Time of a batch of k until its results are available, and until the server is free again, at index k.
    limit
        Fraction above which the exact value does not matter: the simulation stops there.
    """
    block_requests = (len(arrivals) - batch) // (BLOCKS + 1)
    first, free = 0, 0.0
    total, squares = 0.0, 0.0
    for block in range(BLOCKS + 1):
        missed = 0
        while first < (block + 1) * block_requests:
            now = max(free, arrivals[first])
            end = first + 1
            if arrivals[first + batch - 1] <= now:
                end = first + batch
            else:
                while arrivals[end] <= now:
                    end += 1
            if dropping:
                while first < end and now + result[end - first] - arrivals[first] > slo:
                    missed += 1
                    first += 1
                    if end < len(arrivals) and arrivals[end] <= now:
                        end += 1
                if first == end:
                    continue
            else:
                for request in range(first, end):
                    if now + result[end - first] - arrivals[request] <= slo:
                        break
                    missed += 1
            free = now + busy[end - first]
            first = end
        if block > 0:
            total += missed / block_requests
            squares += (missed / block_requests) ** 2
            if total > limit * BLOCKS:
                return total / block
    mean = total / BLOCKS
    variance = max(0.0, squares / BLOCKS - mean * mean) / (BLOCKS - 1)
    return mean + 3.0 * np.sqrt(variance)


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
    """Return, by bisection, the largest service time of a batch at which the simulated P99 is within the SLO, or 0.

    The dispatch timeout is half the SLO. The bisection on a fixed sample is part of the rule's definition, so every
    scheduler gets the same number. P99 is not exactly monotone in the service time, because a batch that waits longer
    has more requests. Within 1 % of the result, a longer service time may therefore meet the SLO, and a shorter service
    time may miss it.
    """
    rate_rps = max(rate_rps, 1000.0 * P99_LEAST_LOAD / slo_ms)
    timeout_ms = slo_ms / 2.0
    low, high = 0.0, slo_ms
    while high - low > P99_TOLERANCE * slo_ms:
        middle = (low + high) / 2.0
        if p99_latency_ms(batch, middle, timeout_ms, rate_rps) <= slo_ms:
            low = middle
        else:
            high = middle
    return low
