"""Fraction of the requests of one slot that miss their SLO under Poisson arrivals, by an embedded Markov chain.

**Discipline.** A free server starts a batch with the waiting requests, up to ``b``; if none waits, it starts with the
next request. At that moment, requests that would be late in a batch of this size are dropped, oldest first. The results
of a batch of k are available after ``result_ms[k]``; the server is free again after ``busy_ms[k]``. Served requests are
in time, so the missed fraction is the dropped fraction. The simulator serves requests by the same discipline.

**State.** When the server becomes free, all waiting requests arrived in the last L ms, and the arrivals in this window
are a Poisson process. After a batch that took all waiting requests, L is the time of that batch. After a full batch,
the waiting requests arrived after the batch's youngest request: L is the age of that request at the start plus the
time of the batch. So L is a Markov chain, with one state for every smaller batch and a density for full batches. The
age of the youngest request is ``min(L, latest) - E``. Here ``latest = SLO - result_ms[b]`` is the largest age at which
a full batch can start, and E is the time of b arrivals, which is Erlang distributed.

**Solution.** States are eliminated one after another (Grassmann, Taksar, Heyman 1985). If L exceeds ``latest``, the age
does not depend on L: a full batch leads to one *renewal* state, from which the age is drawn. Most states of full
batches then lead only to that state, to smaller batches and to age 0. Such a state has a short row and is eliminated as
soon as its row is computed.

**Numerical error.** The age is rounded to equidistant nodes, ``RESOLUTION`` to a standard deviation of E. Probability
between two nodes is divided so that the mean age does not change. This adds variance, so the fraction is too large: by
0.3 % of itself on average and 2 % at most. These errors were measured at loads of up to 1.05. They are larger if the
SLO needs far more than ``MOST_NODES`` such intervals, because the nodes are then further apart. The distance of the
nodes is a continuous function of rate and SLO, and so is the fraction. All other transitions are sums of Poisson
probabilities.

**Monotonicity.** If ``busy_ms[k] / k`` does not rise with k, the fraction rises with the rate and with the time of the
batches, and falls with the SLO. Without this condition, or with a timeout for partial batches, a longer SLO can raise
the fraction, because large batches, which take long, then start more often.
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
"""Nodes in a standard deviation of the time of b arrivals, or in the time of a full batch if that is shorter."""

FEWEST_NODES, MOST_NODES = 32, 240
"""Fewest and most intervals between nodes: fewer are too inexact, more take too long."""

NEGLIGIBLE = 1e-12
"""Probability below which full batches are left out."""


@kernel
def node_distance_ms(rate_per_ms: float, latest_ms: float, batch: int, full_ms: float) -> float:
    """Return the distance between two nodes of the age; the definition is part of the SLO rule.

    ``full_ms`` is the time of a full batch.
    """
    fine_ms = min(np.sqrt(batch) / rate_per_ms, full_ms) / RESOLUTION
    return min(max(fine_ms, latest_ms / MOST_NODES), latest_ms / FEWEST_NODES)


@kernel
def largest_likely_batch(rate_per_ms: float, batch: int, busy_ms: Floats) -> int:
    """Return the size, at most ``batch``, that a slot's batches practically never exceed.

    A slot limited to this size therefore misses the same fraction. The requests of a batch arrive during the batch
    before. If more than k arrivals during a batch of k practically never occur, neither do batches larger than k.
    """
    for k in range(1, batch):
        mean = rate_per_ms * busy_ms[k]
        if mean >= k:
            continue
        probability = np.exp(-mean)
        tail = 1.0 - probability
        for n in range(1, k):
            probability *= mean / n
            tail -= probability
        if probability * mean / (k - mean) < NEGLIGIBLE and tail < 10.0 * NEGLIGIBLE:
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
    """Return the fraction of a slot's requests that are not served in time; 1 if a full batch exceeds the SLO.

    Parameters
    ----------
    chain
        Working memory for at least this batch and number of nodes.
    result_ms, busy_ms
        Time of a batch of k until its results are available, and until the server is free again, at index k from 1 to
        ``batch``; nondecreasing.
    step_ms
        Distance between two nodes of the age; see ``node_distance_ms``.
    """
    latest_ms = slo_ms - result_ms[batch]
    if latest_ms < 0.0:
        return 1.0
    step_ms = max(step_ms, 1e-12 * slo_ms)
    nodes = int(np.ceil(latest_ms / step_ms))
    states = batch + nodes
    tabulate(chain, rate_per_ms, batch, step_ms, nodes)
    full_probability = poisson(rate_per_ms * latest_ms, batch, chain.latest_arrivals)

    undropped = 0  # number of states in which no request is too old
    window_ms = _window_ms(undropped, batch, busy_ms, step_ms)
    while undropped < states and window_ms <= latest_ms:
        _none_dropped(chain, undropped, rate_per_ms, batch, window_ms, step_ms, nodes)
        undropped += 1
        window_ms = _window_ms(undropped, batch, busy_ms, step_ms)
    _full_ages(chain, -1, batch, latest_ms, step_ms, nodes, full_probability)  # from the renewal state
    for k in range(batch):
        chain.younger[k], chain.largest_batch[k] = chain.latest_arrivals[k], 0.0
    size, reached_ms = batch, latest_ms
    retained = max(batch, undropped)  # states up to here are eliminated in the end, the others at once
    for row in range(undropped, states):
        window_ms = _window_ms(row, batch, busy_ms, step_ms)
        size, reached_ms = _drop_up_to(chain, rate_per_ms, slo_ms, result_ms, window_ms, size, reached_ms)
        _some_dropped(chain, row, rate_per_ms, batch, window_ms, latest_ms, size, reached_ms, full_probability)
        if row >= retained:
            eliminate(chain.transitions, row + 1, row + 3, batch + 3, undropped + 1)
    chain.transitions[0, 2] = 0.0
    eliminate(chain.transitions, 0, 2, retained + 3, retained + 1)
    for row in range(retained - 1, 0, -1):
        eliminate(chain.transitions, row + 1, row + 3, row + 3, row + 1)
    return chain.transitions[1, 0] / (chain.transitions[1, 0] + chain.transitions[1, 1])


@kernel
def _window_ms(row: int, batch: int, busy_ms: Floats, step_ms: float) -> float:
    """Return L of a state: the time of the batch before, and after a full batch the age of its youngest request."""
    return busy_ms[row + 1] if row < batch - 1 else busy_ms[batch] + (row - batch + 1) * step_ms


@kernel
def _none_dropped(
    chain: Chain, row: int, rate_per_ms: float, batch: int, window_ms: float, step_ms: float, nodes: int
) -> None:
    """Write the row of a state in which no request is too old."""
    full_probability = poisson(rate_per_ms * window_ms, batch, chain.window_arrivals)
    _full_ages(chain, row, batch, window_ms, step_ms, nodes, full_probability)
    outgoing, served = chain.transitions[row + 1], batch * full_probability + chain.window_arrivals[0]
    outgoing[3] += chain.window_arrivals[0]  # the next request is served alone
    for k in range(1, batch):
        outgoing[k + 2] += chain.window_arrivals[k]
        served += k * chain.window_arrivals[k]
    outgoing[0], outgoing[1], outgoing[2] = 0.0, served, 0.0


@kernel
def _full_ages(
    chain: Chain, row: int, batch: int, window_ms: float, step_ms: float, nodes: int, full_probability: float
) -> None:
    """Clear a row and write its transitions to full batches, which have the probability ``full_probability``.

    The window of the state is not longer than ``latest``.
    """
    outgoing, first_age = chain.transitions[row + 1], batch + 2
    outgoing[: first_age + nodes + 1] = 0.0
    if full_probability <= NEGLIGIBLE:
        return
    last_node = int(window_ms / step_ms)
    weights = interpolation_weights(window_ms / step_ms - last_node)
    excess_above = excess_ms(chain, step_ms, weights, last_node)
    excess_here = excess_ms(chain, step_ms, weights, last_node - 1)
    outgoing[first_age] = max(0.0, full_probability - (excess_above - excess_here) / step_ms)
    computed_ages = 1 if row >= batch else nodes  # the others are one node above those of the previous row
    for j in range(1, computed_ages + 1):
        if excess_above <= 0.0:
            return
        excess_below = excess_ms(chain, step_ms, weights, last_node - j - 1)
        second_difference = excess_above - 2.0 * excess_here + excess_below
        outgoing[first_age + j] = max(0.0, second_difference / step_ms)  # rounding makes some differences negative
        excess_above, excess_here = excess_here, excess_below
    for j in range(computed_ages + 1, nodes + 1):
        outgoing[first_age + j] = chain.transitions[row, first_age + j - 1]


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
    """Advance ``chain.younger`` to the largest age below ``window_ms`` at which a smaller batch becomes possible.

    ``younger[n]`` is the probability that n requests are younger than ``reached_ms`` and that no batch of ``size`` or
    more is possible. ``largest_batch[n]`` is the probability that a batch of n is possible and no larger one.
    """
    while size > 1 and slo_ms - result_ms[size - 1] < window_ms:
        bound_ms = slo_ms - result_ms[size - 1]
        chain.younger_next[:size] = 0.0
        _add_arrivals(chain, rate_per_ms * (bound_ms - reached_ms), size, chain.younger_next)
        size, reached_ms = size - 1, bound_ms
        chain.largest_batch[size] = chain.younger_next[size]
        for n in range(size):
            chain.younger[n] = chain.younger_next[n]
    return size, reached_ms


@kernel
def _add_arrivals(chain: Chain, mean: float, size: int, out: Floats) -> None:
    """Add ``chain.younger`` after Poisson arrivals to ``out``; ``out[size - 1]`` covers larger numbers too."""
    terms = poisson_tails(chain, mean, size)
    for waiting in range(size - terms, size):
        out[size - 1] += chain.younger[waiting] * chain.arrivals_or_more[size - 1 - waiting]
    for arriving in range(min(terms, size - 1)):
        for waiting in range(size - 1 - arriving):
            out[waiting + arriving] += chain.younger[waiting] * chain.arrivals[arriving]


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
    full_probability: float,
) -> None:
    """Write the row of a state whose window is longer than ``latest``; requests that are too old are dropped.

    The next batch is the largest one that would be in time: it has the largest k such that the k youngest requests are
    not older than ``SLO - result_ms[k]``.
    """
    for k in range(batch):
        chain.next_batch[k] = chain.largest_batch[k]
    _add_arrivals(chain, rate_per_ms * (window_ms - reached_ms), size, chain.next_batch)
    outgoing = chain.transitions[row + 1]
    dropped, served = rate_per_ms * (window_ms - latest_ms), batch * full_probability + chain.next_batch[0]
    outgoing[batch + 2] = 0.0
    for k in range(1, batch):
        dropped += k * (chain.latest_arrivals[k] - chain.next_batch[k])
        served += k * chain.next_batch[k]
        outgoing[k + 2] = chain.next_batch[k]
    outgoing[3] += chain.next_batch[0]  # the next request is served alone
    outgoing[0], outgoing[1], outgoing[2] = max(0.0, dropped), served, full_probability
