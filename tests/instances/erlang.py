"""Queues of the rule ``continuous`` in closed form, for one number of places."""

import numpy as np

from instances.arrays import Floats


def waiting_probability(places: int, load: float) -> float:
    """Return the probability that a request waits for one of ``places`` (Erlang C); 1 if the load is not below them."""
    if load >= places:
        return 1.0
    blocked = 1.0
    for n in range(1, places + 1):
        blocked = load * blocked / (n + load * blocked)
    return places * blocked / (places - load * (1.0 - blocked))


def mean_in_flight(step_ms: Floats, rate_rps: float, steps: int) -> float:
    """Return the mean number of requests in flight, under Poisson arrivals; ``inf`` if the slot cannot keep up.

    The requests in flight share steps whose time depends on their number. Such a queue is insensitive: the probability
    of n requests is proportional to the product of ``rate * steps * step_ms[k] / (1000 k)`` over k up to n. Requests
    beyond the last place wait, which is exact for exponential numbers of steps.

    Parameters
    ----------
    step_ms
        Time of a step by the number of requests in it, from index 1 to the number of places.
    rate_rps, steps
        Requests per second, and steps of each.
    """
    places = len(step_ms) - 1
    k = np.arange(1, places + 1)
    ratio = rate_rps * steps / 1000.0 * step_ms[1:] / k
    if ratio[-1] >= 1.0:
        return np.inf
    weight = np.concatenate(([1.0], np.cumprod(ratio)))
    beyond = weight[-1] * ratio[-1] / (1.0 - ratio[-1])
    return float((weight[1:] @ k + places * beyond) / (weight.sum() + beyond))
