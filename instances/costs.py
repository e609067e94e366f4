"""Costs of sets of whole GPUs, which lift a fractional bound to the next reachable cost."""

import math
from fractions import Fraction

import numpy as np

from instances.instance import Instance

ROUNDING = 1e-6
"""Relative tolerance: a bound this little above a reachable cost still means that cost, since both are float sums."""


_MOST_GPUS = 100_000
"""Largest number of GPUs of a type for which the next cost is computed; beyond it the steps are negligible."""


def cost_step(instance: Instance) -> float:
    """Return a common divisor of all costs of whole GPUs: two different costs differ by at least this."""
    step = Fraction(0)
    for price in (Fraction(repr(pool.type.price_per_hour)) for pool in instance.gpus):
        common = step.denominator * price.denominator
        step = Fraction(math.gcd(int(step * common), int(price * common)), common)
    return float(step)


def next_cost(bound: float, instance: Instance) -> float:
    """Return the least cost of a set of whole GPUs of the pool that is at least ``bound``.

    Return ``bound`` itself if even the whole pool costs less, since no plan exists then, and if the bound needs so many
    GPUs that one of them makes no difference.
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
        # Prices are multiples of about a cent: equal sums differ in the last bits only.
        _, first = np.unique(np.round(reached, 9), return_index=True)
        sums = reached[first]
        enough = sums >= target
        if enough.any():
            # Among sums that reach the bound, more GPUs only raise the cost.
            sums = np.append(sums[~enough], sums[enough].min())
    enough = sums >= target
    return float(sums[enough].min()) if enough.any() else bound
