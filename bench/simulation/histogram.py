"""Latency histogram with bins of equal relative width, for percentiles without samples."""

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Ints
from instances.compiled import compiled

_SUB_BITS = 7
"""Bits of the mantissa that select the bin: 128 bins per octave, each less than 0.8 % wide."""

_FIRST_OCTAVE, _OCTAVES = -10, 34
"""First exponent of two, for ms, and number of octaves: from a microsecond to four and a half hours.

Other values fall into the outermost bins.
"""

BINS = _OCTAVES << _SUB_BITS
"""Number of bins."""

SHIFT = 52 - _SUB_BITS
"""Number of the 52 bits of a mantissa that follow the bits that select the bin."""

FIRST = (_FIRST_OCTAVE + 1023) << _SUB_BITS
"""Leading bits of the smallest number in the first bin; an exponent is stored with 1023 added."""


def counts_of(latencies_ms: NDArray[np.float64]) -> Ints:
    """Return the number of latencies in each bin, shape (BINS,); ``latencies_ms`` has shape (requests,)."""
    leading = (np.ascontiguousarray(latencies_ms, dtype=np.float64).view(np.int64) >> SHIFT) - FIRST
    return np.bincount(np.clip(leading, 0, BINS - 1), minlength=BINS)


def edges_ms(first: int, last: int) -> NDArray[np.float64]:
    """Return the lower edges in ms of the bins ``first`` to ``last``, and the upper edge of bin ``last``."""
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
    cumulative = np.cumsum(counts)
    quantile_bin = int(np.searchsorted(cumulative, rank * (1.0 - 1e-12)))
    lower_ms, upper_ms = edges_ms(quantile_bin, quantile_bin)
    part_of_bin = (rank - (cumulative[quantile_bin] - counts[quantile_bin])) / counts[quantile_bin]
    return float(min(lower_ms + (upper_ms - lower_ms) * part_of_bin, largest_ms))


FILE_BITS = 4
"""Bits of the mantissa that select the bin in files: 16 bins per octave, each less than 6.3 % wide."""


def compact(counts: Ints) -> dict[str, list[float]]:
    """Return the bins that are not empty, in the resolution of files, as JSON values: lower edges in ms, and counts."""
    bins_per_sum = 1 << (_SUB_BITS - FILE_BITS)
    sums = counts.reshape(-1, bins_per_sum).sum(axis=1)
    nonempty = np.flatnonzero(sums)
    lower_ms = ((nonempty * bins_per_sum + FIRST) << SHIFT).view(np.float64)
    return {"lower_ms": [round(edge, 6) for edge in lower_ms.tolist()], "requests": sums[nonempty].tolist()}


@compiled
def bin_of(latency_ms: float) -> int:
    """Return the bin of a latency: the leading bits of the number, which form a piecewise linear logarithm."""
    leading = int(np.float64(latency_ms).view(np.int64) >> SHIFT) - FIRST
    return min(max(leading, 0), BINS - 1)
