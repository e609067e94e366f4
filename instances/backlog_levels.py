"""Bulk queue of one slot whose server drops no request: the steady state at the ends of batches.

**States.** The number of waiting requests at the end of a batch is a Markov chain. While b or more wait, all batches
are full and the chain is a random walk: each step goes up by the arrivals during a full batch and down by b. Its
*ladder* is the distribution of how far below the present level the walk is when it first falls below it. The polynomial
``z^b - sum(ladder[d] z^(b - d))`` has the roots of ``z^b = exp(mean (z - 1))`` with modulus 1 or less.

**Solution.** With the ladder, a transition to a level from b up is replaced by transitions to the first level below b
that the chain reaches afterwards. The remaining chain on the levels below b is solved by elimination (Grassmann,
Taksar, Heyman 1985). The probabilities of the levels from b up are then computed in ascending order; far up, they fall
geometrically.
"""

import math
from typing import NamedTuple

import numpy as np

from instances.arrays import Floats
from instances.compiled import compiled, kernel

NEGLIGIBLE = 1e-15
"""States with a smaller probability are left out."""

VANISHING = 1e-30
"""Numbers of arrivals with a smaller probability are left out."""


class Backlog(NamedTuple):
    """Working memory of ``late_fraction`` for batches up to some size b; ``size`` below is ``size_for(b)``.

    Attributes
    ----------
    ladder
        Probability that the walk is d below the present level when it first falls below it, shape (size,).
    renewal
        Probability that d below the present level is one of the successive lowest levels of the walk, shape (size,).
    ascent
        Probability that the next step goes d or more up, and that the walk then comes down to d before any lower level,
        shape (size,).
    below
        Transitions between the levels below b, shape (b, b).
    level
        Probability of each level at the end of a batch, shape (2 size,).
    arrivals, first_buffer, second_buffer
        Arrays that several functions reuse: probabilities of numbers of arrivals, or mean excesses, shape (size,).
    """

    ladder: Floats
    renewal: Floats
    ascent: Floats
    below: Floats
    level: Floats
    arrivals: Floats
    first_buffer: Floats
    second_buffer: Floats


@kernel
def size_for(batch: int) -> int:
    """Return a number of requests that practically never arrive during one full batch of a stable server."""
    return batch + int(10.0 * math.sqrt(batch)) + 40


@compiled
def backlog_for(batch: int) -> Backlog:
    """Return working memory for batches up to ``batch``."""
    size = size_for(batch)
    return Backlog(
        np.empty(size),
        np.empty(size),
        np.empty(size),
        np.empty((batch, batch)),
        np.empty(2 * size),
        np.empty(size),
        np.empty(size),
        np.empty(size),
    )


@kernel
def fill_ladder(memory: Backlog, load: float, batch: int) -> None:
    """Compute ``ladder`` from the roots ``z = w exp(load (z - 1))`` in the unit disc, where ``w^b = 1``."""
    ladder = memory.ladder
    ladder[: batch + 1] = 0.0
    ladder[0], ladder[1], degree = 1.0, -1.0, 1  # the root 1
    bits = 1
    while 2**bits <= batch:
        bits += 1
    for reversed_index in range(2**bits):  # consecutive roots are far apart in this order: coefficients stay small
        j = 0
        for bit in range(bits):
            j = 2 * j + (reversed_index >> bit) % 2
        if j < 1 or 2 * j > batch:
            continue
        root = _root(load, 2.0 * math.pi * j / batch)
        if 2 * j == batch:
            for d in range(degree, -1, -1):
                ladder[d + 1] -= root.real * ladder[d]
            degree += 1
            continue
        twice_real, squared_modulus = 2.0 * root.real, root.real**2 + root.imag**2
        for d in range(degree + 2, 1, -1):
            ladder[d] += squared_modulus * ladder[d - 2] - twice_real * ladder[d - 1]
        ladder[1] -= twice_real * ladder[0]
        degree += 2
    total = 0.0
    for d in range(1, batch + 1):
        ladder[d] = max(0.0, -ladder[d])
        total += ladder[d]
    for d in range(1, batch + 1):
        ladder[d] /= total


