"""A GPU type under a performance model as dense arrays: what kernels, judge and schedulers compute with."""

from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.gpu import GpuType
from instances.performance import performance_model

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Tables(NamedTuple):
    """Every model on one GPU type at every batch and share.

    Arrays are indexed ``[model, batch, share_units]`` as far as they go; index 0 of batch and share is unused (infinite
    time, no demand), so that indices are the numbers themselves.

    Attributes
    ----------
    active_ms, l2_pct, dram_pct, power_w
        What a workload running alone takes, shape (models, max batch + 1, share units + 1).
    transfer_ms
        Upload plus feedback ``x``, shape (models, max batch + 1).
    exposed_ms
        The part of ``x`` that no execution hides: throughput is ``b / (t_gpu + exposed)``.
    memory_mib
        Resident memory, shape (models, max batch + 1).
    scheduling_ms, kernels, alpha_l2, alpha_dram
        Sensitivity of each model, shape (models,).
    max_batch
        Largest supported batch of each model, shape (models,).
    next_share
        The next larger permitted share after each number of units, shape (share units + 1,); ``share_units + 1``
        where there is none.
    permitted
        The permitted shares, ascending.
    share_units
        Units in the whole GPU.
    memory_limit_mib
        Device memory.
    alpha_sch, beta_sch, idle_power_w, max_power_w, throttle_per_w
        Contention on the GPU.
    """

    active_ms: Floats
    l2_pct: Floats
    dram_pct: Floats
    power_w: Floats
    transfer_ms: Floats
    exposed_ms: Floats
    memory_mib: Floats
    scheduling_ms: Floats
    kernels: Floats
    alpha_l2: Floats
    alpha_dram: Floats
    max_batch: Ints
    next_share: Ints
    permitted: Ints
    share_units: int
    memory_limit_mib: float
    alpha_sch: float
    beta_sch: float
    idle_power_w: float
    max_power_w: float
    throttle_per_w: float


@lru_cache(maxsize=64)
def gpu_tables(gpu: GpuType, model_name: str) -> Tables:
    """Tabulate every model of ``gpu`` under the performance model ``model_name``.

    Models come in the order of ``gpu.models``.
    """
    performance = performance_model(model_name)
    models = list(gpu.models.values())
    units = gpu.share_units
    top_batch = max(model.max_batch for model in models)
    shape = (len(models), top_batch + 1, units + 1)
    active = np.full(shape, np.inf)
    l2, dram, power = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    transfer, exposed = np.full(shape[:2], np.inf), np.full(shape[:2], np.inf)
    memory = np.full(shape[:2], np.inf)
    share_pct = gpu.share_pct(1) * np.arange(1, units + 1, dtype=np.float64)
    for row, model in enumerate(models):
        batch = np.arange(1, model.max_batch + 1, dtype=np.float64)
        filled = slice(1, model.max_batch + 1)
        demand = performance.demand(gpu, model, batch[:, None], share_pct[None, :])
        for target, values in (
            (active, demand.active_ms),
            (l2, demand.l2_pct),
            (dram, demand.dram_pct),
            (power, demand.power_w),
        ):
            target[row, filled, 1:] = values
        load_ms, feedback_ms = performance.transfers_ms(gpu, model, batch)
        transfer[row, filled] = load_ms + feedback_ms
        exposed[row, filled] = feedback_ms if performance.loading_overlaps else load_ms + feedback_ms
        memory[row, filled] = [model.memory_mib(int(b)) for b in batch]
    permitted = np.array(sorted(gpu.allowed_shares or range(1, units + 1)), dtype=np.int64)
    sensitivity = [performance.sensitivity(gpu, model) for model in models]
    contention = performance.contention(gpu)
    return Tables(
        active,
        l2,
        dram,
        power,
        transfer,
        exposed,
        memory,
        np.array([s.scheduling_alone_ms for s in sensitivity]),
        np.array([s.kernels for s in sensitivity]),
        np.array([s.alpha_l2 for s in sensitivity]),
        np.array([s.alpha_dram for s in sensitivity]),
        np.array([model.max_batch for model in models], dtype=np.int64),
        np.append(permitted, units + 1)[np.searchsorted(permitted, np.arange(units + 1), side="right")],
        permitted,
        units,
        gpu.memory_mib,
        contention.alpha_sch,
        contention.beta_sch,
        contention.idle_power_w,
        contention.max_power_w,
        contention.throttle_per_w,
    )
