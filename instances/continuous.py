"""SLO rule ``continuous``: decoding with continuous batching, where requests join and leave at every step.

A request takes a place in the batch and keeps it for as many steps as it has output tokens. With ``b`` places and steps
of ``t`` ms, ``a = rate * tokens * t / 1000`` places are occupied on average (Little's law). The rule has two
conditions. A step is within the time per output token, ``t <= TPOT``. A request waits for a place with probability
``1 - attainment`` at most, because waiting delays its first token. That probability is Erlang's C formula for ``b``
servers at load ``a``, so ``a < b``. The formula is on the safe side for two reasons. It assumes that every step takes
as long as a step of a full batch. It also assumes exponentially distributed numbers of steps, with which requests wait
longer than with constant numbers.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike

from instances.arrays import Floats, Ints
from instances.tolerance import widened

CONTINUOUS = "continuous"
"""Name of the rule."""

_BISECTIONS = 60
"""Number of bisections of a load, after which only rounding errors remain."""

_TABLE_MULTIPLE = 128
"""Tables of loads end at a multiple of this number of places, so that few tables are computed."""


def largest_loads(most_places: int, waiting: float) -> Floats:
    """Return the largest load at which at most the fraction ``waiting`` of requests wait.

    Entry n of the result is the load of n places, n from 0 to ``most_places``.
    """
    return _largest_loads(-(-most_places // _TABLE_MULTIPLE) * _TABLE_MULTIPLE, waiting)[: most_places + 1]


@lru_cache(maxsize=64)
def _largest_loads(most_places: int, waiting: float) -> Floats:
    places = np.arange(most_places + 1)
    low, high = np.zeros(most_places + 1), places.astype(np.float64)
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2.0
        acceptable = _waiting_probabilities(middle) <= waiting
        low, high = np.where(acceptable, middle, low), np.where(acceptable, high, middle)
    low[0] = 0.0
    low.flags.writeable = False
    return low


def _waiting_probabilities(load: Floats) -> Floats:
    """Return the probability (Erlang C) that a request waits for one of n places at load ``load[n]``, for every n.

    It follows from the recursion of Erlang's B formula (``blocked``).
    """
    blocked, waiting = np.ones(len(load)), np.ones(len(load))
    for n in range(1, len(load)):
        blocked[n:] = load[n:] * blocked[n:] / (n + load[n:] * blocked[n:])
        waiting[n] = n * blocked[n] / (n - load[n] * (1.0 - blocked[n]))
    return waiting


def places_needed(slo_ms: ArrayLike, rate_rps: ArrayLike, steps: ArrayLike, waiting: float, most_places: int) -> Ints:
    """Return the fewest places that serve the rate if steps are as long as the time per output token.

    The result is at most ``most_places``, even if they are too few. More places than needed only make steps longer.
    """
    load = np.asarray(rate_rps, float) * np.asarray(steps, float) * np.asarray(slo_ms, float) / 1000.0
    return np.minimum(np.searchsorted(widened(largest_loads(most_places, waiting)), load), most_places)


def continuous_budget_ms(
    slo_ms: ArrayLike, rate_rps: ArrayLike, batch: ArrayLike, steps: ArrayLike, waiting: float, latency_buffer: float
) -> Floats:
    """Return the largest GPU time of a step that satisfies the rule; arguments broadcast.

    Parameters
    ----------
    slo_ms
        Largest permitted time per output token.
    batch
        Places in the batch.
    steps
        Output tokens of a request.
    waiting
        Largest fraction of requests that may wait for a place.
    latency_buffer
        Factor on every predicted latency before it is tested.
    """
    places = np.asarray(batch)
    loads = largest_loads(int(places.max(initial=1)), waiting)
    load_limit_ms = 1000.0 * loads[places] / (np.asarray(rate_rps, float) * np.asarray(steps, float))
    return np.minimum(np.asarray(slo_ms, float), load_limit_ms) / latency_buffer
