"""Costs that sets of whole GPUs can have: a fractional bound can be raised to the next of them."""

import math
from fractions import Fraction

import numpy as np

from instances.arrays import Flags
from instances.instance import Instance

ROUNDING = 1e-6
"""Relative tolerance: a bound this little above a reachable cost counts as that cost, since both are float sums."""

_MOST_STEPS = 2**22
"""Largest number of cost steps in a cost; beyond it, one step is negligible."""


def cost_step(instance: Instance) -> float:
    """Return a common divisor of all costs of whole GPUs: two different costs differ by at least this."""
    step = Fraction(0)
    for price in (Fraction(repr(pool.type.price_per_hour)) for pool in instance.gpus):
        common = step.denominator * price.denominator
        step = Fraction(math.gcd(int(step * common), int(price * common)), common)
    return float(step)


def next_cost(bound: float, instance: Instance) -> float:
    """Return the least cost of a set of whole GPUs of the pool that is at least ``bound``.

    Return ``bound`` itself if the whole pool costs less, since no plan exists then, or if the bound has so many cost
    steps that one of them makes no difference.
    """
    if not math.isfinite(bound):
        return bound
    target = bound * (1.0 - ROUNDING)
    if target <= 0.0:
        return 0.0
    step = cost_step(instance)
    offers = [(round(pool.type.price_per_hour / step), pool.count) for pool in instance.gpus if step > 0.0]
    # Without any one of its GPUs, a cheapest set misses the target: it costs less than the target and one GPU more.
    most = target / step + max(price for price, _ in offers) if offers else math.inf
    if most > _MOST_STEPS:
        return bound
    reached = np.zeros(math.ceil(most) + 1, dtype=bool)
    reached[0] = True
    for price, count in offers:
        if price > 0:
            reached = _with_gpus(reached, price, count)
    enough = math.ceil(target / step) + np.flatnonzero(reached[math.ceil(target / step) :])
    return float(enough[0] * step) if len(enough) else bound


def _with_gpus(reached: Flags, price: int, count: int | None) -> Flags:
    """Return the reachable costs, in steps, with at most ``count`` further GPUs at ``price``; ``None``: any number."""
    rows = -(-len(reached) // price)
    chains = np.zeros(rows * price, dtype=bool)
    chains[: len(reached)] = reached
    added = np.arange(rows)[:, None]  # costs in a column of the matrix differ by one GPU from row to row
    latest = np.maximum.accumulate(np.where(chains.reshape(rows, price), added, -rows - 1), axis=0)
    found: Flags = added - latest <= (rows if count is None else min(count, rows))
    return found.ravel()[: len(reached)]


def whole_gpus(bound: float, price: float) -> int:
    """Return the least number of GPUs, each at ``price``, that cost at least ``bound``."""
    return max(0, math.ceil(bound * (1.0 - ROUNDING) / price))
