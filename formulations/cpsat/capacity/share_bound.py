"""Lagrangian bound on ``capacity`` that lists no sets of workloads and neglects interference.

Every GPU type has a multiplier, the charge for one of its units. Every workload takes the configuration with the
largest difference between its throughput and the charge for its units. For any nonnegative multipliers, the sum of
these differences plus the charge for all units of the pool is an upper bound. The multipliers are improved one at a
time.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np

from instances.arrays import Floats
from instances.configurations import Configurations
from instances.tables import Tables

ROUNDS = 3
"""Passes over the GPU types."""

STEPS = 40
"""Steps of the golden-section search along one multiplier."""

GOLDEN = (5.0**0.5 - 1.0) / 2.0
"""Fraction of the interval that each step of a golden-section search keeps."""

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
    throughput_alone = [
        _alone_rps(gpu, configurations_of_type)
        for gpu, configurations_of_type in zip(tables, configurations, strict=True)
    ]
    units_of_type = np.array(
        [gpu.share_units * count for gpu, count in zip(tables, counts, strict=True)], dtype=np.float64
    )
    class_sizes = np.array(sizes, dtype=np.float64)
    largest_rps = np.max([rps_of_type.max(axis=1) for rps_of_type in throughput_alone], axis=0)
    if largest_rps.min(initial=0.0) == -np.inf:
        return -math.inf

    def bound(charge: Floats) -> float:
        gains = [
            (rps_of_type - type_charge * np.arange(rps_of_type.shape[1])).max(axis=1)
            for rps_of_type, type_charge in zip(throughput_alone, charge, strict=True)
        ]
        return float(charge @ units_of_type + class_sizes @ np.max(gains, axis=0))

    charge = np.zeros(len(throughput_alone))
    for _ in range(ROUNDS):
        for gpu_type in range(len(charge)):
            charge = _better(bound, charge, gpu_type, float(largest_rps.max(initial=0.0)))
    value = min(bound(charge), float(class_sizes @ largest_rps))
    return value + ROUNDING * float(charge @ units_of_type + class_sizes @ largest_rps)


def _better(bound: Callable[[Floats], float], charge: Floats, gpu_type: int, highest: float) -> Floats:
    """Return the multipliers after a golden-section search along the multiplier of ``gpu_type``."""

    def with_charge(value: float) -> Floats:
        trial = charge.copy()
        trial[gpu_type] = value
        return trial

    low, high = 0.0, highest
    for _ in range(STEPS):
        lower, upper = high - GOLDEN * (high - low), low + GOLDEN * (high - low)
        if bound(with_charge(lower)) <= bound(with_charge(upper)):
            high = upper
        else:
            low = lower
    return min((charge, with_charge(high)), key=bound)


def _alone_rps(gpu: Tables, configurations: Configurations) -> Floats:
    """Return the largest throughput of each class at each share alone on a GPU, shape (classes, units + 1)."""
    largest_rps = np.full((len(configurations.first) - 1, gpu.share_units + 1), -np.inf)
    model, batch = configurations.model, configurations.batch
    index = (model, batch, configurations.units)
    clock = 1.0 + gpu.throttle_per_w * np.maximum(0.0, gpu.idle_power_w + gpu.power_w[index] - gpu.max_power_w)
    time_ms = (gpu.scheduling_ms[model] + gpu.active_ms[index]) / clock
    throughput = 1000.0 * batch / (time_ms + gpu.exposed_ms[model, batch])
    np.maximum.at(largest_rps, (configurations.item, configurations.units), throughput)
    return largest_rps
