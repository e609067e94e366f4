"""GPU types and DNN models: what the catalogue says of the hardware and of each model on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from math import inf

from instances.errors import InputError, unknown_name
from instances.mig import MigProfile
from instances.profile import Company, PairFactor, SoloProfile


class Partition(StrEnum):
    """How a GPU is divided among workloads.

    ``shares``: any whole number of share units under MPS, with interference. ``mig``: isolated instances of a few
    sizes at fixed places.
    """

    SHARES = "shares"
    MIG = "mig"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Where the figures of a catalogue entry come from.

    Attributes
    ----------
    kind
        ``fitted`` (to measurements), ``calibrated`` (shaped from elsewhere and pinned to published points, hence no
        evidence for those points), ``measured`` (published measurements as they are) or ``measured-here``.
    source
        The measurements or publication, in words.
    residual
        Largest and mean relative error of the fit over its own samples, by quantity; empty where nothing was fitted.
    """

    kind: str
    source: str
    residual: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Hardware:
    """Hardware-specific coefficients of the performance models (iGniter, Sec. 3.1).

    Attributes
    ----------
    pcie_bytes_per_ms
        Available PCIe bandwidth ``B_pcie``.
    idle_power_w, max_power_w
        ``p_idle`` and the cap ``P`` above which the frequency falls.
    max_frequency_mhz
        ``F``.
    alpha_f
        MHz lost per watt of demand beyond the cap (at most 0), equation 9.
    alpha_sch, beta_sch
        Scheduling delay added per kernel, in ms: ``alpha_sch N + beta_sch`` for N >= 2 residents, equation 6.
    """

    pcie_bytes_per_ms: float
    idle_power_w: float
    max_power_w: float
    max_frequency_mhz: float
    alpha_f: float
    alpha_sch: float
    beta_sch: float


ISOLATED = Hardware(inf, 0.0, inf, 1.0, 0.0, 0.0, 0.0)
"""Of GPUs that are cut into MIG instances: nobody shares a bus, a power cap or a scheduler worth modelling."""


@dataclass(frozen=True, slots=True)
class DnnModel:
    """One DNN model on one GPU type: its workload-specific coefficients.

    Attributes
    ----------
    name
        The model, such as ``resnet50``.
    max_batch
        Largest batch that the figures support.
    k
        ``k1..k5`` of the active time (iGniter equation 11), share in percent, result in ms.
    power, l2
        Slope and intercept against ``1000 b / k_act``: power in watts, L2 utilisation in percent.
    alpha_cache
        Relative growth of the active time per percent of the others' L2 utilisation (equation 8).
    scheduling_alone_ms
        Total scheduling delay ``k_sch n_k`` of one batch running alone.
    kernels
        Kernel launches per batch, ``n_k``.
    input_bytes, output_bytes
        Transferred per request, ``d_load`` and ``d_feedback``.
    memory_base_mib, memory_per_item_mib
        Resident memory is ``base + b * per_item``.
    provenance
        Where these figures come from.
    solo
        Profile of the model alone; ``None`` where only iGniter's coefficients are known.
    inss
        Growth of the time per percent of the others' L2 and DRAM utilisation (InSS, Sec. 4.1), or ``None``.
    company
        How it suffers beside others (``instances.performance.hybrid``), or ``None``.
    """

    name: str
    max_batch: int
    k: tuple[float, float, float, float, float]
    power: tuple[float, float]
    l2: tuple[float, float]
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
        """Device memory that one serving process holds at ``batch``, in MiB."""
        return self.memory_base_mib + batch * self.memory_per_item_mib

    def profiled(self, gpu: str) -> SoloProfile:
        """Return the profile alone on the GPU type called ``gpu``.

        Raises
        ------
        InputError
            If there is none.
        """
        if self.solo is None:
            raise InputError(f"{gpu}: {self.name}", "has no solo times, which this performance model needs")
        return self.solo

    def inss_alphas(self, gpu: str) -> tuple[float, float]:
        """Return InSS's growths on the GPU type called ``gpu``.

        Raises
        ------
        InputError
            If there are none.
        """
        if self.inss is None:
            raise InputError(f"{gpu}: {self.name}", "has no InSS growths, which this performance model needs")
        return self.inss


@dataclass(frozen=True, slots=True)
class GpuType:
    """A kind of GPU and every model known on it.

    Attributes
    ----------
    name
        As the catalogue file is called, such as ``v100``.
    share_units
        Units in 100 % of the GPU; shares are whole units (V100: 40 units of 2.5 %; under MIG the compute slices).
    memory_mib
        Device memory.
    price_per_hour
        List price in US dollars.
    hardware
        Coefficients of the hardware; ``ISOLATED`` under MIG.
    models
        By name; empty under MIG, where figures exist for instances only.
    provenance
        Where the hardware's figures come from.
    allowed_shares
        The only permitted shares, in units, ascending; ``None`` permits every whole unit.
    mig
        The instances it is cut into and the models on them; ``None`` where shares are cut freely.
    pair
        gpulet's factor for pairs on it, or ``None``.
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

    def __hash__(self) -> int:  # mappings have no hash; equal types still have equal names
        return hash((self.name, self.share_units, self.memory_mib))

    @property
    def partition(self) -> Partition:
        """How it is divided among workloads."""
        return Partition.SHARES if self.mig is None else Partition.MIG

    @property
    def model_names(self) -> list[str]:
        """Names of the models that it has figures for."""
        return list(self.models if self.mig is None else self.mig.models)

    def check_model(self, name: str, where: str = "model") -> None:
        """Make sure that there are figures for the model called ``name``.

        Raises
        ------
        InputError
            If there are none; ``where`` names the place that asked.
        """
        if name not in self.model_names:
            raise unknown_name(where, f"model on {self.name}", name, self.model_names)

    def model(self, name: str, where: str = "model") -> DnnModel:
        """Return the coefficients of the model called ``name``.

        Raises
        ------
        InputError
            If this GPU type has no figures for it; ``where`` names the place that asked.
        """
        self.check_model(name, where)
        return self.models[name]

    def share_pct(self, share_units: float) -> float:
        """Percent of the GPU that ``share_units`` are."""
        return 100.0 * share_units / self.share_units
