"""Costs that sets of whole GPUs can have: a fractional bound can be raised to the next of them."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from instances.arrays import Flags
from instances.instance import Instance

ROUNDING = 1e-6
"""Relative tolerance: a bound this little above a reachable cost counts as that cost, since both are float sums."""

_MOST_STEPS = 2**22
"""Largest number of cost steps in a cost and one GPU more; beyond it, one step is negligible."""


def cost_step(instance: Instance) -> float:
    """Return a common divisor of all costs of whole GPUs: two different costs differ by at least this."""
    return float(_step(_prices(instance)))


def _prices(instance: Instance) -> list[Fraction]:
    return [Fraction(repr(float(pool.type.price_per_hour))) for pool in instance.gpus]


def _step(prices: Sequence[Fraction]) -> Fraction:
    common = math.lcm(*(price.denominator for price in prices))
    return Fraction(math.gcd(*(int(price * common) for price in prices)), common)


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
    prices = _prices(instance)
    step = _step(prices)
    if step == 0:
        return bound
    # Without any one of its GPUs, a cheapest set misses the target: it costs less than the target and one GPU more.
    enough, most = math.ceil(Fraction(target) / step), math.ceil((Fraction(target) + max(prices)) / step)
    if most > _MOST_STEPS:
        return bound
    reached = np.zeros(most + 1, dtype=bool)
    reached[0] = True
    for price, pool in zip(prices, instance.gpus, strict=True):
        if price > 0:
            reached = _with_gpus(reached, int(price / step), pool.count)
    found = np.flatnonzero(reached[enough:])
    return float((enough + int(found[0])) * step) if len(found) else bound


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
    return max(0, math.ceil(Fraction(bound * (1.0 - ROUNDING)) / Fraction(price)))
