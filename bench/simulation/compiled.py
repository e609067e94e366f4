"""How the kernels of the simulation are compiled."""

from typing import Any

from numba import njit

_njit: Any = njit  # the option below is missing from its type

# Without Numba's reference counts, which take several times as long as the event loop itself. Such functions may read
# and write arrays but not make any.
kernel = _njit(cache=True, _nrt=False)
inlined = _njit(cache=True, _nrt=False, inline="always")
