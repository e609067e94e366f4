"""Interference of co-located workloads: GPU times from the number of residents and their demands."""

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import kernel
from instances.tables import Tables


@kernel
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
    """Return the GPU time ``t_gpu`` of one batch beside the others on its GPU (iGniter equations 4-9; InSS Sec. 4.1).

    Under gpulet's model (``tables.pairwise``) the time is exact for one or two residents; ``gpu_time_beside_ms`` is
    exact for any number.

    Parameters
    ----------
    model, batch, units
        Row of the model in ``tables``, batch size and share in units.
    residents
        Number of residents, this workload included.
    l2_others_pct, dram_others_pct
        Sums of the demands of all other residents.
    power_total_w
        Power demand of all residents above idle, this workload included.

    Returns
    -------
    float
        Milliseconds; infinite if the frequency falls to 0.
    """
    company = 1.0 if residents <= 1 else tables.company[model, batch, units]
    growth = _growth(tables, model, company, l2_others_pct, dram_others_pct)
    return _grown_ms(tables, model, batch, units, residents, growth, power_total_w)


@kernel
def gpu_time_beside_ms(tables: Tables, model: int, batch: int, units: int, demands: Floats, row: int) -> float:
    """Return the GPU time of one batch from the demands of each resident of its GPU.

    Parameters
    ----------
    tables, model, batch, units
        See ``gpu_time_ms``.
    demands
        L2 (percent), DRAM (percent) and power (W) of each resident, shape (residents, 3).
    row
        Row of this batch's workload in ``demands``. Its power there is replaced by the power of this batch.
    """
    residents = len(demands)
    l2_pct, dram_pct, power_w = demands[:, 0].sum(), demands[:, 1].sum(), demands[:, 2].sum()
    power_w = power_w - demands[row, 2] + tables.power_w[model, batch, units]
    if not tables.pairwise or residents <= 2:
        return gpu_time_ms(
            tables, model, batch, units, residents, l2_pct - demands[row, 0], dram_pct - demands[row, 1], power_w
        )
    growth, company = 1.0, tables.company[model, batch, units]
    for j in range(residents):
        if j != row:
            growth += _growth(tables, model, company, demands[j, 0], demands[j, 1]) - 1.0
    return _grown_ms(tables, model, batch, units, residents, growth, power_w)


@kernel
def _growth(tables: Tables, model: int, company: float, l2_others_pct: float, dram_others_pct: float) -> float:
    """Return the factor on the active time (iGniter equation 8; InSS Sec. 4.1; gpulet Sec. 4.4).

    ``company`` is the part of the factor that does not depend on the others' demands (``tables.company``).
    """
    growth = company + tables.alpha_l2[model] * l2_others_pct + tables.alpha_dram[model] * dram_others_pct
    return max(1.0, growth) if tables.pairwise else growth


@kernel
def _grown_ms(
    tables: Tables, model: int, batch: int, units: int, residents: int, growth: float, power_total_w: float
) -> float:
    """Return the GPU time of one batch whose active time grows by the factor ``growth``."""
    # Equations 9 and 10
    excess_w = tables.idle_power_w + power_total_w - tables.max_power_w
    frequency = 1.0 if excess_w <= 0.0 else 1.0 + tables.throttle_per_w * excess_w
    if frequency <= 0.0:
        return np.inf
    # Equations 5 and 6
    added_ms = 0.0 if residents <= 1 else tables.alpha_sch * residents + tables.beta_sch
    scheduling_ms = tables.scheduling_ms[model] + tables.kernels[model] * added_ms
    # Equation 4
    return (scheduling_ms + tables.active_ms[model, batch, units] * growth) / frequency


@kernel
def gpu_times_ms(tables: Tables, model: Ints, batch: Ints, units: Ints, count: int, times_ms: Floats) -> None:
    """Write the GPU time of each of the first ``count`` residents of one GPU into ``times_ms``."""
    if tables.pairwise and count > 2:
        _pairwise_times_ms(tables, model, batch, units, count, times_ms)
        return
    l2_pct = 0.0
    dram_pct = 0.0
    power_w = 0.0
    for i in range(count):
        l2_pct += tables.l2_pct[model[i], batch[i], units[i]]
        dram_pct += tables.dram_pct[model[i], batch[i], units[i]]
        power_w += tables.power_w[model[i], batch[i], units[i]]
    for i in range(count):
        m, b, u = model[i], batch[i], units[i]
        times_ms[i] = gpu_time_ms(
            tables, m, b, u, count, l2_pct - tables.l2_pct[m, b, u], dram_pct - tables.dram_pct[m, b, u], power_w
        )


@kernel
def _pairwise_times_ms(tables: Tables, model: Ints, batch: Ints, units: Ints, count: int, times_ms: Floats) -> None:
    """Write the GPU times under gpulet's model, in which the growths by the single neighbours add up."""
    power_w = 0.0
    for i in range(count):
        power_w += tables.power_w[model[i], batch[i], units[i]]
    for i in range(count):
        growth, company = 1.0, tables.company[model[i], batch[i], units[i]]
        for j in range(count):
            if j != i:
                l2_pct, dram_pct = (
                    tables.l2_pct[model[j], batch[j], units[j]],
                    tables.dram_pct[model[j], batch[j], units[j]],
                )
                growth += _growth(tables, model[i], company, l2_pct, dram_pct) - 1.0
        times_ms[i] = _grown_ms(tables, model[i], batch[i], units[i], count, growth, power_w)