@kernel
def _root(load: float, angle: float) -> complex:
    """Return the root of ``z = w exp(load (z - 1))`` in the unit disc for w at an angle, by Newton's method."""
    w = complex(math.cos(angle), math.sin(angle))
    z = complex(0.0, 0.0)
    for iteration in range(60):
        image = w * np.exp(load * (z - 1.0))
        change = image - z
        if iteration >= 4:  # the iteration z = image is a contraction; it brings Newton's method near the root
            change /= 1.0 - load * image
        z += change
        if change.real**2 + change.imag**2 < 1e-32:
            break
    return z


@kernel
def decay_of(load: float) -> float:
    """Return the positive root x of ``x = load (exp(x) - 1)``.

    Far from the bottom, the probability of level n is proportional to exp(-n x).
    """
    x = -math.log(load)
    x = min(2.0 * x, x + 2.0 * math.log1p(x) + 1.0)
    for _ in range(100):
        change = (load * math.expm1(x) - x) / (load * math.exp(x) - 1.0)
        x -= change
        if change <= 1e-14 * x:
            break
    return x


@kernel
def fill_arrivals(mean: float, out: Floats, terms: int) -> None:
    """Write the Poisson probabilities of 0 to ``terms - 1`` arrivals; vanishing ones are 0."""
    probability = math.exp(-mean)
    for n in range(terms):
        out[n] = probability
        probability *= mean / (n + 1)
        if probability < VANISHING and n >= mean:
            out[n + 1 : terms] = 0.0
            break


@kernel
def fill_levels_below(memory: Backlog, rate_per_ms: float, batch: int, busy_ms: Floats) -> None:
    """Compute the probabilities of the levels below ``batch``, up to a common factor."""
    below, arrivals, size = memory.below, memory.arrivals, size_for(batch)
    for n in range(batch):
        fill_arrivals(rate_per_ms * busy_ms[max(n, 1)], arrivals, size)
        for i in range(size - 1, batch - 1, -1):
            if arrivals[i] > NEGLIGIBLE * 1e-3:
                for d in range(1, batch + 1):
                    arrivals[i - d] += arrivals[i] * memory.ladder[d]
        for j in range(batch):
            below[n, j] = arrivals[j]
    for n in range(batch - 1, 0, -1):
        leaving = 0.0
        for j in range(n):
            leaving += below[n, j]
        for i in range(n):
            probability = below[i, n] / leaving if leaving > 0.0 else 0.0
            below[i, n] = probability
            if probability > 0.0:
                for j in range(n):
                    below[i, j] += probability * below[n, j]
    memory.level[0] = 1.0
    for n in range(1, batch):
        memory.level[n] = 0.0
        for i in range(n):
            memory.level[n] += memory.level[i] * below[i, n]


@kernel
def fill_levels_above(
    memory: Backlog, mean: float, rate_per_ms: float, batch: int, busy_ms: Floats, decay: float
) -> tuple[int, float]:
    """Compute the levels from ``batch`` up; return the last computed level, and the sum of all these levels."""
    level, renewal, ascent, size = memory.level, memory.renewal, memory.ascent, size_for(batch)
    renewal[0] = 1.0
    for depth in range(1, size):
        renewal[depth] = 0.0
        for d in range(1, min(depth, batch) + 1):
            renewal[depth] += memory.ladder[d] * renewal[depth - d]
    fill_arrivals(mean, memory.arrivals, size)
    for up in range(size - batch):
        ascent[up] = 0.0
        for i in range(size - batch - up):
            ascent[up] += memory.arrivals[batch + up + i] * renewal[i]
    after_partial = memory.first_buffer  # levels after batches that are not full
    after_partial[:size] = 0.0
    for n in range(batch):
        if level[n] > 0.0:
            probability = level[n] * math.exp(-rate_per_ms * busy_ms[max(n, 1)])
            for i in range(size):
                after_partial[i] += probability
                probability *= rate_per_ms * busy_ms[max(n, 1)] / (i + 1)
    last_level = 2 * size - 1
    total = 0.0
    for n in range(batch, last_level + 1):
        entered = 0.0
        for i in range(size - n):
            entered += after_partial[n + i] * renewal[i]
        for m in range(max(batch, n - size + batch + 1), n):
            entered += level[m] * ascent[n - m]
        level[n] = entered / (1.0 - ascent[0])
        total += level[n]
    return last_level, total + level[last_level] * math.exp(-decay) / -math.expm1(-decay)
