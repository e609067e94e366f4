"""Fraction of the requests of one slot that miss their SLO under Poisson arrivals, by an embedded Markov chain.

**Discipline**, as in the simulator. A batch starts when the server is free and either ``b`` requests wait or the oldest
has waited the timeout. At that moment, requests that would be late in a batch of this size are dropped, oldest first.
The results of a batch of k are there after ``result_ms[k]``; the server is free again after ``busy_ms[k]``. Served
requests are in time, so the missed fraction is the dropped fraction.

**State.** When the server becomes free, all waiting requests arrived in the last L ms, and the arrivals in this window
are a Poisson process. After a batch that took all waiting requests, L is the time of that batch. After a full batch,
the waiting requests arrived after its youngest: L is the age of the youngest at the start plus the time of the batch.
So L is a Markov chain, with one state for every smaller batch and a density for full batches. The age of the youngest
is ``min(L, latest) - E``: ``latest = SLO - result_ms[b]`` is the largest age at which a full batch can start, and E is
the time of b arrivals, which is Erlang distributed.

**Numerical error.** The age is put on equidistant nodes, ``RESOLUTION`` to a standard deviation of E. Mass between two
nodes is divided so that its mean is kept. This adds variance, so the fraction is too large: by 0.3 % of itself on
average and 2 % at most. The other transitions are sums of Poisson probabilities.
"""

from typing import NamedTuple

import numpy as np
from numba import njit

from instances.arrays import Floats
from instances.compiled import kernel

RESOLUTION = 12.0
"""Intervals of the age of a full batch's youngest request, for each standard deviation of the time of b arrivals."""

FEWEST_NODES, MOST_NODES = 32, 240
"""Least and largest number of these intervals."""

NEGLIGIBLE = 1e-12
"""Probability below which a full batch is left out."""

_POINTS, _WEIGHTS = np.polynomial.legendre.leggauss(5)
_POINTS, _WEIGHTS = (_POINTS + 1.0) / 2.0, _WEIGHTS / 2.0
"""Quadrature on [0, 1] over the age of a request that waits while older ones are dropped."""


class Chain(NamedTuple):
    """Working memory of ``missed_fraction`` for batches up to some size b.

    Attributes
    ----------
    points, weights
        Quadrature on [0, 1].
    next
        Transition probabilities, shape (b + nodes, b + nodes): states 0 to b - 2 follow a batch of 1 to b - 1, the
        others a full batch.
    lost, served
        Mean number of requests dropped and served from a state to the next.
    excess_ms, within
        ``E[(x - E)+]`` and ``P(E <= x)`` at the nodes x, shape (nodes + 2,).
    waiting
        Probability that j requests wait and that their batch starts later with k, shape (b + 1, b + 1).
    window, timeout, latest, level, after, kept, larger, step
        Probabilities of numbers of requests, shape (b + 2,).
    """

    points: Floats
    weights: Floats
    next: Floats
    lost: Floats
    served: Floats
    excess_ms: Floats
    within: Floats
    waiting: Floats
    window: Floats
    timeout: Floats
    latest: Floats
    level: Floats
    after: Floats
    kept: Floats
    larger: Floats
    step: Floats


@njit(cache=True)
def chain_for(batch: int, nodes: int) -> Chain:
    """Return working memory for batches up to ``batch``."""
    states = batch + nodes
    return Chain(
        _POINTS.copy(),
        _WEIGHTS.copy(),
        np.empty((states, states)),
        np.empty(states),
        np.empty(states),
        np.empty(nodes + 2),
        np.empty(nodes + 2),
        np.empty((batch + 1, batch + 1)),
        np.empty(batch + 2),
        np.empty(batch + 2),
        np.empty(batch + 2),
        np.empty(batch + 2),
        np.empty(batch + 2),
        np.empty(batch + 2),
        np.empty(batch + 2),
        np.empty(batch + 2),
    )


@kernel
def nodes_for(rate_per_ms: float, latest_ms: float, batch: int) -> int:
    """Return the number of intervals of the age; the SLO rule is defined with this number."""
    wanted = RESOLUTION * rate_per_ms * latest_ms / np.sqrt(batch)
    return int(min(max(np.ceil(wanted), FEWEST_NODES), MOST_NODES))


