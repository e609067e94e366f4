"""Latency histogram with bins of equal relative width, for percentiles without samples."""

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Ints
from instances.compiled import compiled

_SUB_BITS = 7
"""Bits of the mantissa that select the bin: 128 bins per octave, each less than 0.8 % wide."""

_FIRST_OCTAVE, _OCTAVES = -10, 34
"""Exponents of a range from a microsecond to four and a half hours; other values fall into the outermost bins."""

BINS = _OCTAVES << _SUB_BITS

SHIFT = 52 - _SUB_BITS
"""Number of the 52 bits of a mantissa after those that select the bin."""

FIRST = (_FIRST_OCTAVE + 1023) << _SUB_BITS
"""Leading bits of the smallest number in the first bin; an exponent is stored with 1023 added."""


def counts_of(latencies_ms: NDArray[np.float64]) -> Ints:
    """Return the number of ``latencies_ms``, shape (requests,), in each bin, shape (BINS,)."""
    leading = (np.ascontiguousarray(latencies_ms, dtype=np.float64).view(np.int64) >> SHIFT) - FIRST
    return np.bincount(np.clip(leading, 0, BINS - 1), minlength=BINS)


def edges_ms(first: int, last: int) -> NDArray[np.float64]:
    """Return the lower edges of the bins ``first`` to ``last``, the upper edge of the last included, in ms."""
    bits = (np.arange(first, last + 2, dtype=np.int64) + FIRST) << SHIFT
    return bits.view(np.float64)


def quantile_ms(counts: Ints, fraction: float, largest_ms: float) -> float | None:
    """Return the smallest latency that at least ``fraction`` of the requests do not exceed.

    Latencies are interpolated linearly within a bin.

    Parameters
    ----------
    counts
        Number of requests in each bin, shape (BINS,).
    fraction
        Above 0, at most 1.
    largest_ms
        Largest counted latency, an upper limit of all quantiles.

    Returns
    -------
    float or None
        Milliseconds; ``None`` if nothing was counted.
    """
    total = int(counts.sum())
    if total == 0:
        return None
    rank = fraction * total
    below = np.cumsum(counts)
    at = int(np.searchsorted(below, rank * (1.0 - 1e-12)))
    low, high = edges_ms(at, at)
    inside = (rank - (below[at] - counts[at])) / counts[at]
    return float(min(low + (high - low) * inside, largest_ms))


KEPT_BITS = 4
"""Bits of the mantissa that select the bin in files: 16 bins per octave, each less than 6.3 % wide."""


def compact(counts: Ints) -> dict[str, list[float]]:
    """Return the occupied bins in the resolution of files as JSON values: lower edges in ms, and counts."""
    merged = 1 << (_SUB_BITS - KEPT_BITS)
    sums = counts.reshape(-1, merged).sum(axis=1)
    occupied = np.flatnonzero(sums)
    lower_ms = ((occupied * merged + FIRST) << SHIFT).view(np.float64)
    return {"lower_ms": [round(edge, 6) for edge in lower_ms.tolist()], "requests": sums[occupied].tolist()}


@compiled
def bin_of(latency_ms: float) -> int:
    """Return the bin of a latency: the leading bits of the number, which are a piecewise linear logarithm."""
    leading = int(np.float64(latency_ms).view(np.int64) >> SHIFT) - FIRST
    return min(max(leading, 0), BINS - 1)
