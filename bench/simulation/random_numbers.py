"""Random numbers that a seed and positions determine, so that the order of events does not change them."""

import numpy as np

from instances.compiled import compiled


@compiled
def mixed(state: np.uint64) -> np.uint64:
    """Return the scrambled bits of ``state`` (the finaliser of splitmix64; Steele, Lea and Flood, OOPSLA 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@compiled
def uniform(state: np.uint64) -> float:
    """Return a number above 0 and at most 1 from the leading bits of ``state``."""
    return (np.float64(state >> np.uint64(11)) + 1.0) * 2.0**-53