@kernel
def most_waiting(rate_per_ms: float, batch: int, busy_ms: Floats, timeout_ms: float) -> int:
    """Return the size, at most ``batch``, that a slot's batches practically never exceed.

    A slot with this size as its batch misses the same fraction. Before a batch starts, requests gather during the last
    one and the timeout. If more than k of them are unlikely after a batch of k, batches larger than k do not occur.
    """
    for k in range(1, batch):
        mean = rate_per_ms * (busy_ms[k] + timeout_ms)
        p = np.exp(-mean)
        rest = 1.0 - p
        for n in range(1, k):
            p *= mean / n
            rest -= p
        if mean < k and p * mean / (k - mean) < NEGLIGIBLE and rest < 10.0 * NEGLIGIBLE:
            return k
    return batch


@kernel
def missed_fraction(
    chain: Chain,
    rate_per_ms: float,
    slo_ms: float,
    batch: int,
    result_ms: Floats,
    busy_ms: Floats,
    timeout_ms: float,
    nodes: int,
) -> float:
    """Return the fraction of a slot's requests that are not served in time; 1 if a full batch alone exceeds the SLO.

    Parameters
    ----------
    chain
        Working memory for at least this batch and number of nodes.
    result_ms, busy_ms
        Time of a batch of k until its results are there, and until the server is free again, at index k from 1 to
        ``batch``; nondecreasing.
    timeout_ms
        Time after which a partial batch starts, at most ``slo_ms - result_ms[batch]``.
    nodes
        Number of intervals of the age; see ``nodes_for``.
    """
    latest_ms = slo_ms - result_ms[batch]
    if latest_ms < 0.0:
        return 1.0
    step_ms = max(latest_ms, 1e-9 * slo_ms) / nodes
    states = batch + nodes
    _tabulate(chain, rate_per_ms, batch, step_ms, nodes)
    many = _poisson(rate_per_ms * timeout_ms, batch, chain.timeout)
    full_latest = _poisson(rate_per_ms * latest_ms, batch, chain.latest)
    _waiting_batches(chain, rate_per_ms, batch, timeout_ms, many)

    for c in range(batch):
        chain.level[c], chain.larger[c] = chain.latest[c], 0.0
    size, reached_ms = batch, latest_ms
    for row in range(states):
        chain.next[row, :states] = 0.0
        window_ms = busy_ms[row + 1] if row < batch - 1 else busy_ms[batch] + (row - batch + 1) * step_ms
        if window_ms <= latest_ms:
            full = _full_at_once(chain, row, rate_per_ms, batch, window_ms, step_ms, nodes)
            _none_dropped(chain, row, rate_per_ms, batch, window_ms, timeout_ms, many, full)
            continue
        # The probabilities of a full batch that starts at once are the same from all of these states.
        for j in range(nodes + 1):
            here = chain.excess_ms[nodes - j]
            down = chain.excess_ms[nodes - j - 1] if j < nodes else 0.0
            if j == 0:
                chain.next[row, batch - 1] = full_latest - (here - down) / step_ms
            else:
                chain.next[row, batch - 1 + j] = (chain.excess_ms[nodes - j + 1] - 2.0 * here + down) / step_ms
        chain.served[row] = batch * full_latest
        size, reached_ms = _drop_up_to(chain, rate_per_ms, slo_ms, result_ms, window_ms, size, reached_ms)
        _some_dropped(chain, row, rate_per_ms, slo_ms, batch, result_ms, window_ms, timeout_ms, size, reached_ms)
    return _dropped_part(chain, states)


@kernel
def _poisson(mean: float, terms: int, out: Floats) -> float:
    """Write the probabilities of 0 to ``terms - 1`` events, and return that of ``terms`` or more."""
    p = np.exp(-mean)
    rest = 1.0
    for n in range(terms):
        out[n] = p
        rest -= p
        p *= mean / (n + 1)
    return max(0.0, rest)


