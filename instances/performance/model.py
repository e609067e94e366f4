"""Base class of the performance models, the types of its results, and the functions that several models share."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from instances.arrays import Floats, Ints
from instances.gpu import DnnModel, GpuType, SoloProfile
from instances.logarithms import exp, log


@dataclass(frozen=True, slots=True)
class Demand:
    """Time and demands of a workload alone; arrays of one shape.

    Attributes
    ----------
    active_ms
        GPU active time of one batch, ``k_act``.
    l2_pct, dram_pct
        L2 and DRAM utilisation.
    power_w
        Power above idle.
    company
        Co-location factor on the active time, before the others' demands are added; 1 if only the demands matter.
    """

    active_ms: Floats
    l2_pct: Floats
    dram_pct: Floats
    power_w: Floats
    company: Floats


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """Scheduling delay and kernels of a batch, and relative growth of its time per percent of the others' demand."""

    scheduling_alone_ms: float
    kernels: float
    alpha_l2: float
    alpha_dram: float


@dataclass(frozen=True, slots=True)
class Contention:
    """Contention on one GPU type: scheduling delay per kernel, power cap and loss of frequency.

    ``throttle_per_w`` is the change of the frequency per watt above ``max_power_w``, as a fraction of the maximum
    frequency; it is 0 or negative. The other fields are those of ``Hardware``.
    """

    alpha_sch: float
    beta_sch: float
    idle_power_w: float
    max_power_w: float
    throttle_per_w: float


class PerformanceModel(ABC):
    """Base class of the performance models.

    Attributes
    ----------
    name
        Name in files and options.
    loading_overlaps
        Whether the upload of the next batch overlaps with the execution of the current batch, as in iGniter.
    contended
        Whether the scheduler's delays and the power cap of the GPU slow its residents (iGniter).
    pairwise
        Whether the growth by each neighbour is at least 0 on its own (gpulet). The sums of demands are then exact for
        two residents only, and the schedulers put at most two residents on a GPU.
    concurrent
        Whether the slowdowns beside others are fitted to measurements of launches that run at the same time.
        Best-effort jobs then run so, too; otherwise they take turns (``instances.colocation``).
    """

    name: str
    loading_overlaps = False
    contended = False
    pairwise = False
    concurrent = False

    @abstractmethod
    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return time and demands of ``model`` alone, for broadcastable ``batch`` and ``share_pct``."""

    @abstractmethod
    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return the sensitivity of ``model`` to its neighbours."""

    def contention(self, gpu: GpuType) -> Contention:
        """Return the coefficients of iGniter's equations 6, 9 and 10; without contention, all are 0."""
        if not self.contended:
            return Contention(0.0, 0.0, 0.0, 0.0, 0.0)
        hardware = gpu.hardware
        return Contention(
            hardware.alpha_sch,
            hardware.beta_sch,
            hardware.idle_power_w,
            hardware.max_power_w,
            hardware.alpha_f / hardware.max_frequency_mhz,
        )

    @abstractmethod
    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Name the figures of ``model`` on ``gpu`` that the catalogue lacks; empty if it has all figures."""


def transfers_ms(gpu: GpuType, model: DnnModel, batch: Floats) -> tuple[Floats, Floats]:
    """Return the upload and feedback times of a batch: batching time and PCIe (iGniter equation 3; InSS Sec. 4.1)."""
    per_ms = gpu.hardware.pcie_bytes_per_ms
    return batching_ms(model, batch) + model.input_bytes * batch / per_ms, model.output_bytes * batch / per_ms


def batching_ms(model: DnnModel, batch: Floats) -> Floats:
    """Return the time to assemble a batch on the host, linear between the batches of the solo profile; 0 if unknown.

    It is the same at every share and beside every neighbour.
    """
    if model.solo is None or not model.solo.batching_ms:
        return np.zeros_like(batch)
    return np.interp(batch, model.solo.batch, model.solo.batching_ms)


def interpolate(
    solo: SoloProfile,
    values: Floats,
    batch: Floats,
    share_pct: Floats,
    scale: Callable[[Floats], Floats] = log,
    share_scale: Callable[[Floats], Floats] | None = None,
) -> Floats:
    """Interpolate on the grid, by default linearly in the logarithms of batch and share.

    Shares below the least one are extrapolated.

    Parameters
    ----------
    solo
        The grid.
    values
        Shape (batches, shares).
    batch, share_pct
        Broadcastable; batches within the grid.
    scale, share_scale
        Ascending scales of the axes; by default, ``share_scale`` is ``scale``.
    """
    by_share = share_scale or scale
    rows, columns = scale(np.array(solo.batch, dtype=float)), by_share(np.array(solo.share_pct))
    scaled_batch, scaled_share = np.broadcast_arrays(
        scale(np.asarray(batch, dtype=float)), by_share(np.asarray(share_pct, dtype=float))
    )
    i, batch_fraction = segment(rows, scaled_batch)
    j, share_fraction = segment(columns, scaled_share)
    # If all corners have one value, this form returns exactly that value.
    lower = values[i, j] + share_fraction * (values[i, j + 1] - values[i, j])
    upper = values[i + 1, j] + share_fraction * (values[i + 1, j + 1] - values[i + 1, j])
    return np.asarray(lower + batch_fraction * (upper - lower))


def segment(knots: Floats, points: Floats) -> tuple[Ints, Floats]:
    """Return the segment between knots that contains each point, and the fraction of the segment before the point."""
    left = np.clip(np.searchsorted(knots, points, side="right") - 1, 0, len(knots) - 2)
    return left, (points - knots[left]) / (knots[left + 1] - knots[left])


def alone_ms(solo: SoloProfile, batch: Floats, share_pct: Floats) -> Floats:
    """Return the solo GPU time by interpolation, linear in the logarithms of batch, share and time.

    Below the least share, the lines of two batches may cross. A batch therefore takes at least as long as every smaller
    batch.
    """
    log_ms = log(solo.times_ms)
    time_ms = exp(interpolate(solo, log_ms, batch, share_pct))
    for smaller_batch in solo.batch[:-1]:
        smaller_batch_ms = exp(interpolate(solo, log_ms, np.array(float(smaller_batch)), share_pct))
        time_ms = np.where(np.asarray(batch, float) > smaller_batch, np.maximum(time_ms, smaller_batch_ms), time_ms)
    return np.maximum(time_ms, solo.below_grid_bound_ms(np.asarray(batch, float), np.asarray(share_pct, float)))
