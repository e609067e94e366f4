"""Seeded noise without state: a function of the batch's number."""

import math

import numpy as np
from numba import njit


@njit(cache=True)
def _mixed(state: np.uint64) -> np.uint64:
    """Scramble 64 bits (the finaliser of splitmix64; Steele, Lea and Flood, OOPSLA 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


@njit(cache=True)
def _uniform(state: np.uint64) -> float:
    """Return a number above 0 and at most 1."""
    return (np.float64(state >> np.uint64(11)) + 1.0) * 2.0**-53


@njit(cache=True)
def noise_factor(deviation: float, seed: int, slot: int, batch: int) -> float:
    """Return a lognormal factor of mean 1 that depends only on seed, slot and batch number.

    Parameters
    ----------
    deviation
        Standard deviation of the logarithm; at 0 the factor is 1.
    seed, slot, batch
        Seed of the simulation, number of the slot, number of its batch.
    """
    if deviation == 0.0:
        return 1.0
    state = _mixed(np.uint64(seed) + np.uint64(0x9E3779B97F4A7C15))
    state = _mixed(state + np.uint64(slot))
    state = _mixed(state + np.uint64(batch))
    radius = math.sqrt(-2.0 * math.log(_uniform(state)))
    normal = radius * math.cos(2.0 * math.pi * _uniform(_mixed(state + np.uint64(1))))
    return math.exp(deviation * normal - 0.5 * deviation * deviation)
