"""Fraction of the requests of one slot that miss their SLO under Poisson arrivals, by an embedded Markov chain.

**Discipline**, as in the simulator under the rule ``attainment``. A free server starts a batch with the requests that
wait, up to ``b``, or with the next request. At that moment, requests that would be late in a batch of this size are
dropped, oldest first. The results of a batch of k are there after ``result_ms[k]``; the server is free again after
``busy_ms[k]``. Served requests are in time, so the missed fraction is the dropped fraction.

**State.** When the server becomes free, all waiting requests arrived in the last L ms, and the arrivals in this window
are a Poisson process. After a batch that took all waiting requests, L is the time of that batch. After a full batch,
the waiting requests arrived after its youngest: L is the age of the youngest at the start plus the time of the batch.
So L is a Markov chain, with one state for every smaller batch and a density for full batches. The age of the youngest
is ``min(L, latest) - E``: ``latest = SLO - result_ms[b]`` is the largest age at which a full batch can start, and E is
the time of b arrivals, which is Erlang distributed.

**Solution.** States are eliminated one after another (Grassmann, Taksar, Heyman 1985). If L exceeds ``latest``, the age
does not depend on it: a full batch leads to one *renewal* state, from which the age is drawn. Most states of full
batches then lead only to that state, to smaller batches and to age 0, so each is eliminated with a short row as soon as
it is computed.

**Numerical error.** The age is put on equidistant nodes, ``RESOLUTION`` to a standard deviation of E. Mass between two
nodes is divided so that its mean is kept. This adds variance, so the fraction is too large: by 0.3 % of itself on
average and 2 % at most. The distance of the nodes is a continuous function of rate and SLO, and so is the fraction. All
other transitions are sums of Poisson probabilities. These errors were measured at loads of up to 1.05; a far longer
queue than ``MOST_NODES`` resolves has larger ones.

**Monotonicity.** If ``busy_ms[k] / k`` does not rise with k, the fraction rises with the rate and with the time of the
batches, and falls with the SLO. Without this condition, or with a timeout for partial batches, a longer SLO can raise
it: larger batches, which take long, then start more often.
"""

import numpy as np

from instances.arrays import Floats
from instances.attainment_chain import (
    Chain,
    eliminate,
    excess_ms,
    interpolation_weights,
    poisson,
    poisson_tails,
    tabulate,
)
from instances.compiled import kernel

RESOLUTION = 12.0
"""Nodes of the age of a full batch's youngest request for each standard deviation of the time of b arrivals, and for
each full batch."""

FEWEST_NODES, MOST_NODES = 32, 240
"""Least and largest number of the intervals between nodes."""

NEGLIGIBLE = 1e-12
"""Probability below which a full batch is left out."""


@kernel
def node_distance_ms(rate_per_ms: float, latest_ms: float, batch: int, full_ms: float) -> float:
    """Return the distance of the nodes of the age, given the time of a full batch; it is part of the SLO rule."""
    usual_ms = min(np.sqrt(batch) / rate_per_ms, full_ms) / RESOLUTION
    return min(max(usual_ms, latest_ms / MOST_NODES), latest_ms / FEWEST_NODES)


@kernel
def most_waiting(rate_per_ms: float, batch: int, busy_ms: Floats) -> int:
    """Return the size, at most ``batch``, that a slot's batches practically never exceed.

    A slot with this size as its batch misses the same fraction. Requests gather during a batch. If more than k of them
    are unlikely during a batch of k, batches larger than k do not occur.
    """
    for k in range(1, batch):
        mean = rate_per_ms * busy_ms[k]
        if mean >= k:
            continue
        p = np.exp(-mean)
        rest = 1.0 - p
        for n in range(1, k):
            p *= mean / n
            rest -= p
        if p * mean / (k - mean) < NEGLIGIBLE and rest < 10.0 * NEGLIGIBLE:
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
    step_ms: float,
) -> float:
    """Return the fraction of a slot's requests that are not served in time; 1 if a full batch alone exceeds the SLO.

    Parameters
    ----------
    chain
        Working memory for at least this batch and number of nodes.
    result_ms, busy_ms
        Time of a batch of k until its results are there, and until the server is free again, at index k from 1 to
        ``batch``; nondecreasing.
    step_ms
        Distance of the nodes of the age; see ``node_distance_ms``.
    """
    latest_ms = slo_ms - result_ms[batch]
    if latest_ms < 0.0:
        return 1.0
    step_ms = max(step_ms, 1e-12 * slo_ms)
    nodes = int(np.ceil(latest_ms / step_ms))
    states = batch + nodes
    tabulate(chain, rate_per_ms, batch, step_ms, nodes)
    full = poisson(rate_per_ms * latest_ms, batch, chain.latest)

    near = 0
    while near < states and _window_ms(near, batch, busy_ms, step_ms) <= latest_ms:
        _none_dropped(chain, near, rate_per_ms, batch, _window_ms(near, batch, busy_ms, step_ms), step_ms, nodes)
        near += 1
    _full_ages(chain, -1, batch, latest_ms, step_ms, nodes, full)  # from the renewal state
    for m in range(batch):
        chain.level[m], chain.larger[m] = chain.latest[m], 0.0
    size, reached_ms, lasting = batch, latest_ms, max(batch, near)
    for row in range(near, states):
        window_ms = _window_ms(row, batch, busy_ms, step_ms)
        size, reached_ms = _drop_up_to(chain, rate_per_ms, slo_ms, result_ms, window_ms, size, reached_ms)
        _some_dropped(chain, row, rate_per_ms, batch, window_ms, latest_ms, size, reached_ms, full)
        if row >= lasting:
            eliminate(chain.next, row + 1, row + 3, batch + 3, near + 1)
    chain.next[0, 2] = 0.0
    eliminate(chain.next, 0, 2, lasting + 3, lasting + 1)
    for row in range(lasting - 1, 0, -1):
        eliminate(chain.next, row + 1, row + 3, row + 3, row + 1)
    return chain.next[1, 0] / (chain.next[1, 0] + chain.next[1, 1])


