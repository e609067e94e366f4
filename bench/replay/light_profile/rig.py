"""Measuring rig: reports facts of a device and times models that run together on it."""

from dataclasses import dataclass
from typing import Protocol

from bench.replay.light_profile.points import Point


class MeasuringError(Exception):
    """A point that could not be measured, such as one that does not fit the memory; others can."""


@dataclass(frozen=True, slots=True)
class Device:
    """What is measured on; figures that it does not tell are ``None``.

    Attributes
    ----------
    kind
        ``cuda`` or ``cpu``; figures of a CPU say nothing about any GPU.
    name
        Of the product.
    software
        Versions of driver and PyTorch.
    partition
        What holds a model to its share: ``mps``, ``green`` (contexts), ``threads`` (of a CPU).
    half, graphs
        Half precision; a batch launched as one CUDA graph rather than kernel by kernel.
    share_units
        Of the whole device: pairs of multiprocessors, as the catalogue counts them; hardware threads of a CPU.
    memory_mib
        Of the device.
    pcie_bytes_per_ms
        Of a large copy from pinned memory.
    idle_power_w, max_power_w
        With a context and nothing running; the limit that it keeps to.
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
        """What measurements of one folder have in common."""
        return self.kind, self.name, self.software, self.partition, self.half, self.graphs


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What does not depend on who else runs: kernels of a batch, and the bytes of a request."""

    kernels: int
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True, slots=True)
class Times:
    """How long one tenant's batches took, means over ``batches`` of them.

    Attributes
    ----------
    upload_ms, gpu_ms, feedback_ms
        Of each part.
    std_ms
        Standard deviation of the sum.
    batches
        That ran wholly in the time of measuring.
    memory_mib
        That the tenant's process holds on the device.
    """

    upload_ms: float
    gpu_ms: float
    feedback_ms: float
    std_ms: float
    batches: int
    memory_mib: float

    @property
    def latency_ms(self) -> float:
        """Of a whole inference."""
        return self.upload_ms + self.gpu_ms + self.feedback_ms


@dataclass(frozen=True, slots=True)
class Reading:
    """A point measured: the times of its tenants in their order, and what the GPU drew and ran at meanwhile."""

    times: tuple[Times, ...]
    power_w: float | None
    frequency_mhz: float | None


class Rig(Protocol):
    """Measures; whatever it cannot, it raises as ``MeasuringError``."""

    @property
    def device(self) -> Device:
        """What is measured on."""
        ...

    def facts(self, model: str) -> ModelFacts:
        """Return what is known of a model whoever else runs."""
        ...

    def traffic(self, model: str, batch: int) -> tuple[float, float] | None:
        """Return L2 and DRAM utilisation of a batch, each times its duration, percent ms; ``None`` if not counted."""
        ...

    def measure(self, point: Point, seconds: float) -> Reading:
        """Run all tenants of a point for some time and return their times."""
        ...
