"""Backends of a replay: one for each way to share a device."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from shutil import which
from typing import ClassVar, Protocol

from bench.replay import mps
from bench.replay.host import MPS_CONTROL, HostGpu, free_memory_mib, has_green_contexts, host_gpus
from bench.replay.nets import input_shape
from bench.replay.serving_plan import Executor, Sheet
from instances import InputError
from instances.errors import unknown_name

CPU_WORKER_MIB = 400.0
"""Of host memory that a worker with a tiny model takes."""


@dataclass(frozen=True, slots=True)
class Crew:
    """A worker to be: its executors, by position in the sheet, and the variables of its environment."""

    executors: tuple[int, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


class Backend(Protocol):
    """A way to share a device.

    Attributes
    ----------
    name
        As on the command line.
    device
        What its workers serve on: see ``bench.replay.device.loader``.
    """

    name: ClassVar[str]
    device: ClassVar[str]

    def check(self, sheets: Sequence[Sheet]) -> None:
        """Make sure that the host has what it takes to serve ``sheets`` at the same time.

        Raises
        ------
        InputError
            Naming what is missing, and what helps.
        """

    def running(self) -> AbstractContextManager[Mapping[str, str]]:
        """Start what the workers need besides themselves; yield the variables by which they find it."""

    def crews(self, sheet: Sheet) -> list[Crew]:
        """Divide the executors of a sheet among workers."""


class Cpu:
    """Every executor is a process on the host's cores and serves a tiny model: what it takes is no GPU's time."""

    name: ClassVar[str] = "cpu"
    device: ClassVar[str] = "cpu"

    def check(self, sheets: Sequence[Sheet]) -> None:
        """Make sure that the host's memory holds all workers."""
        free_mib, needed_mib = free_memory_mib(), CPU_WORKER_MIB * sum(len(sheet.executors) for sheet in sheets)
        if free_mib is not None and needed_mib > free_mib:
            raise _does_not_fit(self.name, "the host", needed_mib, free_mib)

    def running(self) -> AbstractContextManager[Mapping[str, str]]:
        """Workers need nothing."""
        return nullcontext({})

    def crews(self, sheet: Sheet) -> list[Crew]:
        """One worker for each executor."""
        return [Crew((number,)) for number in range(len(sheet.executors))]


class _OnGpus:
    """What the backends on GPUs have in common: the plan's GPU at position k is the host's GPU k."""

    name: ClassVar[str]

    def __init__(self) -> None:
        self.gpus: list[HostGpu] = []

    def check(self, sheets: Sequence[Sheet]) -> None:
        """Make sure that there are GPUs enough, and that their free memory holds the plans."""
        self.gpus = host_gpus()
        where = f"--backend {self.name}"
        if not self.gpus:
            raise InputError(where, "finds no NVIDIA GPU (nvidia-smi lists none); use --backend cpu or sim")
        wanted = max(len(sheet.gpu_types) for sheet in sheets)
        if wanted > len(self.gpus):
            raise InputError(where, f"the plan uses {wanted} GPUs; this host has {len(self.gpus)}")
        for sheet in sheets:
            for executor in sheet.executors:
                for slot in executor.slots:
                    input_shape(slot.model, where)  # refused now rather than by the worker
        for position, gpu in enumerate(self.gpus[:wanted]):
            if gpu.mig:
                raise InputError(where, f"GPU {position} is cut into MIG instances, which a replay leaves alone")
            needed_mib = sum(sheet.memory_mib(position) for sheet in sheets)
            if needed_mib > gpu.free_mib:
                raise _does_not_fit(self.name, f"GPU {position}", needed_mib, gpu.free_mib)

    def running(self) -> AbstractContextManager[Mapping[str, str]]:
        """Workers need nothing."""
        return nullcontext({})

    def _seeing(self, gpu: int) -> dict[str, str]:
        return {"CUDA_VISIBLE_DEVICES": self.gpus[gpu].uuid}


class Mps(_OnGpus):
    """Every executor is a process that gets its share of the multiprocessors from MPS."""

    name: ClassVar[str] = "mps"
    device: ClassVar[str] = "cuda"

    def check(self, sheets: Sequence[Sheet]) -> None:
        """Make sure that there is a control daemon to start as well."""
        super().check(sheets)
        if which(MPS_CONTROL) is None:
            problem = f"needs {MPS_CONTROL} on the path, a part of NVIDIA's driver; install it, or use --backend green"
            raise InputError("--backend mps", problem)
        self._needed_mib = [sum(sheet.memory_mib(position) for sheet in sheets) for position in range(len(self.gpus))]

    @contextmanager
    def running(self) -> Iterator[Mapping[str, str]]:
        """Run the control daemon."""
        with mps.daemon() as variables:
            yield variables

    def crews(self, sheet: Sheet) -> list[Crew]:
        """One worker for each executor; they divide the free memory in proportion to what the catalogue says."""
        return [Crew((number,), self._environment(executor)) for number, executor in enumerate(sheet.executors)]

    def _environment(self, executor: Executor) -> dict[str, str]:
        gpu = executor.gpu
        memory_mib = self.gpus[gpu].free_mib * executor.memory_mib / self._needed_mib[gpu]
        return self._seeing(gpu) | mps.client(executor.share_pct, memory_mib)


class _OneProcess(_OnGpus):
    """All executors of a GPU are threads of one process."""

    def crews(self, sheet: Sheet) -> list[Crew]:
        """One worker for each GPU."""
        by_gpu: dict[int, list[int]] = {}
        for number, executor in enumerate(sheet.executors):
            by_gpu.setdefault(executor.gpu, []).append(number)
        return [Crew(tuple(numbers), self._seeing(gpu)) for gpu, numbers in by_gpu.items()]


class Green(_OneProcess):
    """Every executor is a thread with a CUDA green context: its share of the multiprocessors is its alone."""

    name: ClassVar[str] = "green"
    device: ClassVar[str] = "green"

    def check(self, sheets: Sequence[Sheet]) -> None:
        """Make sure that the driver has green contexts as well."""
        super().check(sheets)
        if not has_green_contexts():
            raise InputError(
                "--backend green",
                "needs a driver with green contexts, 555 or later; update it, or use --backend stream",
            )


class StreamBackend(_OneProcess):
    """Every executor is a thread with a CUDA stream: no shares at all, which is what sharing without MPS costs."""

    name: ClassVar[str] = "stream"
    device: ClassVar[str] = "cuda"


BACKENDS: dict[str, type[Backend]] = {kind.name: kind for kind in (Cpu, Mps, Green, StreamBackend)}


def backend(name: str) -> Backend:
    """Return the backend called ``name``.

    Raises
    ------
    InputError
        If there is none.
    """
    if name not in BACKENDS:
        raise unknown_name("--backend", "backend", name, [*BACKENDS, "sim"])
    return BACKENDS[name]()


def _does_not_fit(name: str, where: str, needed_mib: float, free_mib: float) -> InputError:
    problem = f"{where} has {free_mib:,.0f} MiB of memory free, the plan takes {needed_mib:,.0f} MiB"
    return InputError(f"--backend {name}", f"{problem}; end what else runs there")
