"""Fraction of late requests of one slot whose server drops none, under Poisson arrivals: a bulk queue, solved exactly.

**Discipline.** A free server starts a batch with the waiting requests, up to ``b``; if none waits, it starts with the
next request. The results of a batch of k are available after ``result_ms[k]``; the server is free again after
``busy_ms[k]``. The queue is stable if fewer than b requests arrive, on average, during a full batch (Bailey 1954).

**States.** ``instances.backlog_levels`` computes how many requests wait at the ends of batches.

**Late requests** are counted at their arrivals. If a request arrives u ms after the start of a batch of k and finds n
requests waiting, floor(n / b) full batches precede its own batch. Its own batch starts
``busy_ms[k] - u + busy_ms[b] floor(n / b)`` after its arrival. Requests are first counted as if this batch were full.
If it is smaller, it may end in time although a full batch would be late. Such requests are counted separately and
subtracted.

All terms are sums of Poisson probabilities, so the only error is rounding.
"""

import math

from instances.arrays import Floats
from instances.backlog_levels import (
    NEGLIGIBLE,
    Backlog,
    decay_of,
    fill_arrivals,
    fill_ladder,
    fill_levels_above,
    fill_levels_below,
    size_for,
)
from instances.compiled import kernel

FULL_LOAD = 1.0 - 1e-9
"""Load from which a server without dropping counts as unstable."""

FEW_ARRIVALS = 1e-9
"""Mean number of arrivals during a full batch. Below it, ``late_fraction`` returns the mean: an upper bound on it."""

SUBTRACTED = 1e-7
"""Least probability of a state whose requests that are in time only because of a small batch are subtracted."""


@kernel
def late_fraction(
    memory: Backlog, rate_per_ms: float, slo_ms: float, batch: int, result_ms: Floats, busy_ms: Floats
) -> float:
    """Return the fraction of a slot's requests that are late; 1 if a full batch exceeds the SLO or the queue grows.

    Parameters
    ----------
    memory
        Working memory for at least this batch.
    result_ms, busy_ms
        Time of a batch of k until its results are available, and until the server is free again, at index k from 1 to
        ``batch``; nondecreasing.
    """
    mean = rate_per_ms * busy_ms[batch]
    if slo_ms < result_ms[batch] or mean >= FULL_LOAD * batch:
        return 1.0
    if mean < FEW_ARRIVALS:
        return mean  # a request waits only if it arrives during a batch
    fill_ladder(memory, mean / batch, batch)
    fill_levels_below(memory, rate_per_ms, batch, busy_ms)
    decay = decay_of(mean / batch)
    last, above = fill_levels_above(memory, mean, rate_per_ms, batch, busy_ms, decay)
    served = memory.level[0] + batch * above
    for n in range(1, batch):
        served += n * memory.level[n]
    late = _late_after_small(memory, rate_per_ms, slo_ms, batch, result_ms, busy_ms)
    late += _late_after_full(memory, rate_per_ms, slo_ms, batch, result_ms, busy_ms, decay, last, above)
    return min(1.0, max(0.0, late / served))


@kernel
def _fill_mean_excess(mean: float, out: Floats, size: int) -> None:
    """Write the mean excess ``E[max(0, X - m)]`` of a number X of Poisson arrivals, at each index m below ``size``."""
    fill_arrivals(mean, out, size)
    tail, excess = 0.0, 0.0
    for m in range(size - 1, -1, -1):
        probability = out[m]
        out[m] = excess
        tail += probability
        excess += tail


@kernel
def _mean_excess(mean: float, m: int) -> float:
    """Return the mean excess ``E[max(0, X - m)]`` of a number X of Poisson arrivals."""
    probability, below_m = math.exp(-mean), 0.0
    for n in range(m):
        below_m += probability
        probability *= mean / (n + 1)
    return max(0.0, (mean - m) * (1.0 - below_m) + m * probability)


@kernel
def _batches_before_late(busy_ms: float, full_ms: float, latest_ms: float) -> float:
    """Return the fewest full batches after which a request that arrives during a batch of ``busy_ms`` may be late."""
    return max(0.0, math.floor((latest_ms - busy_ms) / full_ms) + 1.0)


@kernel
def _late_after_small(
    memory: Backlog, rate_per_ms: float, slo_ms: float, batch: int, result_ms: Floats, busy_ms: Floats
) -> float:
    """Return the mean number of late requests among those that arrive during a batch that is not full.

    If b is 1, a batch that serves the next request on an idle server counts as not full.
    """
    latest_ms, full_ms, size, late = slo_ms - result_ms[batch], busy_ms[batch], size_for(batch), 0.0
    for k in range(1, max(batch, 2)):
        probability = (memory.level[k] if k < batch else 0.0) + (memory.level[0] if k == 1 else 0.0)
        full_batches = _batches_before_late(busy_ms[k], full_ms, latest_ms)
        if probability < NEGLIGIBLE or full_batches * batch >= size:
            continue
        fewest_ahead = int(full_batches) * batch
        early_arrivals = rate_per_ms * min(busy_ms[k], busy_ms[k] + full_batches * full_ms - latest_ms)
        later_excess = _mean_excess(rate_per_ms * busy_ms[k], fewest_ahead + batch) - _mean_excess(
            early_arrivals, fewest_ahead + batch
        )
        late += probability * (_mean_excess(early_arrivals, fewest_ahead) + later_excess)
        if probability < SUBTRACTED:
            continue
        queued_batches = fewest_ahead // batch
        while (queued_batches + 1) * batch < size and queued_batches * full_ms < slo_ms - result_ms[1]:
            late -= probability * _in_time_by_small_batch(
                memory, rate_per_ms, slo_ms, batch, result_ms, busy_ms[k], full_ms, queued_batches, -1, 0.0
            )
            queued_batches += 1
    return late


