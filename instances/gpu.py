"""GPU types and DNN models: coefficients of the hardware, and times and demands of each model on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import TypeVar

import numpy as np

from instances.arrays import Floats
from instances.errors import InputError, unknown_name
from instances.margin import LevelMargins
from instances.mig import MigProfile

Figures = TypeVar("Figures")


class Partition(StrEnum):
    """Ways to divide a GPU among workloads.

    ``shares``: gpulets of any whole number of share units under MPS, with interference. ``mig``: isolated MIG
    instances of a few sizes at fixed positions.
    """

    SHARES = "shares"
    MIG = "mig"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Origin of the figures of a catalogue entry.

    Attributes
    ----------
    kind
        ``fitted`` (to measurements), ``calibrated`` (measurements of another set-up, adjusted until they reproduce
        published points; agreement with these points proves nothing), ``measured`` (published measurements,
        unchanged), ``measured-here`` (fitted to measurements of ``bench profile run``), or ``stated`` (data sheets;
        no model is measured).
    source
        The measurements or the publication.
    residual
        Largest and mean relative error of the fit on its own samples, by quantity; empty without a fit.
    """

    kind: str
    source: str
    residual: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hardware-specific coefficients of the performance models (iGniter, Sec. 3.1); the defaults cause no slowdown.

    Attributes
    ----------
    pcie_bytes_per_ms
        Available PCIe bandwidth ``B_pcie``.
    idle_power_w, max_power_w
        ``p_idle`` and the cap ``P`` above which the frequency falls.
    max_frequency_mhz
        Highest frequency, ``F``.
    alpha_f
        Change of the frequency in MHz per watt of demand above the cap, equation 9; 0 or negative.
    alpha_sch, beta_sch
        Scheduling delay added per kernel, in ms: ``alpha_sch N + beta_sch`` for N >= 2 residents, equation 6.
    """

    pcie_bytes_per_ms: float
    idle_power_w: float = 0.0
    max_power_w: float = 1.0
    max_frequency_mhz: float = 1.0
    alpha_f: float = 0.0
    alpha_sch: float = 0.0
    beta_sch: float = 0.0


ISOLATED = Hardware(inf, max_power_w=inf)
"""Coefficients of GPUs cut into MIG instances: bus, power cap and scheduler cause no interference in the model."""

Line = tuple[float, float]
"""Slope and intercept of a linear function."""


@dataclass(frozen=True, slots=True)
class SoloProfile:
    """Solo profile of a model: GPU times on a grid of batches and shares, and L2 and DRAM utilisations.

    Attributes
    ----------
    batch, share_pct
        The grid, ascending; batches from 1 to the largest supported, shares up to 100 percent.
    gpu_ms
        GPU time of a batch without transfers, ``[batch][share]``; it never falls with the batch and never rises with
        the share.
    l2_pct, dram_pct
        Utilisation on the full GPU, by batch, in percent.
    l2, dram
        Linear functions of ``1000 b / gpu_ms`` that give the utilisation in percent at any share (InSS, Sec. 4.1).
    span
        Fraction of the grid's points that the locally weighted regression around a point uses.
    batching_ms
        Time to assemble a batch on the host, by batch; it counts as part of the upload. Empty if it is 0.
    """

    batch: tuple[int, ...]
    share_pct: tuple[float, ...]
    gpu_ms: tuple[tuple[float, ...], ...]
    l2_pct: tuple[float, ...]
    dram_pct: tuple[float, ...]
    l2: Line
    dram: Line
    span: float
    batching_ms: tuple[float, ...] = ()

    @property
    def times_ms(self) -> Floats:
        """``gpu_ms`` as an array, shape (batches, shares)."""
        return np.array(self.gpu_ms)

    def below_grid_bound_ms(self, batch: Floats, share_pct: Floats) -> Floats:
        """Return a lower bound on the time at shares below the grid; 0 at other shares.

        At small shares, the work on the GPU determines the time of a batch, and kernel launches do not. This work is
        that of the largest batch at the grid's least share, in proportion to the batch and inverse to the share.
        """
        least_share_pct = self.share_pct[0]
        bound_ms = self.gpu_ms[-1][0] * (batch / self.batch[-1]) * (least_share_pct / share_pct)
        return np.where(share_pct < least_share_pct, bound_ms, 0.0)


@dataclass(frozen=True, slots=True)
class Company:
    """Times of a model that shares its GPU with other models, on the grid of its ``SoloProfile`` (hybrid model).

    Attributes
    ----------
    gpu_ms
        GPU time beside a neighbour without L2 and DRAM demand, ``[batch][share]``; at least the solo time, and never
        rising with the share.
    alpha_l2, alpha_dram
        Relative growth of the GPU time per percent of the others' L2 and DRAM utilisation.
    """

    gpu_ms: tuple[tuple[float, ...], ...]
    alpha_l2: float
    alpha_dram: float


@dataclass(frozen=True, slots=True)
class PairFactor:
    """Coefficients of the factor on a gpulet's time beside another gpulet (gpulet ATC'22, Sec. 4.4).

    The factor is ``l2_own L2_1 + l2_other L2_2 + dram_own mem_1 + dram_other mem_2 + constant``, with utilisations as
    fractions: 1 is the gpulet itself, 2 the other one. All models of a GPU type have the same coefficients.
    """

    l2_own: float
    l2_other: float
    dram_own: float
    dram_other: float
    constant: float


@dataclass(frozen=True, slots=True)
class DnnModel:
    """One DNN model on one GPU type: its workload-specific coefficients.

    Attributes
    ----------
    max_batch
        Largest batch that the figures cover.
    k
        ``k1..k5`` of the active time (iGniter equation 11), share in percent, result in ms.
    power, l2
        Linear functions of ``1000 b / k_act``: power in watts, L2 utilisation in percent.
    alpha_cache
        Relative growth of the active time per percent of the others' L2 utilisation (equation 8).
    scheduling_alone_ms
        Total scheduling delay ``k_sch n_k`` of one batch running alone.
    kernels
        Kernel launches per batch, ``n_k``.
    input_bytes, output_bytes
        Bytes transferred per request, ``d_load`` and ``d_feedback``.
    memory_base_mib, memory_per_item_mib
        Memory of a serving process with batch b is ``base + b * per_item``.
    solo
        Profile of the model alone; ``None`` where only iGniter's coefficients are known.
    inss
        Relative growth of the time per percent of the others' L2 and DRAM utilisation (InSS, Sec. 4.1), or ``None``.
    company
        Times beside other models (``instances.performance.hybrid``), or ``None``.
    """

    name: str
    max_batch: int
    k: tuple[float, float, float, float, float]
    power: Line
    l2: Line
    alpha_cache: float
    scheduling_alone_ms: float
    kernels: int
    input_bytes: int
    output_bytes: int
    memory_base_mib: float
    memory_per_item_mib: float
    provenance: Provenance
    solo: SoloProfile | None = None
    inss: tuple[float, float] | None = None
    company: Company | None = None

    def memory_mib(self, batch: int) -> float:
        """Return the device memory of one serving process at ``batch``, in MiB."""
        return self.memory_base_mib + batch * self.memory_per_item_mib

    def profiled(self, gpu: str) -> SoloProfile:
        """Return the solo profile on the GPU type called ``gpu``; errors are those of ``required``."""
        return required(self.solo, f"{gpu}: {self.name}", "solo times")


def required(figures: Figures | None, where: str, kind: str) -> Figures:
    """Return ``figures`` of a GPU type or model if they are known.

    Raises
    ------
    InputError
        If ``figures`` is ``None``; the error names the place ``where`` and the ``kind`` of figures.
    """
    if figures is None:
        raise InputError(where, f"has no {kind}, which this performance model needs")
    return figures


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """Times of a language model's passes on one GPU type, and the sizes that determine its memory.

    Attributes
    ----------
    parameters
        Number of parameters, two bytes each.
    layers, width
        Number of layers and width of a hidden state; they determine the size of the KV cache.
    share_pct
        Shares of the grids, ascending; no times are known below the first share.
    prompt_tokens
        Tokens of all prompts of a prefill batch together, ascending.
    prefill_ms
        GPU time of a prefill pass, ``[prompt_tokens][share]``.
    context_tokens, batch
        Context lengths and batches of the decoding grid, ascending.
    decode_ms
        GPU time of a decoding step, ``[context_tokens][batch][share]``.
    """

    name: str
    parameters: int
    layers: int
    width: int
    share_pct: tuple[float, ...]
    prompt_tokens: tuple[int, ...]
    prefill_ms: tuple[tuple[float, ...], ...]
    context_tokens: tuple[int, ...]
    batch: tuple[int, ...]
    decode_ms: tuple[tuple[tuple[float, ...], ...], ...]
    provenance: Provenance

    @property
    def weights_mib(self) -> float:
        """Memory of the weights in half precision."""
        return 2.0 * self.parameters / 2**20

    @property
    def cache_mib_per_token(self) -> float:
        """Memory of the keys and values of one token, in half precision."""
        return 2.0 * 2.0 * self.layers * self.width / 2**20


@dataclass(frozen=True, slots=True)
class GpuType:
    """A kind of GPU and every model known on it.

    Attributes
    ----------
    name
        Name of the GPU type, such as ``v100``.
    share_units
        Units in 100 % of the GPU; shares are whole units (V100: 40 units of 2.5 %; under MIG, compute slices).
    price_per_hour
        List price in US dollars.
    hardware
        Coefficients of the hardware; ``ISOLATED`` under MIG.
    models
        Models by name; empty under MIG, where only ``mig`` has figures.
    provenance
        Origin of the hardware's figures.
    allowed_shares
        The only permitted shares, in units, ascending; ``None`` permits every whole unit.
    mig
        The MIG instances and the models on them; ``None`` for a GPU divided into shares.
    pair
        gpulet's pair factor on this GPU type, or ``None`` if it is not known.
    language_models
        Language models by name. The services of an instance add DNN models for their token lengths to ``models``
        (``instances.services``).
    margins
        Margins of the hybrid model, by ascending level; plans may apply them (``instances.performance.margins``).
        Types that differ only in their margins are equal.
    """

    name: str
    share_units: int
    memory_mib: float
    price_per_hour: float
    hardware: Hardware
    models: Mapping[str, DnnModel]
    provenance: Provenance
    allowed_shares: tuple[int, ...] | None = None
    mig: MigProfile | None = None
    pair: PairFactor | None = None
    language_models: Mapping[str, LanguageModel] = field(default_factory=dict)
    margins: tuple[LevelMargins, ...] = field(default=(), compare=False)

    def __hash__(self) -> int:  # mappings are unhashable, and equal types have equal names
        return hash((self.name, self.share_units, self.memory_mib))

    @property
    def partition(self) -> Partition:
        """Way in which the GPU is divided among workloads."""
        return Partition.SHARES if self.mig is None else Partition.MIG

    @property
    def model_names(self) -> list[str]:
        """Names of the models with figures, or of the language models if there are no others."""
        if self.mig is not None:
            return list(self.mig.models)
        return list(self.models or self.language_models)

    def check_model(self, name: str, where: str = "model") -> None:
        """Check that the model called ``name`` has figures.

        Raises
        ------
        InputError
            If the model has no figures; ``where`` is the place that the error names.
        """
        if not self.models and self.language_models:
            raise InputError(where, f"{self.name} has language models only, for the services of an instance")
        if name not in self.model_names:
            raise unknown_name(where, f"model on {self.name}", name, self.model_names)

    def model(self, name: str) -> DnnModel:
        """Return the coefficients of the model called ``name``; errors are those of ``check_model``."""
        self.check_model(name)
        return self.models[name]

    def share_pct(self, share_units: float) -> float:
        """Return ``share_units`` in percent of the GPU."""
        return 100.0 * share_units / self.share_units
