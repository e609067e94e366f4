"""SLO rule ``continuous``: decoding with continuous batching, where requests join and leave at every step.

A request takes a place in the batch and keeps it for as many steps as it has output tokens. With ``b`` places and steps
of ``t`` ms, ``a = rate * tokens * t / 1000`` places are occupied on average (Little's law). The rule asks for two
things. A step is within the time per output token, ``t <= TPOT``. And a request rarely waits for a place, because
waiting delays its first token: with probability ``1 - attainment`` at most. That probability is Erlang's C formula for
``b`` servers at load ``a``, so ``a < b``. The formula errs on the safe side: it assumes that every step is as
long as that of a full batch, and that numbers of steps are exponentially distributed, which makes requests wait longer
than constant numbers do.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from instances.arrays import Floats, Ints
from instances.tolerance import widened

CONTINUOUS = "continuous"
"""Name of the rule."""

_BISECTIONS = 60

_TABULATED = 128
"""Loads are tabulated for all numbers of places up to a multiple of this."""


def largest_loads(most: int, waiting: float) -> Floats:
    """Return, for 0 to ``most`` places, the largest load at which at most the fraction ``waiting`` of requests wait."""
    return _largest_loads(-(-most // _TABULATED) * _TABULATED, waiting)[: most + 1]


@lru_cache(maxsize=64)
def _largest_loads(most: int, waiting: float) -> Floats:
    places = np.arange(most + 1)
    low, high = np.zeros(most + 1), places.astype(np.float64)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        rare = _waiting_probabilities(middle) <= waiting
        low, high = np.where(rare, middle, low), np.where(rare, high, middle)
    low[0] = 0.0
    low.flags.writeable = False
    return low


def _waiting_probabilities(load: Floats) -> Floats:
    """Return, for n = 0, 1, ... places, the probability (Erlang C) that a request waits at the load ``load[n]``."""
    blocked, found = np.ones(len(load)), np.ones(len(load))
    for n in range(1, len(load)):
        blocked[n:] = load[n:] * blocked[n:] / (n + load[n:] * blocked[n:])
        found[n] = n * blocked[n] / (n - load[n] * (1.0 - blocked[n]))
    return found


def places_needed(slo_ms: ArrayLike, rate_rps: ArrayLike, steps: ArrayLike, waiting: float, most: int) -> Ints:
    """Return the fewest places, at most ``most``, that serve the rate with steps as long as the time per output token.

    More places are never needed: they only make steps longer.
    """
    load = np.asarray(rate_rps, float) * np.asarray(steps, float) * np.asarray(slo_ms, float) / 1000.0
    return np.minimum(np.searchsorted(widened(largest_loads(most, waiting)), load), most)


def continuous_budget_ms(
    slo_ms: ArrayLike, rate_rps: ArrayLike, batch: ArrayLike, steps: ArrayLike, waiting: float, latency_buffer: float
) -> Floats:
    """Return the largest GPU time of a step at which the rule holds; arguments broadcast.

    Parameters
    ----------
    slo_ms
        Objective of the time per output token.
    batch
        Places in the batch.
    steps
        Output tokens of a request.
    waiting
        Largest fraction of requests that may wait for a place.
    latency_buffer
        Factor on every predicted latency before it is tested.
    """
    b = np.asarray(batch)
    loads = largest_loads(int(b.max(initial=1)), waiting)
    serves_ms = 1000.0 * loads[b] / (np.asarray(rate_rps, float) * np.asarray(steps, float))
    return np.minimum(np.asarray(slo_ms, float), serves_ms) / latency_buffer
