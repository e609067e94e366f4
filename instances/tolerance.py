"""Tolerance of every constraint, and sums that do not depend on their order.

A constraint ``value <= limit`` is tested as ``value <= widened(limit)``: judge, kernels and solvers compare with the
same widened limits. Relaxations may widen a limit further; verdicts do not. Demands and memory, which are added up on a
GPU, are multiples of a common power of two. Their sums are therefore exact in floating-point numbers, and two programs
that add in different orders compare the same numbers.
"""

import math
from collections.abc import Callable
from typing import overload

import numpy as np

from instances.arrays import Floats

TOLERANCE = 1e-9
"""Relative tolerance of every constraint: on times, rates, memory and shares of applications' stages."""

MARGIN = 1e-9
"""Relative margin by which relaxations widen a limit in addition to the tolerance; it exceeds their rounding errors."""

_MANTISSA_BITS = 53

MOST_TERMS = 128
"""Number of values whose sum is exact; on a GPU with more share units, the number of its units."""


@overload
def widened(limit: float) -> float: ...
@overload
def widened(limit: Floats) -> Floats: ...
def widened(limit: float | Floats) -> float | Floats:
    """Return an upper limit raised by the tolerance; a limit that is not positive does not change."""
    factor = 1.0 + TOLERANCE
    if isinstance(limit, np.ndarray):
        return np.where(limit > 0.0, limit * factor, limit)
    return limit * factor if limit > 0.0 else limit


def summable(values: Floats, largest_sum: float, rounding: Callable[[Floats], Floats] = np.rint) -> Floats:
    """Round values to multiples of a power of two, so that sums up to ``largest_sum`` are exact.

    ``rounding`` selects the multiple; the default is the nearest. A value changes by less than 3e-16 of
    ``largest_sum``, and the order of two values never changes. Infinite values do not change.
    """
    if not 0.0 < largest_sum < math.inf:
        return values
    step = math.ldexp(1.0, math.frexp(largest_sum)[1] - _MANTISSA_BITS)
    return values if step == 0.0 else rounding(values / step) * step