@kernel
def _tabulate(chain: Chain, rate_per_ms: float, batch: int, step_ms: float, nodes: int) -> None:
    """Tabulate the Erlang distribution of the time of ``batch`` arrivals."""
    for i in range(nodes + 2):
        x_ms = step_ms * i
        at_least = _poisson(rate_per_ms * x_ms, batch, chain.window)
        exactly = chain.window[batch - 1] * rate_per_ms * x_ms / batch
        chain.within[i] = at_least
        chain.excess_ms[i] = x_ms * at_least - batch / rate_per_ms * max(0.0, at_least - exactly)


@kernel
def _excess_ms(chain: Chain, step_ms: float, x_ms: float, nodes: int) -> float:
    """Return ``E[(x - E)+]`` by cubic interpolation."""
    if x_ms <= 0.0:
        return 0.0
    i = min(int(x_ms / step_ms), nodes)
    s = x_ms / step_ms - i
    return (
        (1.0 + 2.0 * s) * (1.0 - s) * (1.0 - s) * chain.excess_ms[i]
        + s * (1.0 - s) * (1.0 - s) * step_ms * chain.within[i]
        + s * s * (3.0 - 2.0 * s) * chain.excess_ms[i + 1]
        + s * s * (s - 1.0) * step_ms * chain.within[i + 1]
    )


@kernel
def _full_at_once(
    chain: Chain, row: int, rate_per_ms: float, batch: int, window_ms: float, step_ms: float, nodes: int
) -> float:
    """Add full batches that start at once from a window shorter than ``latest``; return their probability."""
    full = _poisson(rate_per_ms * window_ms, batch, chain.window)
    chain.served[row] = batch * full
    if full <= NEGLIGIBLE:
        return full
    up = _excess_ms(chain, step_ms, window_ms, nodes)
    here = _excess_ms(chain, step_ms, window_ms - step_ms, nodes)
    chain.next[row, batch - 1] += full - (up - here) / step_ms
    for j in range(1, nodes + 1):
        if up <= 0.0:
            break
        down = _excess_ms(chain, step_ms, window_ms - (j + 1) * step_ms, nodes)
        chain.next[row, batch - 1 + j] += (up - 2.0 * here + down) / step_ms
        up, here = here, down
    return full


@kernel
def _none_dropped(
    chain: Chain,
    row: int,
    rate_per_ms: float,
    batch: int,
    window_ms: float,
    timeout_ms: float,
    many: float,
    full: float,
) -> None:
    """Add the other batches that follow a window in which no request is too old; ``many`` is P(N(timeout) >= b)."""
    chain.lost[row] = 0.0
    # No request has waited the timeout: from the first arrival on, a batch collects for the timeout.
    quiet = np.exp(-rate_per_ms * max(0.0, window_ms - timeout_ms))
    for k in range(1, batch):
        chance = quiet * chain.timeout[k - 1]
        if window_ms > timeout_ms:
            chance += max(0.0, chain.window[k] - quiet * chain.timeout[k])
        chain.next[row, k - 1] += chance
        chain.served[row] += k * chance
    recent = many if window_ms >= timeout_ms else full
    chance = max(0.0, quiet * (many + chain.timeout[batch - 1] - recent))
    chain.next[row, batch - 1] += chance
    chain.served[row] += batch * chance


@kernel
def _waiting_batches(chain: Chain, rate_per_ms: float, batch: int, timeout_ms: float, many: float) -> None:
    """Compute ``chain.waiting``: j requests wait, the oldest for less than the timeout, and k are in their batch."""
    chain.waiting[: batch + 1, : batch + 1] = 0.0
    for k in range(1, batch):
        chain.waiting[0, k] = chain.timeout[0] * chain.timeout[k - 1]
    chain.waiting[0, batch] = chain.timeout[0] * (many + chain.timeout[batch - 1])
    for n in range(len(chain.points)):
        age_ms = chain.points[n] * timeout_ms
        _poisson(rate_per_ms * (timeout_ms - age_ms), batch, chain.step)
        density = chain.weights[n] * rate_per_ms * timeout_ms * chain.timeout[0]
        for j in range(1, batch):
            rest = 1.0
            for k in range(j, batch):
                chain.waiting[j, k] += density * chain.step[k - j]
                rest -= chain.step[k - j]
            chain.waiting[j, batch] += density * max(0.0, rest)
            density *= rate_per_ms * age_ms / j


