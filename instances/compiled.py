"""Compilation of kernels that allocate no arrays."""

from typing import Any

from numba import njit

_njit: Any = njit  # the option below is missing from its type

# Numba counts references to every array that a function touches, which in small loops takes several times as long as
# the loop itself. Functions that only read and write their callers' arrays do not need the counts.
kernel = _njit(cache=True, _nrt=False)
inlined = _njit(cache=True, _nrt=False, inline="always")
