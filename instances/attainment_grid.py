"""Absolute grid of the latency budgets under ``attainment``: numbers with eleven significant bits, in milliseconds.

Steps are between 0.049 and 0.098 % of a budget. The grid is the same for every SLO, rate and share. Times multiplied by
a power of two stay on it.
"""

import math

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled, kernel

STEPS = 1024
"""Steps from a number to its double."""

NEVER = -(2**40)
"""Index of a budget where the rule does not hold even alone."""


@kernel
def grid_ms(index: int) -> float:
    """Return a number of the grid; 1 ms has the index 0."""
    return math.ldexp(1.0 + (index % STEPS) / STEPS, index // STEPS)


@kernel
def grid_index(time_ms: float) -> int:
    """Return the index of the largest number of the grid that does not exceed a time above 0."""
    mantissa, exponent = math.frexp(time_ms)
    return (exponent - 1) * STEPS + int((2.0 * mantissa - 1.0) * STEPS)


@compiled
def grid_indices(times_ms: Floats) -> Ints:
    """Return ``grid_index`` of several times; ``NEVER`` for those that are not above 0."""
    found = np.full(len(times_ms), NEVER, dtype=np.int64)
    for n in range(len(times_ms)):
        if times_ms[n] > 0.0:
            found[n] = grid_index(times_ms[n])
    return found


@compiled
def budgets_of(index: Ints, alone_ms: Floats) -> Floats:
    """Return the budgets with these indices: the time alone where it exceeds the number of the grid; -inf if never."""
    found = np.full(len(index), -np.inf)
    for n in range(len(index)):
        if index[n] > NEVER:
            found[n] = max(grid_ms(index[n]), alone_ms[n])
    return found
