"""Histogram bin of one latency, for compiled code; ``bench.simulation.histogram`` needs only NumPy."""

import numpy as np
from numba import njit

from bench.simulation.histogram import BINS, FIRST, SHIFT


@njit(cache=True)
def bin_of(latency_ms: float) -> int:
    """Return the bin of a latency: the leading bits of the number, which are a piecewise linear logarithm."""
    leading = int(np.float64(latency_ms).view(np.int64) >> SHIFT) - FIRST
    return min(max(leading, 0), BINS - 1)
