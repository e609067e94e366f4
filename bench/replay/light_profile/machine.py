"""Measuring rig on the host's own GPU, or on its CPU for tests."""

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import astuple, dataclass
from functools import cached_property
from math import isfinite
from shutil import which
from statistics import fmean
from typing import Any, Self

from bench.replay import mps
from bench.replay.host import MPS_CONTROL, HostGpu, has_green_contexts, host_gpus
from bench.replay.light_profile.points import Point
from bench.replay.light_profile.rig import Device, MeasuringError, ModelFacts, Reading, Times
from bench.replay.light_profile.traffic import counted_traffic
from bench.replay.nvml import Nvml, Sampler
from bench.replay.process import Child, Message
from instances.errors import InputError

WORKER = "bench.replay.light_profile.worker"

PATIENCE_S = 10.0
"""Time limit for a worker to end by itself."""

ANSWER_S, TRIAL_S = 300.0, 60.0
"""Time limits of a worker for loading a model, and for testing MPS; if MPS does not work, its clients may hang."""

FEWEST_BATCHES = 6
"""Smallest number of batches per tenant that fit into the measurement if the tenants take turns."""

WARM_UP_S = 0.4
"""Time from the first batch to the first measured batch, in which power and clocks settle."""

IDLE_S = 2.0


@dataclass(frozen=True, slots=True)
class Setup:
    """Device to measure on, and its settings.

    Attributes
    ----------
    device, gpu
        ``cuda`` or ``cpu``; index of the GPU.
    partition
        ``mps``, ``green`` or ``auto``, which takes the first of the two that works.
    half, graphs
        See ``rig.Device``.
    """

    device: str = "cuda"
    gpu: int = 0
    partition: str = "auto"
    half: bool = False
    graphs: bool = False


