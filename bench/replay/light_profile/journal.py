"""Measurements of a light profile and their journal, from which an interrupted profile resumes."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from bench.replay.light_profile.points import Point, Tenant
from instances.errors import InputError
from instances.special_files import refuse_special

JOURNAL = "readings.jsonl"
"""Name of the journal's file."""

Traffic = tuple[float, float] | None
"""L2 and DRAM utilisation of a batch in percent, each times its duration in ms; ``None`` if they cannot be counted."""


@dataclass(frozen=True, slots=True)
class Device:
    """Measured device; ``None`` marks an unknown figure.

    Attributes
    ----------
    kind
        ``cuda`` or ``cpu``; figures of a CPU do not apply to a GPU.
    software
        Versions of driver and PyTorch.
    partition
        Mechanism that limits a model to its share: ``mps``, ``green`` (contexts) or ``threads`` (of a CPU).
    half, graphs
        Whether models run in half precision; whether a batch is launched as one CUDA graph instead of kernel by kernel.
    share_units
        Size of the whole device: pairs of multiprocessors, as in the catalogue, or hardware threads of a CPU.
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
        """Properties that all measurements in a folder must share."""
        return self.kind, self.name, self.software, self.partition, self.half, self.graphs


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts of a model that do not depend on other tenants: kernels per batch, and bytes per request."""

    kernels: int
    input_bytes: int
    output_bytes: int


@dataclass(frozen=True, slots=True)
class Times:
    """Mean times of one tenant's batches.

    Attributes
    ----------
    std_ms
        Standard deviation of the whole time of a batch.
    batches
        Number of batches in the means.
    memory_mib
        Device memory of the tenant: the memory of its process, divided by the number of tenants in this process.
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
    """Device on which co-located models are timed; a measurement that fails raises ``ChildError``."""

    @property
    def device(self) -> Device:
        """Measured device."""

    def facts(self, model: str) -> ModelFacts:
        """Return the facts of a model."""

    def traffic(self, model: str, batch: int) -> Traffic:
        """Return the memory traffic of a batch."""

    def measure(self, point: Point, seconds: float) -> Reading:
        """Run all tenants of a point for at least ``seconds`` and return their times."""


class Journal:
    """Measurements of one device, and the file that stores each of them as a line of JSON.

    Parameters
    ----------
    folder
        Folder of the file; the journal continues a file of an earlier run.

    Attributes
    ----------
    facts, traffic, readings
        Facts by model, traffic by model and batch, readings by point.

    Raises
    ------
    InputError
        If the journal cannot be read or belongs to another device.
    """

    def __init__(self, folder: Path, device: Device) -> None:
        self.file = folder / JOURNAL
        self.device = device
        self.facts: dict[str, ModelFacts] = {}
        self.traffic: dict[tuple[str, int], Traffic] = {}
        self.readings: dict[Point, Reading] = {}
        if self.file.exists():
            self._read()
        else:
            self._append({"device": asdict(device)})

    def add_facts(self, model: str, facts: ModelFacts) -> None:
        """Store the facts of a model."""
        self.facts[model] = facts
        self._append({"model": model, "facts": asdict(facts)})

    def add_traffic(self, model: str, batch: int, traffic: Traffic) -> None:
        """Store the memory traffic of a batch."""
        self.traffic[model, batch] = traffic
        self._append({"model": model, "batch": batch, "traffic": traffic})

    def add(self, point: Point, reading: Reading) -> None:
        """Store the reading of a point."""
        self.readings[point] = reading
        self._append({"tenants": [asdict(tenant) for tenant in point], **asdict(reading)})

    def _append(self, entry: dict[str, Any]) -> None:
        try:
            with self.file.open("a", encoding="utf-8") as journal:
                journal.write(json.dumps(entry) + "\n")
        except OSError as error:
            raise InputError(str(self.file), f"cannot be written: {error.strerror}") from None

    def _read(self) -> None:
        """Read all entries of the file; remove the last line if a crash has cut it."""
        refuse_special(self.file)
        try:
            text = self.file.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(str(self.file), f"cannot be read: {error}") from None
        complete, _, unfinished = text.rpartition("\n")
        for number, line in enumerate(complete.split("\n"), 1):
            try:
                self._store(json.loads(line))
            except InputError:
                raise
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                problem = f"is not a measurement ({type(error).__name__}: {error}); delete it or use another folder"
                raise InputError(f"{self.file}: line {number}", problem) from None
        if unfinished:  # a crash cut the last line
            self.file.write_text(f"{complete}\n", encoding="utf-8")

    def _store(self, entry: dict[str, Any]) -> None:
        """Store an entry of the file; the device in the file replaces the present one, which must be the same."""
        if "device" in entry:
            recorded_device = Device(**entry["device"])
            if recorded_device.identity != self.device.identity:
                present, recorded = (" ".join(map(str, device.identity)) for device in (self.device, recorded_device))
                raise InputError(str(self.file), f'belongs to "{recorded}", not to "{present}"; use another folder')
            self.device = recorded_device
        elif "facts" in entry:
            self.facts[entry["model"]] = ModelFacts(**entry["facts"])
        elif "traffic" in entry:
            counted = entry["traffic"]
            self.traffic[entry["model"], entry["batch"]] = None if counted is None else (counted[0], counted[1])
        else:
            point = tuple(Tenant(**tenant) for tenant in entry["tenants"])
            times = tuple(Times(**values) for values in entry["times"])
            self.readings[point] = Reading(times, entry["power_w"], entry["frequency_mhz"])
