"""Lagrangian bound on ``capacity`` without sets of workloads and without interference.

Every GPU type has a multiplier, the charge for one of its units. Every workload takes the configuration with the
largest throughput minus the charge for its units. For any nonnegative multipliers, the sum of these differences plus
the charge for all units of the pool is an upper bound. The multipliers are improved one at a time.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from instances.arrays import Floats
from instances.configurations import Configurations
from instances.tables import Tables

ROUNDS, STEPS = 3, 40
"""Passes over the GPU types, and steps of the golden-section search in each."""

GOLDEN = (5.0**0.5 - 1.0) / 2.0

ROUNDING = 1e-9
"""Relative tolerance for the rounding of the sum."""


def share_bound(
    tables: Sequence[Tables], configurations: Sequence[Configurations], counts: Sequence[int], sizes: Sequence[int]
) -> float:
    """Return an upper bound on the throughput of all plans; -inf if some class has no configuration on any type.

    Parameters
    ----------
    tables, configurations, counts
        For each GPU type; ``counts`` is the number of GPUs.
    sizes
        Number of workloads of each class.
    """
    alone = [_alone_rps(gpu, offered) for gpu, offered in zip(tables, configurations, strict=True)]
    supply = np.array([gpu.share_units * count for gpu, count in zip(tables, counts, strict=True)], dtype=np.float64)
    workloads = np.array(sizes, dtype=np.float64)
    most = np.max([values.max(axis=1) for values in alone], axis=0)
    if most.min(initial=0.0) == -np.inf:
        return -math.inf

    def bound(charge: Floats) -> float:
        gains = [(values - c * np.arange(values.shape[1])).max(axis=1) for values, c in zip(alone, charge, strict=True)]
        return float(charge @ supply + workloads @ np.max(gains, axis=0))

    charge = np.zeros(len(alone))
    for _ in range(ROUNDS):
        for t in range(len(charge)):
            charge = _better(bound, charge, t, float(most.max(initial=0.0)))
    value = min(bound(charge), float(workloads @ most))
    return value + ROUNDING * float(charge @ supply + workloads @ most)


def _better(bound: Callable[[Floats], float], charge: Floats, t: int, highest: float) -> Floats:
    """Return the multipliers with that of type ``t`` improved; the bound is convex in it."""

    def at(value: float) -> Floats:
        trial = charge.copy()
        trial[t] = value
        return trial

    low, high = 0.0, highest
    for _ in range(STEPS):
        left, right = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if bound(at(left)) <= bound(at(right)):
            high = right
        else:
            low = left
    return min((charge, at(high)), key=bound)


def _alone_rps(gpu: Tables, configurations: Configurations) -> Floats:
    """Return the largest throughput of each class at each share alone on a GPU, shape (classes, units + 1)."""
    values = np.full((len(configurations.first) - 1, gpu.share_units + 1), -np.inf)
    model, batch = configurations.model, configurations.batch
    at = (model, batch, configurations.units)
    clock = 1.0 + gpu.throttle_per_w * np.maximum(0.0, gpu.idle_power_w + gpu.power_w[at] - gpu.max_power_w)
    time_ms = (gpu.scheduling_ms[model] + gpu.active_ms[at]) / clock
    throughput = 1000.0 * batch / (time_ms + gpu.exposed_ms[model, batch])
    np.maximum.at(values, (configurations.item, configurations.units), throughput)
    return values