@kernel
def _late_after_full(
    memory: Backlog,
    rate_per_ms: float,
    slo_ms: float,
    batch: int,
    result_ms: Floats,
    busy_ms: Floats,
    decay: float,
    last: int,
    above: float,
) -> float:
    """Return the mean number of late requests among those that arrive during a full batch.

    ``last`` is the last level that was computed and ``above`` the sum of the levels from ``batch`` up.
    """
    latest_ms, full_ms, size = slo_ms - result_ms[batch], busy_ms[batch], size_for(batch)
    full_batches = _batches_before_late(full_ms, full_ms, latest_ms)
    if decay * batch * (full_batches - 1.0) > 80.0:
        return 0.0  # such a long queue practically never forms
    fewest_ahead = int(full_batches) * batch
    early_ms = min(full_ms, (full_batches + 1.0) * full_ms - latest_ms)
    # The first buffer has the mean excess of the early arrivals, the second that of all arrivals during the batch.
    _fill_mean_excess(rate_per_ms * early_ms, memory.first_buffer, size)
    _fill_mean_excess(rate_per_ms * full_ms, memory.second_buffer, size)
    late = 0.0
    for waiting in range(max(0, fewest_ahead - size + 1), fewest_ahead + batch):
        probability = _level_at(memory, batch + waiting, last, decay)
        late += probability * memory.first_buffer[max(0, fewest_ahead - waiting)]
        if fewest_ahead + batch - waiting < size:
            late += probability * (
                memory.second_buffer[fewest_ahead + batch - waiting]
                - memory.first_buffer[fewest_ahead + batch - waiting]
            )
    late += _levels_from(memory, batch + fewest_ahead + batch, batch, last, decay, above) * rate_per_ms * full_ms
    queued_batches = int(full_batches)
    while queued_batches * full_ms < slo_ms - result_ms[1]:
        late -= _in_time_by_small_batch(
            memory, rate_per_ms, slo_ms, batch, result_ms, full_ms, full_ms, queued_batches, last, decay
        )
        queued_batches += 1
    return late


@kernel
def _level_at(memory: Backlog, n: int, last: int, decay: float) -> float:
    """Return the probability of level n; above the level ``last``, probabilities fall geometrically."""
    return memory.level[n] if n <= last else memory.level[last] * math.exp(-decay * (n - last))


@kernel
def _levels_from(memory: Backlog, n: int, batch: int, last: int, decay: float, above: float) -> float:
    """Return the sum of the levels from n up; ``above`` is the sum from ``batch`` up."""
    if n > last:
        return _level_at(memory, n, last, decay) / -math.expm1(-decay)
    total = above
    for k in range(batch, n):
        total -= memory.level[k]
    return max(0.0, total)


@kernel
def _in_time_by_small_batch(
    memory: Backlog,
    rate_per_ms: float,
    slo_ms: float,
    batch: int,
    result_ms: Floats,
    current_ms: float,
    full_ms: float,
    q: int,
    last: int,
    decay: float,
) -> float:
    """Return the mean number of requests that are in time only because their batch is not full.

    They arrive during a batch of ``current_ms``; q full batches follow, then their own. If ``last`` is negative, the
    current batch is not full and takes all waiting requests. Otherwise ``last`` and ``decay`` describe the levels.
    """
    latest_ms, start_ms = slo_ms - result_ms[batch], current_ms + q * full_ms
    until_ms, in_time = min(current_ms, start_ms - latest_ms), 0.0
    if until_ms <= 0.0 or batch == 1:
        return 0.0
    # The first buffer has the probabilities of later arrivals, the second the mean numbers of new requests by batch.
    fill_arrivals(rate_per_ms * (start_ms - until_ms), memory.first_buffer, batch)
    possible = 0.0
    for n in range(batch):
        possible += memory.first_buffer[n]
    if possible < NEGLIGIBLE:
        return 0.0
    _fill_new_in_last_batch(memory, rate_per_ms * until_ms, batch, batch, q, last, decay)
    for k in range(1, batch):
        if start_ms - (slo_ms - result_ms[k]) < until_ms:
            for size in range(1, k + 1):
                in_time += memory.second_buffer[size] * memory.first_buffer[k - size]
    for k in range(1, batch):
        from_ms = start_ms - (slo_ms - result_ms[k])
        if 0.0 < from_ms < until_ms:
            _fill_new_in_last_batch(memory, rate_per_ms * from_ms, k + 1, batch, q, last, decay)
            fill_arrivals(rate_per_ms * (start_ms - from_ms), memory.first_buffer, k)
            for size in range(1, k + 1):
                in_time -= memory.second_buffer[size] * memory.first_buffer[k - size]
    return in_time


@kernel
def _fill_new_in_last_batch(
    memory: Backlog, mean: float, terms: int, batch: int, q: int, last: int, decay: float
) -> None:
    """Write the mean number of new requests in a batch of t after q full batches, for t < ``terms``.

    The numbers are written into ``memory.second_buffer[t]``. New requests arrive during the current batch; ``mean`` is
    their mean number.
    """
    size = size_for(batch)
    fill_arrivals(mean, memory.arrivals, size)
    for t in range(1, terms):
        total, new_in_batch = q * batch + t, 0.0
        if last < 0:
            new_in_batch = memory.arrivals[total] * t
        else:
            for waiting in range(max(0, total - size + 1), total):
                new = total - waiting
                new_in_batch += _level_at(memory, batch + waiting, last, decay) * memory.arrivals[new] * min(new, t)
        memory.second_buffer[t] = new_in_batch