@kernel
def _window_ms(row: int, batch: int, busy_ms: Floats, step_ms: float) -> float:
    """Return the time of the batch that precedes a state, and the age of the youngest request of a full one."""
    return busy_ms[row + 1] if row < batch - 1 else busy_ms[batch] + (row - batch + 1) * step_ms


@kernel
def _none_dropped(
    chain: Chain, row: int, rate_per_ms: float, batch: int, window_ms: float, step_ms: float, nodes: int
) -> None:
    """Write the row of a state in which no request is too old."""
    full = poisson(rate_per_ms * window_ms, batch, chain.window)
    _full_ages(chain, row, batch, window_ms, step_ms, nodes, full)
    out, served = chain.next[row + 1], batch * full + chain.window[0]
    out[3] += chain.window[0]  # the next request is served alone
    for k in range(1, batch):
        out[k + 2] += chain.window[k]
        served += k * chain.window[k]
    out[0], out[1], out[2] = 0.0, served, 0.0


@kernel
def _full_ages(chain: Chain, row: int, batch: int, window_ms: float, step_ms: float, nodes: int, full: float) -> None:
    """Write full batches, with probability ``full``, from a window not longer than ``latest``; clear the row."""
    out, ages = chain.next[row + 1], batch + 2
    out[: ages + nodes + 1] = 0.0
    if full <= NEGLIGIBLE:
        return
    last = int(window_ms / step_ms)
    weights = interpolation_weights(window_ms / step_ms - last)
    up, here = excess_ms(chain, step_ms, weights, last), excess_ms(chain, step_ms, weights, last - 1)
    out[ages] = max(0.0, full - (up - here) / step_ms)
    computed = 1 if row >= batch else nodes  # after a full batch one node older, every age is one node larger
    for j in range(1, computed + 1):
        if up <= 0.0:
            return
        down = excess_ms(chain, step_ms, weights, last - j - 1)
        out[ages + j] = max(0.0, (up - 2.0 * here + down) / step_ms)  # rounding makes differences negative
        up, here = here, down
    for j in range(computed + 1, nodes + 1):
        out[ages + j] = chain.next[row, ages + j - 1]


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
    terms = poisson_tails(chain, mean, size)
    for c in range(size - terms, size):
        out[size - 1] += chain.level[c] * chain.more[size - 1 - c]
    for n in range(min(terms, size - 1)):
        for c in range(size - 1 - n):
            out[c + n] += chain.level[c] * chain.step[n]


@kernel
def _some_dropped(
    chain: Chain,
    row: int,
    rate_per_ms: float,
    batch: int,
    window_ms: float,
    latest_ms: float,
    size: int,
    reached_ms: float,
    full: float,
) -> None:
    """Write the row of a state whose window is longer than ``latest``; requests that are too old are dropped.

    A batch keeps the most requests that would all be in time: m such that the m youngest are not older than
    ``SLO - result_ms[m]``.
    """
    for m in range(batch):
        chain.kept[m] = chain.larger[m]
    _add_arrivals(chain, rate_per_ms * (window_ms - reached_ms), size, chain.kept)
    out = chain.next[row + 1]
    lost, served = rate_per_ms * (window_ms - latest_ms), batch * full + chain.kept[0]
    out[batch + 2] = 0.0
    for k in range(1, batch):
        lost += k * (chain.latest[k] - chain.kept[k])
        served += k * chain.kept[k]
        out[k + 2] = chain.kept[k]
    out[3] += chain.kept[0]  # the next request is served alone
    out[0], out[1], out[2] = max(0.0, lost), served, full
