"""Backends of a replay: one for each way to share a device."""

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from shutil import which
from typing import ClassVar

from bench.provenance import memory_mib
from bench.replay import mps
from bench.replay.gpus import HostGpu, required_gpus
from bench.replay.green import has_green_contexts
from bench.replay.nets import input_shape
from bench.replay.serving_plan import Executor, ServingPlan
from instances import InputError
from instances.errors import FieldName, unknown_name
from instances.grouping import grouped

CPU_WORKER_MIB = 400.0
"""Host memory of a worker with a tiny model."""


@dataclass(frozen=True, slots=True)
class WorkerSpec:
    """Specification of a worker: its executors, by position in the serving plan, and its environment variables."""

    executors: tuple[int, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


class Backend:
    """A way to share a device: its name, and the ``device`` of its workers (see ``bench.replay.device.loader``)."""

    name: ClassVar[str]
    device: ClassVar[str]

    def check(self, plans: Sequence[ServingPlan]) -> None:
        """Check that the host can serve all ``plans`` at the same time.

        Raises
        ------
        InputError
            If the host cannot; the message names the missing resource and a remedy.
        """
        raise NotImplementedError

    def running(self) -> AbstractContextManager[Mapping[str, str]]:
        """Start the services that the workers need, and yield the environment variables that point to them."""
        return nullcontext({})

    def worker_specs(self, plan: ServingPlan) -> list[WorkerSpec]:
        """Divide the executors of a serving plan among workers."""
        raise NotImplementedError


class Cpu(Backend):
    """One process per executor on the host's cores; it serves a tiny model, so its times do not apply to a GPU."""

    name, device = "cpu", "cpu"

    def check(self, plans: Sequence[ServingPlan]) -> None:
        """Check that the host has enough memory for all workers."""
        free_mib = memory_mib().get("MemAvailable")
        needed_mib = CPU_WORKER_MIB * sum(len(plan.executors) for plan in plans)
        if free_mib is not None and needed_mib > free_mib:
            raise _does_not_fit(self.name, "the host", needed_mib, free_mib)

    def worker_specs(self, plan: ServingPlan) -> list[WorkerSpec]:
        """Return one worker per executor."""
        return [WorkerSpec((number,)) for number in range(len(plan.executors))]


class _GpuBackend(Backend):
    """Base of the backends on GPUs; GPU k of the plan is GPU k of the host."""

    gpus: Sequence[HostGpu] = ()
    """GPUs of the host; ``check`` sets them."""
    needed_mib: Sequence[float] = ()
    """Memory that all plans together need on each GPU; ``check`` sets it."""

    def check(self, plans: Sequence[ServingPlan]) -> None:
        """Check that the host has enough GPUs, and that the GPUs have enough free memory for the plans."""
        where = _backend_field(self.name)
        self.gpus = required_gpus(where, "use `backend` cpu or sim")
        gpu_count = max(len(plan.gpu_types) for plan in plans)
        if gpu_count > len(self.gpus):
            problem = f"the plan uses {gpu_count} GPUs; this host has {len(self.gpus)}; use `backend` cpu or sim"
            raise InputError(where, problem)
        for plan in plans:
            for executor in plan.executors:
                for slot in executor.slots:
                    input_shape(slot.model, where)  # raises an error for an unknown model before any worker starts
        self.needed_mib = [sum(plan.memory_mib(position) for plan in plans) for position in range(gpu_count)]
        for position, (gpu, needed_mib) in enumerate(zip(self.gpus, self.needed_mib, strict=False)):
            if gpu.mig:
                raise InputError(where, f"GPU {position} is in MIG mode; a replay needs a whole GPU; disable MIG")
            if needed_mib > gpu.free_mib:
                raise _does_not_fit(self.name, f"GPU {position}", needed_mib, gpu.free_mib)

    def _visible_gpu(self, gpu: int) -> dict[str, str]:
        return {"CUDA_VISIBLE_DEVICES": self.gpus[gpu].uuid}


class Mps(_GpuBackend):
    """One process per executor; MPS limits it to its share of the multiprocessors."""

    name, device = "mps", "cuda"

    def check(self, plans: Sequence[ServingPlan]) -> None:
        """Check the GPUs and that the MPS control daemon is installed."""
        super().check(plans)
        if which(mps.CONTROL) is None:
            problem = f"needs {mps.CONTROL}, a part of NVIDIA's driver, on the path; install it or use `backend` green"
            raise InputError(_backend_field(self.name), problem)

    def running(self) -> AbstractContextManager[Mapping[str, str]]:
        """Run the MPS control daemon."""
        return mps.daemon()

    def worker_specs(self, plan: ServingPlan) -> list[WorkerSpec]:
        """Return one worker per executor; workers divide the free memory in proportion to the catalogue's figures."""
        return [WorkerSpec((number,), self._environment(executor)) for number, executor in enumerate(plan.executors)]

    def _environment(self, executor: Executor) -> dict[str, str]:
        gpu = executor.gpu
        memory_mib = self.gpus[gpu].free_mib * executor.memory_mib / self.needed_mib[gpu]
        return self._visible_gpu(gpu) | mps.client(executor.share_pct, memory_mib)


class TimeSlicingBackend(_GpuBackend):
    """One process per executor without MPS: the driver lets the processes take turns on the whole GPU."""

    name, device = "time-slicing", "cuda"

    def worker_specs(self, plan: ServingPlan) -> list[WorkerSpec]:
        """Return one worker per executor; no worker finds an MPS daemon, even if a daemon runs on the host."""
        return [
            WorkerSpec((number,), self._visible_gpu(executor.gpu) | {mps.PIPES: os.devnull})
            for number, executor in enumerate(plan.executors)
        ]


class _OneProcess(_GpuBackend):
    """Base of the backends that run all executors of a GPU as threads of one process."""

    def worker_specs(self, plan: ServingPlan) -> list[WorkerSpec]:
        """Return one worker per GPU."""
        by_gpu = grouped((executor.gpu, number) for number, executor in enumerate(plan.executors))
        return [WorkerSpec(tuple(numbers), self._visible_gpu(gpu)) for gpu, numbers in by_gpu.items()]


class Green(_OneProcess):
    """One thread per executor with a CUDA green context, which reserves its share of the multiprocessors."""

    name, device = "green", "green"

    def check(self, plans: Sequence[ServingPlan]) -> None:
        """Check the GPUs and that the driver has green contexts."""
        super().check(plans)
        if not has_green_contexts():
            problem = "needs a driver with green contexts (555 or later); update it or use `backend` stream"
            raise InputError(_backend_field(self.name), problem)


class StreamBackend(_OneProcess):
    """One thread per executor, each with its own CUDA stream; the shares are not enforced."""

    name, device = "stream", "cuda"


BACKENDS: dict[str, type[Backend]] = {cls.name: cls for cls in (Cpu, Mps, Green, TimeSlicingBackend, StreamBackend)}
"""Backends by name."""


def backend(name: str) -> Backend:
    """Return the backend called ``name``.

    Raises
    ------
    InputError
        If there is no such backend.
    """
    if name not in BACKENDS:
        raise unknown_name(FieldName("backend"), "backend", name, [*BACKENDS, "sim"])
    return BACKENDS[name]()


def _backend_field(name: str) -> FieldName:
    return FieldName("backend", f" {name}")


def _does_not_fit(name: str, where: str, needed_mib: float, free_mib: float) -> InputError:
    problem = f"{where} has {free_mib:,.0f} MiB of free memory; the plan needs {needed_mib:,.0f} MiB"
    return InputError(_backend_field(name), f"{problem}; stop other programs there")
