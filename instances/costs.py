"""Costs that whole GPUs can have: a bound between two of them means the next one."""

import math
from fractions import Fraction

import numpy as np

from instances.instance import Instance

ROUNDING = 1e-6
"""A bound this much (relatively) above a reachable cost still means that cost: it comes from sums of floats."""


_MOST_GPUS = 100_000
"""Of a type; where more would be needed, the next cost is so near that it is not looked for."""


def cost_step(instance: Instance) -> float:
    """Return a number that all costs of whole GPUs are multiples of: two that differ do so by at least this."""
    step = Fraction(0)
    for price in (Fraction(repr(pool.type.price_per_hour)) for pool in instance.gpus):
        common = step.denominator * price.denominator
        step = Fraction(math.gcd(int(step * common), int(price * common)), common)
    return float(step)


def next_cost(bound: float, instance: Instance) -> float:
    """Return the least cost, at least ``bound``, that some set of whole GPUs of the pool has.

    ``bound`` itself if even the whole pool costs less, since then no plan exists, and where it is that of so many GPUs
    that one more or less makes no difference.
    """
    if not math.isfinite(bound):
        return bound
    target = bound * (1.0 - ROUNDING)
    if target <= 0.0:
        return 0.0
    offers = [(pool.type.price_per_hour, pool.count) for pool in instance.gpus if pool.type.price_per_hour > 0.0]
    if any(target / price > _MOST_GPUS and (count is None or count > _MOST_GPUS) for price, count in offers):
        return bound
    sums = np.zeros(1)
    for price, count in offers:
        most = math.ceil(target / price) if count is None else min(count, math.ceil(target / price))
        reached = (sums[:, None] + price * np.arange(most + 1)).ravel()
        # Prices are multiples of a cent or so: equal sums differ in the last bits only.
        _, first = np.unique(np.round(reached, 9), return_index=True)
        sums = reached[first]
        enough = sums >= target
        if enough.any():
            # Of the sums that suffice already, more GPUs only cost more.
            sums = np.append(sums[~enough], sums[enough].min())
    enough = sums >= target
    return float(sums[enough].min()) if enough.any() else bound