@kernel
def _drop_up_to(
    chain: Chain,
    rate_per_ms: float,
    slo_ms: float,
    result_ms: Floats,
    window_ms: float,
    size: int,
    reached_ms: float,
) -> tuple[int, float]:
    """Advance ``chain.level`` to the largest age below ``window_ms`` at which a smaller batch becomes possible.

    ``level[c]``: c requests are younger than ``reached_ms`` and no batch of ``size`` or more is possible.
    ``larger[m]``: a batch of m is possible and none larger.
    """
    while size > 1 and slo_ms - result_ms[size - 1] < window_ms:
        bound_ms = slo_ms - result_ms[size - 1]
        chain.after[:size] = 0.0
        _add_arrivals(chain, rate_per_ms * (bound_ms - reached_ms), size, chain.after)
        size, reached_ms = size - 1, bound_ms
        chain.larger[size] = chain.after[size]
        for c in range(size):
            chain.level[c] = chain.after[c]
    return size, reached_ms


@kernel
def _add_arrivals(chain: Chain, mean: float, size: int, out: Floats) -> None:
    """Add to ``out`` the distribution ``chain.level`` after Poisson arrivals; ``out[size - 1]`` also counts more."""
    _poisson(mean, size, chain.step)
    for c in range(size):
        rest = chain.level[c]
        for n in range(size - 1 - c):
            out[c + n] += chain.level[c] * chain.step[n]
            rest -= chain.level[c] * chain.step[n]
        out[size - 1] += max(0.0, rest)


@kernel
def _some_dropped(
    chain: Chain,
    row: int,
    rate_per_ms: float,
    slo_ms: float,
    batch: int,
    result_ms: Floats,
    window_ms: float,
    timeout_ms: float,
    size: int,
    reached_ms: float,
) -> None:
    """Add the smaller batches from a window longer than ``latest``; requests that are too old are dropped.

    A batch keeps the most requests that would all be in time: m such that the m youngest are not older than
    ``SLO - result_ms[m]``.
    """
    latest_ms = slo_ms - result_ms[batch]
    for m in range(batch):
        chain.kept[m] = chain.larger[m]
    _add_arrivals(chain, rate_per_ms * (window_ms - reached_ms), size, chain.kept)
    lost = rate_per_ms * (window_ms - latest_ms)
    quiet = np.exp(-rate_per_ms * (latest_ms - timeout_ms))
    served = chain.served[row]
    for m in range(batch):
        # No kept request is older than ``latest`` iff none arrived between it and the bound of a batch with one more.
        bound_ms = latest_ms if m == batch - 1 else min(slo_ms - result_ms[m + 1], window_ms)
        none_older = np.exp(-rate_per_ms * (bound_ms - latest_ms))
        lost += m * (chain.latest[m] - chain.kept[m])
        if m > 0:
            chance = max(0.0, chain.kept[m] - none_older * chain.latest[m])
            chance += none_older * max(0.0, chain.latest[m] - quiet * chain.timeout[m])
            chain.next[row, m - 1] += chance
            served += m * chance
        for k in range(max(1, m), batch + 1):
            chance = none_older * quiet * chain.waiting[m, k]
            chain.next[row, k - 1] += chance
            served += k * chance
    chain.lost[row], chain.served[row] = max(0.0, lost), served


@kernel
def _dropped_part(chain: Chain, states: int) -> float:
    """Return the long-run fraction of dropped requests, by elimination of states (Grassmann, Taksar, Heyman 1985)."""
    for n in range(states - 1, 0, -1):
        leaving = 0.0
        for j in range(n):
            leaving += chain.next[n, j]
        if leaving <= 0.0:
            continue
        chain.lost[n] /= leaving
        chain.served[n] /= leaving
        for j in range(n):
            chain.next[n, j] /= leaving
        for i in range(n):
            chance = chain.next[i, n]
            if chance > 0.0:
                chain.lost[i] += chance * chain.lost[n]
                chain.served[i] += chance * chain.served[n]
                for j in range(n):
                    chain.next[i, j] += chance * chain.next[n, j]
    return chain.lost[0] / (chain.lost[0] + chain.served[0])
