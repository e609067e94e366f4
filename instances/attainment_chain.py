"""Working memory of the Markov chain in ``instances.attainment``, tables of probabilities, and state elimination."""

from typing import NamedTuple

import numpy as np

from instances.arrays import Floats
from instances.compiled import compiled, kernel

VANISHING = 1e-18
"""Numbers of arrivals with a smaller probability are left out."""


class Chain(NamedTuple):
    """Working memory of ``missed_fraction`` for batches up to some size b; E is the time of b arrivals.

    Attributes
    ----------
    transitions
        Transitions, shape (b + nodes + 1, b + nodes + 3): from the renewal state in row 0, from state i in row i + 1.
        Columns 0 and 1 have the mean number of requests dropped and served until the next state. Column 2 has the
        probability of the renewal state, and column i + 3 that of state i. States 0 to b - 2 follow a batch of 1 to
        b - 1; the other states follow a full batch.
    excess_ms, within, density
        Mean of ``max(0, x - E)``, probability of ``E <= x``, and density of E at x, for the nodes x, shape
        (nodes + 2,).
    window_arrivals, latest_arrivals
        Probability of n arrivals within a state's window, and within ``latest``, shape (b + 2,).
    younger, younger_next
        Probability that n requests are younger than an age, at this age and at the next one, shape (b + 2,).
    next_batch, largest_batch
        Probability that the next batch has n requests, and that n is the largest possible batch, shape (b + 2,).
    arrivals, arrivals_or_more
        Probability of n arrivals, and of n or more, between two ages, shape (b + 2,).
    """

    transitions: Floats
    excess_ms: Floats
    within: Floats
    density: Floats
    window_arrivals: Floats
    latest_arrivals: Floats
    younger: Floats
    younger_next: Floats
    next_batch: Floats
    largest_batch: Floats
    arrivals: Floats
    arrivals_or_more: Floats


@compiled
def chain_for(batch: int, nodes: int) -> Chain:
    """Return working memory for batches up to ``batch`` and up to ``nodes`` nodes of the age."""
    states = batch + nodes
    return Chain(
        np.empty((states + 1, states + 3)),
        np.empty(nodes + 2),
        np.empty(nodes + 2),
        np.empty(nodes + 2),
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
def poisson(mean: float, terms: int, out: Floats) -> float:
    """Write the probabilities of 0 to ``terms - 1`` events; return the probability of ``terms`` or more."""
    probability = np.exp(-mean)
    remaining = 1.0
    for n in range(terms):
        out[n] = probability
        remaining -= probability
        probability *= mean / (n + 1)
    return max(0.0, remaining)


@kernel
def poisson_tails(chain: Chain, mean: float, terms: int) -> int:
    """Write the probabilities of n < ``terms`` arrivals, and of n or more, into the memory of the chain.

    Return the number of entries that are not negligible; the entries after them are 0.
    """
    probability, remaining, count = np.exp(-mean), 1.0, 0
    while count < terms and (probability >= VANISHING or count < mean):
        chain.arrivals[count], chain.arrivals_or_more[count] = probability, max(0.0, remaining)
        remaining -= probability
        count += 1
        probability *= mean / count
    for n in range(count, terms):
        chain.arrivals[n] = chain.arrivals_or_more[n] = 0.0
    return count


@kernel
def tabulate(chain: Chain, rate_per_ms: float, batch: int, step_ms: float, nodes: int) -> None:
    """Tabulate the Erlang distribution of the time of ``batch`` arrivals."""
    for i in range(nodes + 2):
        x_ms = step_ms * i
        batch_or_more = poisson(rate_per_ms * x_ms, batch, chain.window_arrivals)
        exactly_batch = chain.window_arrivals[batch - 1] * rate_per_ms * x_ms / batch
        chain.within[i] = batch_or_more
        chain.density[i] = rate_per_ms * chain.window_arrivals[batch - 1]
        chain.excess_ms[i] = x_ms * batch_or_more - batch / rate_per_ms * max(0.0, batch_or_more - exactly_batch)


@kernel
def excess_ms(chain: Chain, step_ms: float, weights: tuple[float, float, float, float, float, float], i: int) -> float:
    """Return the mean of ``max(0, x - E)`` for x between nodes i and i + 1, given its ``interpolation_weights``."""
    if i < 0:
        return 0.0
    return (
        weights[0] * chain.excess_ms[i]
        + weights[5] * chain.excess_ms[i + 1]
        + step_ms * (weights[1] * chain.within[i] + weights[4] * chain.within[i + 1])
        + step_ms * step_ms * (weights[2] * chain.density[i] + weights[3] * chain.density[i + 1])
    )


@kernel
def interpolation_weights(s: float) -> tuple[float, float, float, float, float, float]:
    """Return the weights of Hermite's quintic interpolation at s from 0 to 1.

    The weights are those of value, slope and curvature at 0, then of curvature, slope and value at 1.
    """
    s_cubed = s * s * s
    value_at_1 = s_cubed * (10.0 - 15.0 * s + 6.0 * s * s)
    return (
        1.0 - value_at_1,
        s - s_cubed * (6.0 - 8.0 * s + 3.0 * s * s),
        0.5 * s * s * (1.0 - s) ** 3,
        0.5 * s_cubed * (1.0 - s) ** 2,
        s_cubed * (-4.0 + 7.0 * s - 3.0 * s * s),
        value_at_1,
    )


@kernel
def eliminate(transitions: Floats, row: int, column: int, width: int, rows: int) -> None:
    """Eliminate a state (Grassmann, Taksar, Heyman 1985) from the first ``rows`` rows.

    Transitions to the state lead to its successors instead. ``row`` and ``column`` are those of the state; from column
    ``width`` on, its row is 0.
    """
    leaving = 0.0
    for j in range(2, width):
        leaving += transitions[row, j]
    if leaving <= 0.0:
        return
    for j in range(width):
        transitions[row, j] /= leaving
    for i in range(rows):
        probability = transitions[i, column]
        if probability > 0.0:
            transitions[i, column] = 0.0
            for j in range(width):
                transitions[i, j] += probability * transitions[row, j]
