"""Dense arrays of the times and demands on a GPU type under a performance model, for kernels, judge and schedulers."""

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from instances.arrays import Floats, Ints
from instances.errors import InputError
from instances.gpu import DnnModel, GpuType
from instances.measurements import Configuration
from instances.performance import performance_model
from instances.performance.model import transfers_ms
from instances.tolerance import MOST_TERMS, summable, widened

MOST_CELLS = 2**22
"""Largest product of the numbers of models, batches and shares of a GPU type; its tables then stay below 500 MB."""

_LARGEST_MEMORY = 4.0
"""Largest sum of memory that is exact, as a multiple of the GPU's memory; larger sums exceed it in any case."""


class Tables(NamedTuple):
    """Times, demands and memory of every model on one GPU type, at every batch and share.

    Arrays are indexed by ``[model, batch, share_units]`` or a prefix of it. Batch and share start at 1: index 0 is
    unused (infinite time, no demand). Demands and memory are rounded so that their sums on a GPU are exact
    (``instances.tolerance``).

    Attributes
    ----------
    active_ms, l2_pct, dram_pct, power_w
        Time and demands of a model alone, shape (models, max batch + 1, share units + 1).
    company
        Factor on the active time as soon as others share the GPU, before the growth by their demands; same shape.
    transfer_ms
        Time of upload (batching time included) and feedback, ``x``, shape (models, max batch + 1).
    exposed_ms
        The part of ``x`` that does not overlap with an execution: throughput is ``b / (t_gpu + exposed)``.
    memory_mib
        Resident memory, shape (models, max batch + 1).
    memory_limit_mib
        Memory of the GPU, widened by the tolerance of constraints.
    scheduling_ms, kernels, alpha_l2, alpha_dram
        Scheduling delay alone, kernels, and relative growth of the time per percent of the others' L2 and DRAM demand
        (``Sensitivity``), shape (models,).
    max_batch
        Largest batch of each model, shape (models,).
    next_share
        The next larger permitted share after each number of units, shape (share units + 1,); ``share_units + 1`` if
        there is none.
    permitted
        The permitted shares, ascending.
    share_units
        Units in the whole GPU.
    alpha_sch, beta_sch, idle_power_w, max_power_w, throttle_per_w
        Coefficients of the GPU type (``Contention``).
    pairwise
        Whether the slowdown by each other resident is clipped at 0, as in gpulet's model. A slowdown computed from the
        sum of the others' demands is then exact for at most two residents.
    falling
        Whether ``active_ms * company`` never rises with the share.
    most_residents
        Largest number of residents on one GPU: two if ``pairwise``, otherwise the number of share units.
    """

    active_ms: Floats
    l2_pct: Floats
    dram_pct: Floats
    power_w: Floats
    company: Floats
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
    pairwise: bool
    falling: bool
    most_residents: int


def table_cells(gpu: GpuType) -> int:
    """Return the product of the numbers of models, batches and shares of a GPU type."""
    batches = max((model.max_batch for model in gpu.models.values()), default=0)
    return len(gpu.models) * (batches + 1) * (gpu.share_units + 1)


def gpu_tables(gpu: GpuType, model_name: str) -> Tables:
    """Tabulate every model of ``gpu`` under the performance model ``model_name``.

    The rows are in the order of ``gpu.models``.

    Raises
    ------
    InputError
        If the catalogue lacks figures that the performance model needs, or the tables are too large.
    """
    return tables_in_order(gpu, model_name, tuple(gpu.models))


@lru_cache(maxsize=64)
def tables_in_order(gpu: GpuType, model_name: str, order: tuple[str, ...]) -> Tables:
    """Return the tables of ``gpu_tables`` from a cache.

    ``order`` is the order of ``gpu.models``. It is part of the cache's key: GPU types are equal even if they list their
    models in different orders, but the rows of their tables differ.
    """
    if (cells := table_cells(gpu)) > MOST_CELLS:
        problem = f"has {cells:,} combinations of model, batch and share; at most {MOST_CELLS:,} are supported"
        raise InputError(gpu.name, f"{problem}, so divide it into fewer share_units or lower max_batch")
    models = list(gpu.models.values())
    share_pct = gpu.share_pct(1) * np.arange(1, gpu.share_units + 1, dtype=np.float64)
    batches = [np.arange(1, model.max_batch + 1, dtype=np.float64) for model in models]
    permitted = np.array(sorted(gpu.allowed_shares or range(1, gpu.share_units + 1)), dtype=np.int64)
    return _tabulate(gpu, model_name, models, batches, [share_pct] * len(models), permitted)


