"""Fraction of late requests of one slot whose server drops none, under Poisson arrivals: a bulk queue, solved exactly.

**Discipline.** A free server starts a batch with the requests that wait, up to ``b``, or with the next request. Results
of a batch of k are there after ``result_ms[k]``; the server is free again after ``busy_ms[k]``. The queue is stable if
fewer than b requests arrive, on average, during a full batch (Bailey 1954).

**States.** ``instances.backlog_levels`` computes how many requests wait at the ends of batches.

**Late requests** are counted at their arrivals. If a request arrives u ms after the start of a batch and finds n
requests waiting, then floor(n / b) full batches follow, and its own starts ``busy - u + busy_ms[b] floor(n / b)``
later. Its batch may be smaller than b and end in time although a full batch would not; these requests are subtracted.

All terms are sums of Poisson probabilities, so the only error is that of rounding.
"""

import math

from instances.arrays import Floats
from instances.backlog_levels import (
    NEGLIGIBLE,
    Backlog,
    count_arrivals,
    decay_of,
    fill_ladder,
    fill_levels_above,
    fill_levels_below,
    size_for,
)
from instances.compiled import kernel

FULL_LOAD = 1.0 - 1e-9
"""Load from which a server without dropping counts as unstable."""

HARDLY_ANY = 1e-9
"""Mean number of arrivals during a batch below which the fraction of requests that wait is not computed further."""

