"""Memory of the Markov chain of ``attainment``, its tables of probabilities, and the elimination of its states."""

from typing import NamedTuple

import numpy as np

from instances.arrays import Floats
from instances.compiled import compiled, kernel

VANISHING = 1e-18
"""Probability below which a number of arrivals is left out."""


class Chain(NamedTuple):
    """Working memory of ``missed_fraction`` for batches up to some size b.

    Attributes
    ----------
    next
        Transitions, shape (b + nodes + 1, b + nodes + 3): from the renewal state in row 0, from state i in row i + 1.
        Columns 0 and 1 have the mean number of requests dropped and served until the next state, column 2 the
        probability of the renewal state, column i + 3 that of state i. States 0 to b - 2 follow a batch of 1 to b - 1,
        the others a full batch.
    excess_ms, within, density
        ``E[(x - E)+]``, ``P(E <= x)`` and the density of E at the nodes x, shape (nodes + 2,).
    window, latest, level, after, kept, larger, step, more
        Probabilities of numbers of requests, shape (b + 2,).
    """

    next: Floats
    excess_ms: Floats
    within: Floats
    density: Floats
    window: Floats
    latest: Floats
    level: Floats
    after: Floats
    kept: Floats
    larger: Floats
    step: Floats
    more: Floats


@compiled
def chain_for(batch: int, nodes: int) -> Chain:
    """Return working memory for batches up to ``batch``."""
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
    """Write the probabilities of 0 to ``terms - 1`` events, and return that of ``terms`` or more."""
    p = np.exp(-mean)
    rest = 1.0
    for n in range(terms):
        out[n] = p
        rest -= p
        p *= mean / (n + 1)
    return max(0.0, rest)


@kernel
def poisson_tails(chain: Chain, mean: float, terms: int) -> int:
    """Write the probabilities of n < ``terms`` events into ``chain.step`` and of n or more into ``chain.more``.

    Return the number of them that matter; both are 0 from there on.
    """
    p, rest, count = np.exp(-mean), 1.0, 0
    while count < terms and (p >= VANISHING or count < mean):
        chain.step[count], chain.more[count] = p, max(0.0, rest)
        rest -= p
        count += 1
        p *= mean / count
    for n in range(count, terms):
        chain.step[n] = chain.more[n] = 0.0
    return count


@kernel
def tabulate(chain: Chain, rate_per_ms: float, batch: int, step_ms: float, nodes: int) -> None:
    """Tabulate the Erlang distribution of the time of ``batch`` arrivals."""
    for i in range(nodes + 2):
        x_ms = step_ms * i
        at_least = poisson(rate_per_ms * x_ms, batch, chain.window)
        exactly = chain.window[batch - 1] * rate_per_ms * x_ms / batch
        chain.within[i] = at_least
        chain.density[i] = rate_per_ms * chain.window[batch - 1]
        chain.excess_ms[i] = x_ms * at_least - batch / rate_per_ms * max(0.0, at_least - exactly)


@kernel
def excess_ms(chain: Chain, step_ms: float, weights: tuple[float, float, float, float, float, float], i: int) -> float:
    """Return ``E[(x - E)+]`` for an x between nodes i and i + 1, given its ``interpolation_weights``."""
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

    They belong to value, slope and curvature at 0, then curvature, slope and value at 1.
    """
    s3 = s * s * s
    near = s3 * (10.0 - 15.0 * s + 6.0 * s * s)
    return (
        1.0 - near,
        s - s3 * (6.0 - 8.0 * s + 3.0 * s * s),
        0.5 * s * s * (1.0 - s) ** 3,
        0.5 * s3 * (1.0 - s) ** 2,
        s3 * (-4.0 + 7.0 * s - 3.0 * s * s),
        near,
    )


@kernel
def eliminate(next_: Floats, row: int, column: int, width: int, rows: int) -> None:
    """Skip a state (Grassmann, Taksar, Heyman 1985): the first ``rows`` rows lead to what follows it instead.

    Its row has zeros from ``width`` on.
    """
    leaving = 0.0
    for j in range(2, width):
        leaving += next_[row, j]
    if leaving <= 0.0:
        return
    for j in range(width):
        next_[row, j] /= leaving
    for i in range(rows):
        chance = next_[i, column]
        if chance > 0.0:
            next_[i, column] = 0.0
            for j in range(width):
                next_[i, j] += chance * next_[row, j]
