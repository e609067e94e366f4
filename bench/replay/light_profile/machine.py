"""Measuring rig on the host's own GPU, or on its CPU for tests."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import asdict, astuple, dataclass
from functools import cached_property
from math import isfinite
from shutil import which
from statistics import fmean
from typing import Self

from bench.replay import mps
from bench.replay.gpus import GpuSensor, HostGpu, Sampler, required_gpus
from bench.replay.green import has_green_contexts
from bench.replay.light_profile.demand import counted_traffic
from bench.replay.light_profile.journal import Device, ModelFacts, Reading, Times, Traffic
from bench.replay.light_profile.points import Point
from bench.replay.process import Child, ChildError, Message, Supervisor
from instances.errors import FieldName, InputError

WORKER = "bench.replay.light_profile.worker"
"""Module of the worker processes."""

PATIENCE_S = 10.0
"""Time limit for a worker to end by itself."""

ANSWER_S, TRIAL_S = 300.0, 60.0
"""Time limits for an answer, and for the first answer through MPS; clients may hang if MPS does not work."""

FEWEST_BATCHES = 6
"""Smallest number of batches per tenant that fit into the measurement, even if the tenants take turns."""

WARM_UP_S = 0.4
"""Least time from the first batch to the first measured batch, in which power and clocks settle; or two batches."""

IDLE_S = 2.0
"""Time without kernels; the power of its second half is the idle power."""


@dataclass(frozen=True, slots=True)
class RigSettings:
    """Device to measure on, and its settings.

    Attributes
    ----------
    device, gpu
        ``cuda`` or ``cpu``; index of the GPU.
    partition
        Mechanism that limits a tenant to its share of a GPU: ``mps``, ``green``, or ``auto``, the first of the two that
        works. A CPU is divided by numbers of threads and takes only ``auto``.
    half, graphs
        See ``Device``.
    """

    device: str = "cuda"
    gpu: int = 0
    partition: str = "auto"
    half: bool = False
    graphs: bool = False


class HostRig:
    """Measuring rig on this host: one process per tenant, or one process for all tenants if they have green contexts.

    A tenant is a model that runs batch after batch on a share of the device, such as each model of a pair.

    Entering the context checks the host, and starts the MPS control daemon if MPS divides the GPU. Leaving it ends
    every process that was started. Clocks, power limits and modes of the GPU do not change.

    Raises
    ------
    InputError
        On entering, if the host lacks something; the message names what is missing.
    """

    def __init__(self, settings: RigSettings) -> None:
        self._settings = settings
        self._exit = ExitStack()
        self._sensor: GpuSensor | None = None
        self._gpu: HostGpu | None = None
        self._variables: Mapping[str, str] = {}
        self._partition = "threads"  # of a CPU; for a GPU, ``_select_gpu`` sets the mechanism
        self._supervisor = Supervisor()
        self._whole_worker: Child | None = None
        self._workers: list[tuple[tuple[float, ...], Child]] = []  # with the shares of the tenants, in percent

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.push(self.__exit__)
            if self._settings.device != "cpu":
                self._select_gpu()
            elif self._settings.partition != "auto":
                where = FieldName("partition", f" {self._settings.partition}")
                raise InputError(where, "needs a GPU; leave it out with `device` cpu")
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end_workers(self._supervisor.children)
        finally:
            self._exit.close()

    def _select_gpu(self) -> None:
        """Check the GPU, open its sensors, and prepare the mechanism that divides it."""
        where = FieldName("gpu", f" {self._settings.gpu}")
        gpus = required_gpus(where, "expected a host with a GPU and its driver")
        if not 0 <= self._settings.gpu < len(gpus):
            raise InputError(where, f"does not exist; expected 0 to {len(gpus) - 1}")
        self._gpu = gpus[self._settings.gpu]
        if self._gpu.mig:
            raise InputError(where, "is in MIG mode; profiling needs a whole GPU; disable MIG")
        self._sensor = GpuSensor.open(self._settings.gpu)
        if self._sensor is not None:
            self._exit.callback(self._sensor.close)
        self._partition = self._prepared_partition()

    def _prepared_partition(self) -> str:
        """Prepare the mechanism that divides the GPU among tenants, and return its name."""
        partition = self._settings.partition
        problem = None if partition == "green" else self._try_mps()
        if partition != "green" and problem is None:
            return "mps"
        if partition != "mps" and has_green_contexts():
            return "green"
        problem = problem or "needs a driver with green contexts (555 or later)"
        raise InputError(FieldName("partition", f" {partition}"), problem)

    def _try_mps(self) -> str | None:
        """Start the control daemon and a client; on a problem, stop both and return the problem."""
        if which(mps.CONTROL) is None:
            return f"needs {mps.CONTROL}, a part of NVIDIA's driver, on the path; install it or try `partition` green"
        with ExitStack() as trial:
            try:
                self._variables = trial.enter_context(mps.daemon())
                client = self._start_worker(mps.client(50.0, None))
                try:
                    self._supervisor.ask(client, TRIAL_S, describe=True)
                finally:
                    self._end_workers([client])
            except (InputError, ChildError) as error:
                self._variables = {}
                problem = error.problem if isinstance(error, InputError) else error
                return f"MPS does not work on this host: {problem}"
            self._exit.push(trial.pop_all())
        return None

    @cached_property
    def device(self) -> Device:
        """Measured device."""
        description = self._supervisor.ask(self._whole_device_worker(), ANSWER_S, describe=True)
        idle_w = limit_w = None
        software = (
            description["software"] if self._gpu is None else f"driver {self._gpu.driver}, {description['software']}"
        )
        if self._sensor is not None:
            time.sleep(IDLE_S / 2.0)
            with Sampler(self._sensor) as sampler:
                time.sleep(IDLE_S / 2.0)
            idle_w, limit_w = _mean([state.power_w for state in sampler.states]), _mean([self._sensor.power_limit_w()])
        return Device(
            kind=self._settings.device,
            name=description["name"],
            software=software,
            partition=self._partition,
            half=self._settings.half,
            graphs=self._settings.graphs and self._settings.device != "cpu",
            share_units=description["share_units"],
            memory_mib=description["memory_mib"],
            pcie_bytes_per_ms=description["pcie_bytes_per_ms"],
            idle_power_w=idle_w,
            max_power_w=limit_w,
        )

    def facts(self, model: str) -> ModelFacts:
        """Return the facts of a model."""
        return ModelFacts(**self._supervisor.ask(self._whole_device_worker(), ANSWER_S, facts=model))

    def traffic(self, model: str, batch: int) -> Traffic:
        """Return the memory traffic of a batch, or ``None`` if Nsight Compute cannot count it."""
        if self._gpu is None:
            return None
        self._end_whole_worker()
        return counted_traffic(model, batch, self._settings.half, {**os.environ, **self._visible_gpu})

    def measure(self, point: Point, seconds: float) -> Reading:
        """Run all tenants of a point for at least ``seconds`` and return their times."""
        self._end_whole_worker()
        groups = [point] if self._partition == "green" else [(tenant,) for tenant in point]
        workers = self._workers_for([tuple(tenant.share_pct for tenant in group) for group in groups])
        try:
            return self._measured(workers, groups, seconds)
        except BaseException:
            self._end_workers(workers)  # the state of the workers is undefined after an error
            raise

    def _measured(self, workers: Sequence[Child], groups: Sequence[Point], seconds: float) -> Reading:
        """Load a group of tenants in each worker, run all tenants at the same time, and return the reading."""
        ready: list[Message] = []
        for child, group in zip(workers, groups, strict=True):
            ready += self._supervisor.ask(child, ANSWER_S, tenants=[astuple(tenant) for tenant in group])["ready"]
        longest_s = max(tenant["batch_ms"] for tenant in ready) / 1000.0
        begin_s = time.monotonic() + max(WARM_UP_S, 2.0 * longest_s)
        end_s = begin_s + max(seconds, FEWEST_BATCHES * longest_s * len(ready))
        # Tenants run on after the measurement, so that the last measured batches of others stay co-located.
        stop_s = end_s + 1.5 * longest_s * len(ready)
        patience_s = stop_s - time.monotonic() + ANSWER_S
        with Sampler(self._sensor) if self._sensor else nullcontext() as sampler:
            for child in workers:
                child.channel.say(turn=(begin_s, end_s, stop_s))
            times = [
                tenant_times
                for child in workers
                for tenant_times in self._supervisor.answer(child, patience_s)["times"]
            ]
        states = sampler.between(begin_s, end_s) if sampler else []
        return Reading(
            tuple(
                Times(**tenant_times, memory_mib=tenant["memory_mib"])
                for tenant_times, tenant in zip(times, ready, strict=True)
            ),
            # The sensor may report a mean over a second, so only the second half of the samples counts.
            _mean([state.power_w for state in states[len(states) // 2 :]]),
            _mean([state.frequency_mhz for state in states]),
        )

    def _workers_for(self, shares_pct: Sequence[tuple[float, ...]]) -> list[Child]:
        """Return one worker per group of tenants: reuse workers with the right shares, end the other workers.

        Idle contexts would still take memory and time of the GPU's scheduler.
        """
        workers: list[Child] = []
        for shares in shares_pct:
            child = next(
                (
                    worker
                    for worker_shares, worker in self._workers
                    if worker_shares == shares and worker not in workers
                ),
                None,
            )
            if child is None:
                limits = mps.client(shares[0], None) if self._partition == "mps" else {}
                child = self._start_worker(limits, self._threads(shares[0]))
                self._workers.append((shares, child))
            workers.append(child)
        self._end_workers([child for _, child in self._workers if child not in workers])
        return workers

    def _threads(self, share_pct: float) -> int:
        """Return the number of threads that represents a share of a CPU."""
        return max(1, round((os.cpu_count() or 1) * share_pct / 100.0)) if self._settings.device == "cpu" else 1

    @property
    def _visible_gpu(self) -> dict[str, str]:
        return {} if self._gpu is None else {"CUDA_VISIBLE_DEVICES": self._gpu.uuid}

    def _whole_device_worker(self) -> Child:
        """Return a worker on the whole device, not an MPS client, because profiling tools see little of MPS clients."""
        if self._whole_worker is None:
            self._end_workers([child for _, child in self._workers])
            self._whole_worker = self._start_worker({}, self._threads(100.0), whole_device=True)
        return self._whole_worker

    def _start_worker(self, limits: Mapping[str, str], threads: int = 1, whole_device: bool = False) -> Child:
        """Start a worker on a share of the device, or on the whole device without MPS and green contexts."""
        settings = self._settings
        # Workers load models by device name, and a green context is a device to them.
        device = "green" if self._partition == "green" and not whole_device else settings.device
        order = asdict(settings) | {"device": device, "threads": threads}
        variables = {} if whole_device else self._variables
        return self._supervisor.start(WORKER, order, (), {**self._visible_gpu, **variables, **limits})

    def _end_workers(self, children: Sequence[Child]) -> None:
        self._supervisor.end(children, PATIENCE_S)
        self._workers = [entry for entry in self._workers if entry[1] in self._supervisor.children]
        if self._whole_worker not in self._supervisor.children:
            self._whole_worker = None

    def _end_whole_worker(self) -> None:
        if self._whole_worker is not None:
            self._end_workers([self._whole_worker])


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of the finite values, or ``None`` if there are none."""
    finite = [value for value in values if isfinite(value)]
    return fmean(finite) if finite else None