class Machine:
    """Measuring rig on this host with one process per tenant, on its share of the device.

    Entering checks the host and starts the MPS control daemon if MPS divides the GPU. Leaving ends every process that
    was started. Clocks, power limits and modes of the GPU do not change.

    Parameters
    ----------
    setup
        The device and its settings.

    Raises
    ------
    InputError
        On entering, if the host lacks something; one line names it.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._exit = ExitStack()
        self._nvml: Nvml | None = None
        self._gpu: HostGpu | None = None
        self._variables: Mapping[str, str] = {}
        self._partition = "threads"
        self._whole: Child | None = None
        self._workers: list[tuple[tuple[float, ...], Child]] = []

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.push(self.__exit__)
            if self._setup.device != "cpu":
                self._take_gpu()
            elif self._setup.partition != "auto":
                raise InputError(f"--partition {self._setup.partition}", "needs a GPU; leave it out with --device cpu")
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._end([child for _, child in self._workers])
            self._end_whole()
        finally:
            self._exit.close()

    def _take_gpu(self) -> None:
        where, gpus = f"--gpu {self._setup.gpu}", host_gpus()
        if not gpus:
            raise InputError(where, "finds no NVIDIA GPU (nvidia-smi lists none); expected a host with its driver")
        if not 0 <= self._setup.gpu < len(gpus):
            raise InputError(where, f"does not exist; expected 0 to {len(gpus) - 1}")
        self._gpu = gpus[self._setup.gpu]
        if self._gpu.mig:
            raise InputError(where, "is in MIG mode; profiling needs a whole GPU")
        self._nvml = Nvml.open(self._setup.gpu)
        if self._nvml is not None:
            self._exit.enter_context(self._nvml)
        self._partition = self._divided()

    def _divided(self) -> str:
        """Prepare the mechanism that divides the GPU among tenants, and return its name."""
        wanted = self._setup.partition
        problem = None if wanted == "green" else self._try_mps()
        if wanted != "green" and problem is None:
            return "mps"
        if wanted != "mps" and has_green_contexts():
            return "green"
        problem = problem or "needs a driver with green contexts (555 or later)"
        raise InputError(f"--partition {wanted}", problem)

    def _try_mps(self) -> str | None:
        """Start the control daemon and a client; on a problem, stop both and return the problem."""
        if which(MPS_CONTROL) is None:
            return f"needs {MPS_CONTROL}, a part of NVIDIA's driver, on the path; install it or try --partition green"
        with ExitStack() as trial:
            try:
                self._variables = trial.enter_context(mps.daemon())
                client = self._child(mps.client(50.0, None))
                try:
                    self._ask(client, TRIAL_S, describe=True)
                finally:
                    client.end(PATIENCE_S)
            except (InputError, MeasuringError) as error:
                self._variables = {}
                problem = error.problem if isinstance(error, InputError) else error
                return f"MPS does not work on this host: {problem}"
            self._exit.push(trial.pop_all())
        return None

    @cached_property
    def device(self) -> Device:
        """Measured device."""
        found = self._ask(self._alone(), describe=True)
        idle_w = limit_w = None
        software = found["software"] if self._gpu is None else f"driver {self._gpu.driver}, {found['software']}"
        if self._nvml is not None:
            time.sleep(IDLE_S / 2.0)
            with Sampler(self._nvml) as sampler:
                time.sleep(IDLE_S / 2.0)
            idle_w, limit_w = _mean([s.power_w for s in sampler.states]), _mean([self._nvml.power_limit_w()])
        return Device(
            kind=self._setup.device,
            name=found["name"],
            software=software,
            partition=self._partition,
            half=self._setup.half,
            graphs=self._setup.graphs and self._setup.device != "cpu",
            share_units=found["share_units"],
            memory_mib=found["memory_mib"],
            pcie_bytes_per_ms=found["pcie_bytes_per_ms"],
            idle_power_w=idle_w,
            max_power_w=limit_w,
        )

    def facts(self, model: str) -> ModelFacts:
        """Return the facts of a model that do not depend on other tenants."""
        return ModelFacts(**self._ask(self._alone(), facts=model))

    def traffic(self, model: str, batch: int) -> tuple[float, float] | None:
        """Return L2 and DRAM utilisation times duration if Nsight Compute can count them."""
        if self._gpu is None:
            return None
        self._end_whole()
        return counted_traffic(model, batch, self._setup.half, {**os.environ, **self._seeing})

    def measure(self, point: Point, seconds: float) -> Reading:
        """Run all tenants of a point for some time and return their times."""
        self._end_whole()
        # Idle contexts would still hold memory and time of the GPU's scheduler.
        parties = [point] if self._partition == "green" else [(tenant,) for tenant in point]
        crew = self._crew([tuple(tenant.share_pct for tenant in party) for party in parties])
        try:
            return self._measured(crew, parties, seconds)
        except BaseException:
            self._end(crew)  # their state is undefined now
            raise

    def _measured(self, crew: Sequence[Child], parties: Sequence[Point], seconds: float) -> Reading:
        ready: list[Message] = []
        for child, party in zip(crew, parties, strict=True):
            ready += self._ask(child, tenants=[astuple(tenant) for tenant in party])["ready"]
        longest_s = max(tenant["batch_ms"] for tenant in ready) / 1000.0
        begin_s = time.monotonic() + max(WARM_UP_S, 2.0 * longest_s)
        end_s = begin_s + max(seconds, FEWEST_BATCHES * longest_s * len(ready))
        leave_s = end_s + 1.5 * longest_s * len(ready)
        patience_s = leave_s - time.monotonic() + ANSWER_S
        with Sampler(self._nvml) if self._nvml else nullcontext() as sampler:
            for child in crew:
                child.channel.say(turn=(begin_s, end_s, leave_s))
            times = [one for child in crew for one in self._answer(child, patience_s)["times"]]
        states = sampler.between(begin_s, end_s) if sampler else []
        return Reading(
            tuple(Times(**t, memory_mib=r["memory_mib"]) for t, r in zip(times, ready, strict=True)),
            _mean(
                [state.power_w for state in states[len(states) // 2 :]]
            ),  # the reading may be a mean over a second and lag behind
            _mean([state.frequency_mhz for state in states]),
        )

    def _crew(self, shares_pct: Sequence[tuple[float, ...]]) -> list[Child]:
        """Return one worker per party; reuse the running workers with the right shares and end the others."""
        crew: list[Child] = []
        for shares in shares_pct:
            child = next((known for fits, known in self._workers if fits == shares and known not in crew), None)
            if child is None:
                child = self._child(self._limits(shares), self._threads(shares))
                self._workers.append((shares, child))
            crew.append(child)
        self._end([child for _, child in self._workers if child not in crew])
        return crew

    def _limits(self, shares_pct: tuple[float, ...]) -> dict[str, str]:
        return mps.client(shares_pct[0], None) if self._partition == "mps" else {}

    def _threads(self, shares_pct: tuple[float, ...]) -> int:
        """Return the number of threads that represents a share of a CPU."""
        return max(1, round((os.cpu_count() or 1) * shares_pct[0] / 100.0)) if self._setup.device == "cpu" else 1

    @property
    def _seeing(self) -> dict[str, str]:
        return {} if self._gpu is None else {"CUDA_VISIBLE_DEVICES": self._gpu.uuid}

    def _alone(self) -> Child:
        """Return a worker on the whole device without MPS, under which profiling tools see little."""
        if self._whole is None:
            self._end([child for _, child in self._workers])
            self._whole = self._child({}, self._threads((100.0,)), through_mps=False)
        return self._whole

    def _child(self, limits: Mapping[str, str], threads: int = 1, through_mps: bool = True) -> Child:
        setup = self._setup
        device = "green" if self._partition == "green" and through_mps else setup.device
        order = {"device": device, "gpu": setup.gpu, "half": setup.half, "graphs": setup.graphs, "threads": threads}
        variables = self._variables if through_mps else {}
        return Child(WORKER, order, (), {**self._seeing, **variables, **limits})

    def _ask(self, child: Child, within_s: float = ANSWER_S, **message: Any) -> Message:
        child.channel.say(**message)
        return self._answer(child, within_s)

    def _answer(self, child: Child, within_s: float) -> Message:
        child.channel.end.settimeout(within_s)
        try:
            said = child.channel.read()
        except TimeoutError:
            raise MeasuringError(f"a worker did not answer within {within_s:.0f} s") from None
        if not said:
            raise MeasuringError(f"a worker died: {child.log_tail() or 'it left no message'}")
        if "failed" in said[0]:
            raise MeasuringError(said[0]["failed"])
        return said[0]

    def _end(self, children: Sequence[Child]) -> None:
        for child in children:
            child.hang_up()
        for child in children:
            child.end(PATIENCE_S)
        self._workers = [entry for entry in self._workers if entry[1] not in children]

    def _end_whole(self) -> None:
        whole, self._whole = self._whole, None
        if whole is not None:
            self._end([whole])


def _mean(values: Sequence[float]) -> float | None:
    """Return the mean of the finite values, or ``None`` if there are none."""
    known = [value for value in values if isfinite(value)]
    return fmean(known) if known else None
