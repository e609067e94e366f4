"""Costs of sets of whole GPUs. A fractional bound on the cost can be raised to the next such cost."""

import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from instances.arrays import Flags
from instances.instance import Instance

ROUNDING = 1e-6
"""Relative tolerance: a bound that exceeds a cost of whole GPUs by less counts as that cost; both are rounded sums."""

_MOST_STEPS = 2**22
"""Largest number of cost steps in a bound plus one GPU; beyond it, one step is negligible."""


def cost_step(instance: Instance) -> float:
    """Return a common divisor of the costs of all sets of whole GPUs: two different costs differ by at least this."""
    return float(_step(_prices(instance)))


def _prices(instance: Instance) -> list[Fraction]:
    return [Fraction(repr(float(pool.type.price_per_hour))) for pool in instance.gpus]


def _step(prices: Sequence[Fraction]) -> Fraction:
    """Return the greatest common divisor of the prices."""
    denominator = math.lcm(*(price.denominator for price in prices))
    return Fraction(math.gcd(*(int(price * denominator) for price in prices)), denominator)


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
    # Each GPU of a cheapest set is needed to reach the target, so the set costs less than the target plus one GPU.
    least_steps, most_steps = math.ceil(Fraction(target) / step), math.ceil((Fraction(target) + max(prices)) / step)
    if most_steps > _MOST_STEPS:
        return bound
    reachable = np.zeros(most_steps + 1, dtype=bool)
    reachable[0] = True
    for price, pool in zip(prices, instance.gpus, strict=True):
        if price > 0:
            reachable = _with_gpus(reachable, int(price / step), pool.count)
    enough = np.flatnonzero(reachable[least_steps:])
    return float((least_steps + int(enough[0])) * step) if len(enough) else bound


def _with_gpus(reachable: Flags, price: int, count: int | None) -> Flags:
    """Return the reachable costs, in steps, with up to ``count`` more GPUs at ``price``; ``None`` means any number."""
    rows = -(-len(reachable) // price)
    padded = np.zeros(rows * price, dtype=bool)
    padded[: len(reachable)] = reachable
    row = np.arange(rows)[:, None]  # from row to row, the costs in a column differ by one GPU
    last_reachable_row = np.maximum.accumulate(np.where(padded.reshape(rows, price), row, -rows - 1), axis=0)
    with_gpus: Flags = row - last_reachable_row <= (rows if count is None else min(count, rows))
    return with_gpus.ravel()[: len(reachable)]


def whole_gpus(bound: float, price: float) -> int:
    """Return the least number of GPUs, each at ``price``, that cost at least ``bound``."""
    return max(0, math.ceil(Fraction(bound * (1.0 - ROUNDING)) / Fraction(price)))