SPARE = 1e-7
"""Probability of a state below which requests that are in time by a small batch are not subtracted."""


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
        Time of a batch of k until its results are there, and until the server is free again, at index k from 1 to
        ``batch``; nondecreasing.
    """
    mean = rate_per_ms * busy_ms[batch]
    if slo_ms < result_ms[batch] or mean >= FULL_LOAD * batch:
        return 1.0
    if mean < HARDLY_ANY:
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
def _excess(mean: float, out: Floats, size: int) -> None:
    """Write the mean of what Poisson arrivals exceed m by, at index m below ``size``."""
    count_arrivals(mean, out, size)
    more, sum_ = 0.0, 0.0
    for m in range(size - 1, -1, -1):
        p = out[m]
        out[m] = sum_
        more += p
        sum_ += more


@kernel
def _mean_beyond(mean: float, m: int) -> float:
    """Return the mean of what Poisson arrivals exceed m by."""
    p, fewer = math.exp(-mean), 0.0
    for n in range(m):
        fewer += p
        p *= mean / (n + 1)
    return max(0.0, (mean - m) * (1.0 - fewer) + m * p)


@kernel
def _batches_before_late(busy_ms: float, full_ms: float, latest_ms: float) -> float:
    """Return the least number of full batches after which the requests of a batch of ``busy_ms`` may be late."""
    return max(0.0, math.floor((latest_ms - busy_ms) / full_ms) + 1.0)


@kernel
def _late_after_small(
    memory: Backlog, rate_per_ms: float, slo_ms: float, batch: int, result_ms: Floats, busy_ms: Floats
) -> float:
    """Return the mean number of late requests among those that arrive during a batch that is not full.

    A batch of one that serves the next request counts among them if b is 1, too.
    """
    latest_ms, full_ms, size, late = slo_ms - result_ms[batch], busy_ms[batch], size_for(batch), 0.0
    for k in range(1, max(batch, 2)):
        weight = (memory.level[k] if k < batch else 0.0) + (memory.level[0] if k == 1 else 0.0)
        queued = _batches_before_late(busy_ms[k], full_ms, latest_ms)
        if weight < NEGLIGIBLE or queued * batch >= size:
            continue
        least = int(queued) * batch
        early = rate_per_ms * min(busy_ms[k], busy_ms[k] + queued * full_ms - latest_ms)
        beyond = _mean_beyond(rate_per_ms * busy_ms[k], least + batch) - _mean_beyond(early, least + batch)
        late += weight * (_mean_beyond(early, least) + beyond)
        if weight < SPARE:
            continue
        q = least // batch
        while (q + 1) * batch < size and q * full_ms < slo_ms - result_ms[1]:
            late -= weight * _saved(memory, rate_per_ms, slo_ms, batch, result_ms, busy_ms[k], full_ms, q, -1, 0.0)
            q += 1
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
    queued = _batches_before_late(full_ms, full_ms, latest_ms)
    if decay * batch * (queued - 1.0) > 80.0:
        return 0.0  # so long a queue practically never forms
    least = int(queued) * batch
    early_ms = min(full_ms, (queued + 1.0) * full_ms - latest_ms)
    _excess(rate_per_ms * early_ms, memory.started, size)
    _excess(rate_per_ms * full_ms, memory.finished, size)
    late = 0.0
    for left in range(max(0, least - size + 1), least + batch):
        chance = _level_at(memory, batch + left, last, decay)
        late += chance * memory.started[max(0, least - left)]
        if least + batch - left < size:
            late += chance * (memory.finished[least + batch - left] - memory.started[least + batch - left])
    late += _levels_from(memory, batch + least + batch, batch, last, decay, above) * rate_per_ms * full_ms
    q = int(queued)
    while q * full_ms < slo_ms - result_ms[1]:
        late -= _saved(memory, rate_per_ms, slo_ms, batch, result_ms, full_ms, full_ms, q, last, decay)
        q += 1
    return late


@kernel
def _level_at(memory: Backlog, n: int, last: int, decay: float) -> float:
    return memory.level[n] if n <= last else memory.level[last] * math.exp(-decay * (n - last))


@kernel
def _levels_from(memory: Backlog, n: int, batch: int, last: int, decay: float, above: float) -> float:
    """Return the sum of the levels from n up, of which ``above`` is the sum from ``batch`` up."""
    if n > last:
        return _level_at(memory, n, last, decay) / -math.expm1(-decay)
    found = above
    for k in range(batch, n):
        found -= memory.level[k]
    return max(0.0, found)


@kernel
def _saved(
    memory: Backlog,
    rate_per_ms: float,
    slo_ms: float,
    batch: int,
    result_ms: Floats,
    begun_ms: float,
    full_ms: float,
    q: int,
    last: int,
    decay: float,
) -> float:
    """Return the mean number of requests that are in time only because their batch is not full.

    They arrive during a batch of ``begun_ms`` and are served after q more full batches. If ``last`` is negative, the
    former batch is not full and takes all waiting requests; otherwise ``last`` and ``decay`` describe the levels.
    """
    latest_ms, start_ms = slo_ms - result_ms[batch], begun_ms + q * full_ms
    until_ms, saved = min(begun_ms, start_ms - latest_ms), 0.0
    if until_ms <= 0.0 or batch == 1:
        return 0.0
    count_arrivals(rate_per_ms * (start_ms - until_ms), memory.started, batch)
    possible = 0.0
    for n in range(batch):
        possible += memory.started[n]
    if possible < NEGLIGIBLE:
        return 0.0
    _queue(memory, rate_per_ms * until_ms, batch, batch, q, last, decay)
    for k in range(1, batch):
        if start_ms - (slo_ms - result_ms[k]) < until_ms:
            for t in range(1, k + 1):
                saved += memory.finished[t] * memory.started[k - t]
    for k in range(1, batch):
        from_ms = start_ms - (slo_ms - result_ms[k])
        if 0.0 < from_ms < until_ms:
            _queue(memory, rate_per_ms * from_ms, k + 1, batch, q, last, decay)
            count_arrivals(rate_per_ms * (start_ms - from_ms), memory.started, k)
            for t in range(1, k + 1):
                saved -= memory.finished[t] * memory.started[k - t]
    return saved


@kernel
def _queue(memory: Backlog, mean: float, terms: int, batch: int, q: int, last: int, decay: float) -> None:
    """Write the mean number of new requests beyond q full batches, where t requests are beyond these in all.

    They go to ``finished`` at index t below ``terms``; ``mean`` is that of the arrivals so far.
    """
    size = size_for(batch)
    count_arrivals(mean, memory.arrivals, size)
    for t in range(1, terms):
        total, found = q * batch + t, 0.0
        if last < 0:
            found = memory.arrivals[total] * t
        else:
            for left in range(max(0, total - size + 1), total):
                new = total - left
                found += _level_at(memory, batch + left, last, decay) * memory.arrivals[new] * min(new, t)
        memory.finished[t] = found
