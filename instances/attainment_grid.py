"""Fixed grid of the latency budgets under ``attainment``: numbers with eleven significant bits, in milliseconds.

The grid is the same for every SLO, rate and share. Its steps are between 0.049 and 0.098 % of a budget.
"""

import math

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled, kernel

STEPS = 1024
"""Steps of the grid from a number to its double."""

NEVER = -(2**40)
"""Index that stands for no budget: the slot breaks the rule even alone."""


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
    """Return the ``grid_index`` of each time; ``NEVER`` for times that are not above 0."""
    indices = np.full(len(times_ms), NEVER, dtype=np.int64)
    for i in range(len(times_ms)):
        if times_ms[i] > 0.0:
            indices[i] = grid_index(times_ms[i])
    return indices


@compiled
def budgets_of(indices: Ints, alone_ms: Floats) -> Floats:
    """Return the budgets with these indices; -inf at the index ``NEVER``.

    A budget is the number of the grid, or the time alone if that is longer.
    """
    budgets_ms = np.full(len(indices), -np.inf)
    for i in range(len(indices)):
        if indices[i] > NEVER:
            budgets_ms[i] = max(grid_ms(indices[i]), alone_ms[i])
    return budgets_ms