def configuration_tables(gpu: GpuType, model_name: str, configurations: Sequence[Configuration]) -> Tables:
    """Tabulate configurations one by one: configuration i is row i at batch index 1 and share index 1.

    With these tables, the kernels can also compute with shares that are not whole units of the GPU.

    Raises
    ------
    InputError
        If the catalogue lacks a model, or figures of it that the performance model needs.
    """
    models = [gpu.model(configuration.model) for configuration in configurations]
    batches = [np.array([float(configuration.batch)]) for configuration in configurations]
    shares = [np.array([configuration.share_pct]) for configuration in configurations]
    return _tabulate(gpu, model_name, models, batches, shares, np.ones(1, dtype=np.int64))


def _tabulate(
    gpu: GpuType,
    model_name: str,
    models: Sequence[DnnModel],
    batches: Sequence[Floats],
    shares_pct: Sequence[Floats],
    permitted: Ints,
) -> Tables:
    """Tabulate each model at its batches and shares, at indices 1 and up."""
    performance = performance_model(model_name)
    units = max((len(share_pct) for share_pct in shares_pct), default=0)
    most_terms = max(units, MOST_TERMS)
    shape = (len(models), max((len(batch) for batch in batches), default=0) + 1, units + 1)
    active_ms = np.full(shape, np.inf)
    l2_pct, dram_pct, power_w, company = np.zeros(shape), np.zeros(shape), np.zeros(shape), np.ones(shape)
    transfer_ms, exposed_ms = np.full(shape[:2], np.inf), np.full(shape[:2], np.inf)
    memory_mib = np.full(shape[:2], np.inf)
    for row, (model, batch, share_pct) in enumerate(zip(models, batches, shares_pct, strict=True)):
        filled = slice(1, len(batch) + 1)
        demand = performance.demand(gpu, model, batch[:, None], share_pct[None, :])
        for target, values in (
            (active_ms, demand.active_ms),
            (l2_pct, demand.l2_pct),
            (dram_pct, demand.dram_pct),
            (power_w, demand.power_w),
            (company, demand.company),
        ):
            target[row, filled, 1:] = values
        upload_ms, feedback_ms = transfers_ms(gpu, model, batch)
        transfer_ms[row, filled] = upload_ms + feedback_ms
        exposed_ms[row, filled] = feedback_ms if performance.loading_overlaps else upload_ms + feedback_ms
        memory_mib[row, filled] = [model.memory_mib(int(size)) for size in batch]
    l2_pct, dram_pct, power_w = (
        summable(figures, most_terms * float(np.abs(figures).max(initial=0.0)))
        for figures in (l2_pct, dram_pct, power_w)
    )
    memory_mib = summable(memory_mib, _LARGEST_MEMORY * gpu.memory_mib)
    falling = all(
        bool(np.all(np.diff(beside_ms[1 : len(batch) + 1, 1:], axis=1) <= 0.0))
        for beside_ms, batch in zip(active_ms * company, batches, strict=True)
    )
    sensitivity = [performance.sensitivity(gpu, model) for model in models]
    contention = performance.contention(gpu)
    return Tables(
        active_ms,
        l2_pct,
        dram_pct,
        power_w,
        company,
        transfer_ms,
        exposed_ms,
        memory_mib,
        np.array([row.scheduling_alone_ms for row in sensitivity]),
        np.array([row.kernels for row in sensitivity]),
        np.array([row.alpha_l2 for row in sensitivity]),
        np.array([row.alpha_dram for row in sensitivity]),
        np.array([len(batch) for batch in batches], dtype=np.int64),
        np.append(permitted, units + 1)[np.searchsorted(permitted, np.arange(units + 1), side="right")],
        permitted,
        units,
        widened(gpu.memory_mib),
        contention.alpha_sch,
        contention.beta_sch,
        contention.idle_power_w,
        contention.max_power_w,
        contention.throttle_per_w,
        performance.pairwise,
        falling,
        2 if performance.pairwise else units,
    )
