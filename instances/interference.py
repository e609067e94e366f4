"""Interference through four sums: a batch's GPU time beside others depends on N, C, D and P alone."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from instances.tables import Tables


@njit(cache=True)
def gpu_time_ms(
    tables: Tables,
    model: int,
    batch: int,
    units: int,
    residents: int,
    l2_others_pct: float,
    dram_others_pct: float,
    power_total_w: float,
) -> float:
    """GPU time ``t_gpu`` of one batch beside the others on its GPU (iGniter equations 4-9; InSS Sec. 4.1).

    Parameters
    ----------
    tables
        Of the GPU type.
    model, batch, units
        Row of the model, batch size and share in units.
    residents
        N, this workload included.
    l2_others_pct, dram_others_pct
        Demands of all other residents.
    power_total_w
        Demand of all residents above idle, this one included.

    Returns
    -------
    float
        Milliseconds; infinite where the frequency would fall to nothing.
    """
    # Equations 9 and 10
    excess_w = tables.idle_power_w + power_total_w - tables.max_power_w
    frequency = 1.0 if excess_w <= 0.0 else 1.0 + tables.throttle_per_w * excess_w
    if frequency <= 0.0:
        return np.inf
    # Equations 5 and 6
    added = 0.0 if residents <= 1 else tables.alpha_sch * residents + tables.beta_sch
    scheduling = tables.scheduling_ms[model] + tables.kernels[model] * added
    # Equation 8
    growth = 1.0 + tables.alpha_l2[model] * l2_others_pct + tables.alpha_dram[model] * dram_others_pct
    # Equation 4
    return (scheduling + tables.active_ms[model, batch, units] * growth) / frequency


@njit(cache=True)
def gpu_times_ms(
    tables: Tables,
    model: NDArray[np.int64],
    batch: NDArray[np.int64],
    units: NDArray[np.int64],
    count: int,
    times_ms: NDArray[np.float64],
) -> None:
    """Write the GPU time of each of the first ``count`` residents of one GPU into ``times_ms``."""
    l2 = 0.0
    dram = 0.0
    power = 0.0
    for i in range(count):
        l2 += tables.l2_pct[model[i], batch[i], units[i]]
        dram += tables.dram_pct[model[i], batch[i], units[i]]
        power += tables.power_w[model[i], batch[i], units[i]]
    for i in range(count):
        m, b, u = model[i], batch[i], units[i]
        times_ms[i] = gpu_time_ms(
            tables, m, b, u, count, l2 - tables.l2_pct[m, b, u], dram - tables.dram_pct[m, b, u], power
        )
