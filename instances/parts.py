"""Equal parts of workloads that are too large for one GPU."""

from collections.abc import Callable

import numpy as np

from instances.arrays import Floats

MOST_PARTS = 100_000
"""Largest number of equal parts into which a workload is divided."""


def trickle_rps(rate_rps: Floats, slo_ms: Floats) -> Floats:
    """Return a rate, at most ``rate_rps / MOST_PARTS``, at which a request is almost always alone in its batch."""
    return np.minimum(rate_rps / MOST_PARTS, 1.0 / slo_ms)


def fewest_parts(enough: Callable[[int], bool]) -> int:
    """Return the smallest number of parts, at least 2, that is ``enough``; all larger numbers must be enough too."""
    low, high = 1, 2
    while not enough(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
