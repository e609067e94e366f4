"""Questions that a performance model answers, and the answers' types."""

from dataclasses import dataclass
from typing import Protocol

from instances.arrays import Floats
from instances.gpu import DnnModel, GpuType


@dataclass(frozen=True, slots=True)
class Demand:
    """What a workload running alone takes, arrays of one shape.

    Attributes
    ----------
    active_ms
        GPU active time of one batch, ``k_act``.
    l2_pct, dram_pct
        L2 and DRAM utilisation.
    power_w
        Power above idle.
    company
        Factor on the active time beside others, before what they demand is added; 1 where only that matters.
    """

    active_ms: Floats
    l2_pct: Floats
    dram_pct: Floats
    power_w: Floats
    company: Floats


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How one model suffers from others: delay per batch alone, kernels, growth per percent of others' L2 and DRAM."""

    scheduling_alone_ms: float
    kernels: float
    alpha_l2: float
    alpha_dram: float


@dataclass(frozen=True, slots=True)
class Contention:
    """What co-location does on one GPU type: scheduling delay per kernel, power cap and loss of frequency.

    ``throttle_per_w`` is the fraction of the maximum frequency lost per watt beyond ``max_power_w`` (at most 0).
    """

    alpha_sch: float
    beta_sch: float
    idle_power_w: float
    max_power_w: float
    throttle_per_w: float


UNCONTENDED = Contention(0.0, 0.0, 0.0, 0.0, 0.0)
"""No delay of schedulers, and no frequency lost whatever the power."""


def hardware_contention(gpu: GpuType) -> Contention:
    """Return the factors of iGniter's equations 6, 9 and 10."""
    hardware = gpu.hardware
    return Contention(
        hardware.alpha_sch,
        hardware.beta_sch,
        hardware.idle_power_w,
        hardware.max_power_w,
        hardware.alpha_f / hardware.max_frequency_mhz,
    )


class PerformanceModel(Protocol):
    """The questions that a performance model answers."""

    name: str
    loading_overlaps: bool
    """Whether the upload of the next batch hides behind the execution of this one (iGniter: yes)."""
    pairwise: bool
    """Whether interference is that of pairs, each at least none (gpulet): then the sums are exact for two residents,
    and no scheduler of ours puts more of them on a GPU."""

    def demand(self, gpu: GpuType, model: DnnModel, batch: Floats, share_pct: Floats) -> Demand:
        """Return what ``model`` takes alone, for broadcastable ``batch`` and ``share_pct``."""
        ...

    def transfers_ms(self, gpu: GpuType, model: DnnModel, batch: Floats) -> tuple[Floats, Floats]:
        """Return upload and feedback time of a batch."""
        ...

    def sensitivity(self, gpu: GpuType, model: DnnModel) -> Sensitivity:
        """Return how ``model`` suffers from its neighbours."""
        ...

    def contention(self, gpu: GpuType) -> Contention:
        """Return the coefficients of the GPU itself."""
        ...

    def missing(self, gpu: GpuType, model: DnnModel) -> str:
        """Name what the catalogue would have to say of ``model`` on ``gpu`` but does not; empty if nothing."""
        ...
