"""The bin of one latency, for compiled code; ``bench.simulation.histogram`` itself gets by with NumPy."""

import numpy as np
from numba import njit

from bench.simulation.histogram import BINS, FIRST, SHIFT


@njit(cache=True)
def bin_of(latency_ms: float) -> int:
    """Return the bin of a latency: the leading bits of the number itself, which are its logarithm, piecewise linear."""
    leading = int(np.float64(latency_ms).view(np.int64) >> SHIFT) - FIRST
    return min(max(leading, 0), BINS - 1)
