"""Measuring rig: it reports facts of a device and times models that run together on it."""

from dataclasses import dataclass
from typing import Protocol

from bench.replay.light_profile.points import Point


class MeasuringError(Exception):
    """Failure to measure one point, for example for lack of memory; other points can still be measured."""


@dataclass(frozen=True, slots=True)
class Device:
    """Measured device; ``None`` marks an unknown figure.

    Attributes
    ----------
    kind
        ``cuda`` or ``cpu``; figures of a CPU say nothing about a GPU.
    name
        Product name.
    software
        Versions of driver and PyTorch.
    partition
        Mechanism that limits a model to its share: ``mps``, ``green`` (contexts) or ``threads`` (of a CPU).
    half, graphs
        Half precision; launch of a batch as one CUDA graph instead of kernel by kernel.
    share_units
        Size of the whole device: pairs of multiprocessors, as in the catalogue, or hardware threads of a CPU.
    memory_mib
        Memory of the device.
    pcie_bytes_per_ms
        Bandwidth of a large copy from pinned memory.
    idle_power_w, max_power_w
        Power with a context but no running kernel; enforced power limit.
    """

    kind: str
    name: str
    software: str
    partition: str
    half: bool
    graphs: bool
    share_units: int
    memory_mib: float
    pcie_bytes_per_ms: float
    idle_power_w: float | None
    max_power_w: float | None

    @property
    def identity(self) -> tuple[object, ...]:
        """Properties that all measurements of one folder share."""
        return self.kind, self.name, self.software, self.partition, self.half, self.graphs


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts of a model that do not depend on other tenants: kernels of a batch, and bytes of a request."""

    kernels: int
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True, slots=True)
class Times:
    """Mean times of one tenant's batches.

    Attributes
    ----------
    upload_ms, gpu_ms, feedback_ms
        Mean time of each part.
    std_ms
        Standard deviation of the sum of the parts.
    batches
        Number of batches in the means; they start during the measurement.
    memory_mib
        Device memory of the tenant's process.
    """

    upload_ms: float
    gpu_ms: float
    feedback_ms: float
    std_ms: float
    batches: int
    memory_mib: float

    @property
    def latency_ms(self) -> float:
        """Time of a whole inference."""
        return self.upload_ms + self.gpu_ms + self.feedback_ms


@dataclass(frozen=True, slots=True)
class Reading:
    """Measurement of a point: the times of its tenants in their order, and mean power and clock of the GPU."""

    times: tuple[Times, ...]
    power_w: float | None
    frequency_mhz: float | None


class Rig(Protocol):
    """Measuring rig; it raises ``MeasuringError`` if a measurement fails."""

    @property
    def device(self) -> Device:
        """Measured device."""
        ...

    def facts(self, model: str) -> ModelFacts:
        """Return the facts of a model that do not depend on other tenants."""
        ...

    def traffic(self, model: str, batch: int) -> tuple[float, float] | None:
        """Return L2 and DRAM utilisation of a batch, each times its duration, in percent ms, or ``None``."""
        ...

    def measure(self, point: Point, seconds: float) -> Reading:
        """Run all tenants of a point for some time and return their times."""
        ...
