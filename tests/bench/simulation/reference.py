"""Reference simulation of a plan with SimPy, request by request, with which the compiled simulation must agree.

It uses no code of the compiled simulation. GPU times are from the equations in plain Python.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

import simpy

from bench.simulation.serving_rules import ROUNDING_MS
from instances import Application, Gpulet, GpuType, Instance, PlacedGpu, Plan, SloRule, Slot
from instances.tables import gpu_tables
from tests.instances import reference as one_gpu

Steps = Generator[simpy.Event, Any, None]
Demand = tuple[float, float, float]
"""Demands of a batch on its GPU: L2 and DRAM utilisation in percent, power in watts."""


# --- Performance models ---


@dataclass(frozen=True)
class Resident:
    """Model, size and share units of a batch on a GPU."""

    model: str
    batch: int
    units: int


def igniter_demand(gpu: GpuType, resident: Resident) -> Demand:
    model, share_pct = gpu.models[resident.model], 100.0 * resident.units / gpu.share_units
    return one_gpu.l2_pct(model, resident.batch, share_pct), 0.0, one_gpu.power_w(model, resident.batch, share_pct)


def igniter_ms(gpu: GpuType, resident: Resident, others: Sequence[Demand]) -> float:
    """Return the GPU time beside others (iGniter, equations 4 to 10)."""
    hardware, model = gpu.hardware, gpu.models[resident.model]
    power_w = igniter_demand(gpu, resident)[2] + sum(power for _, _, power in others)
    scheduling_ms = model.kernels * one_gpu.delay_per_kernel_ms(hardware, 1 + len(others)) + model.scheduling_alone_ms
    growth = 1.0 + model.alpha_cache * sum(l2 for l2, _, _ in others)
    active_ms = one_gpu.active_ms(model, resident.batch, 100.0 * resident.units / gpu.share_units) * growth
    return (scheduling_ms + active_ms) * hardware.max_frequency_mhz / one_gpu.frequency_mhz(hardware, power_w)


def gpulet_demand(gpu: GpuType, resident: Resident) -> Demand:
    tables, row = gpu_tables(gpu, "gpulet"), list(gpu.models).index(resident.model)
    return tables.l2_pct[row, resident.batch, resident.units], tables.dram_pct[row, resident.batch, resident.units], 0.0


def gpulet_ms(gpu: GpuType, resident: Resident, others: Sequence[Demand]) -> float:
    """Return the GPU time beside others (gpulet, Sec. 4.4): every neighbour adds its slowdown, at least 0."""
    tables, row, pair = gpu_tables(gpu, "gpulet"), list(gpu.models).index(resident.model), gpu.pair
    assert pair is not None
    l2, dram, _ = gpulet_demand(gpu, resident)
    factors = [
        (pair.l2_own * l2 + pair.l2_other * l2_other + pair.dram_own * dram + pair.dram_other * dram_other) / 100.0
        + pair.constant
        for l2_other, dram_other, _ in others
    ]
    growth = 1.0 + sum(max(0.0, factor - 1.0) for factor in factors)
    return float(tables.active_ms[row, resident.batch, resident.units]) * growth


MODELS = {"igniter": (igniter_demand, igniter_ms), "gpulet": (gpulet_demand, gpulet_ms)}


# --- One executor ---


@dataclass
class Request:
    """A request; ``number`` counts the requests of its workload or application."""

    number: int
    arrived_ms: float


@dataclass
class Place:
    """A slot: its batching rule, its times by batch size, and its queue."""

    workload: str
    model: str
    batch: int
    rate_rps: float
    slo_ms: float
    timeout_ms: float
    promised_ms: list[float]
    planned_ms: list[float]
    tail_ms: list[float]
    delay_ms: list[float]
    queue: list[Request] = field(default_factory=list)

    @property
    def ready_ms(self) -> float:
        """Time at which the batch of the waiting requests is ready: full, or the oldest has waited for the timeout."""
        if not self.queue:
            return inf
        full_ms = self.queue[self.batch - 1].arrived_ms if len(self.queue) >= self.batch else inf
        return min(full_ms, self.queue[0].arrived_ms + self.timeout_ms)


@dataclass
class Batch:
    """Batch that runs on an executor."""

    resident: Resident
    planned_ms: float
    server: "Server"


class Server:
    """A gpulet, which serves one batch at a time."""

    def __init__(self, world: "World", gpu: "Gpu", units: int, places: list[Place]) -> None:
        self.world, self.gpu, self.units, self.places = world, gpu, units, places
        self.came = world.env.event()
        self.process = world.env.process(self.serve())

    def arrive(self, place: Place, request: Request) -> None:
        place.queue.append(request)
        self.came.succeed()
        self.came = self.world.env.event()

    def serve(self) -> Steps:
        """Serve the slot whose batch is ready first, forever."""
        env = self.world.env
        while True:
            place = min(self.places, key=lambda place: place.ready_ms)
            if place.ready_ms > env.now:
                moment = [env.timeout(place.ready_ms - env.now)] if place.queue else []
                yield env.any_of([self.came, *moment])
            elif not self.drop_late(place):
                yield from self.run(place)

    def drop_late(self, place: Place) -> bool:
        """Drop requests that would be late in a batch that starts now; return whether any was dropped."""
        dropped = False
        while self.world.dropping and place.queue:
            size = min(place.batch, len(place.queue))
            expected_ms = self.world.env.now + place.promised_ms[size] - place.queue[0].arrived_ms
            if expected_ms <= place.slo_ms + 0.5 * ROUNDING_MS:
                break
            self.world.drop(place, place.queue.pop(0))
            dropped = True
        return dropped

    def run(self, place: Place) -> Steps:
        env = self.world.env
        requests, place.queue = place.queue[: place.batch], place.queue[place.batch :]
        size = len(requests)
        batch = Batch(Resident(place.model, size, self.units), place.planned_ms[size], self)
        remaining = 1.0
        self.gpu.enter(batch)
        while remaining > 0.0:
            begun_ms, total_ms = env.now, self.gpu.time_ms(batch)
            try:
                yield env.timeout(remaining * total_ms)
                remaining = 0.0
            except simpy.Interrupt:
                remaining -= (env.now - begun_ms) / total_ms
        self.gpu.leave(batch)
        done_ms = env.now + place.tail_ms[size] + place.delay_ms[size]
        for request in requests:
            self.world.serve(place, request, done_ms)
        yield env.timeout(place.tail_ms[size])


class Gpu:
    """Batches on a GPU, which slow each other while they overlap, or always take their planned times."""

    def __init__(self, beside_ms: Callable[[Resident, Sequence[Resident]], float] | None) -> None:
        self.beside_ms = beside_ms
        self.running: list[Batch] = []

    def time_ms(self, own: Batch) -> float:
        if self.beside_ms is None:
            return own.planned_ms
        return self.beside_ms(own.resident, [other.resident for other in self.running if other is not own])

    def enter(self, batch: Batch) -> None:
        self.running.append(batch)
        self._disturb(batch)

    def leave(self, batch: Batch) -> None:
        self.running.remove(batch)
        self._disturb(batch)

    def _disturb(self, by: Batch) -> None:
        if self.beside_ms is not None:
            for other in self.running:
                if other is not by:
                    other.server.process.interrupt()


# --- The whole plan ---


@dataclass
class Journey:
    """Progress of one request through the stages of its application."""

    arrived_ms: float
    missing: dict[str, int]
    ready_ms: dict[str, float]
    stages_left: int
    done_ms: float = 0.0
    lost: bool = False


class World:
    """All servers of a plan, and the requests on their way.

    ``latencies_ms`` has the latencies by workload or application and request number: infinite if the request was
    dropped, absent if it is not finished.
    """

    def __init__(self, plan: Plan, instance: Instance, *, dynamic: bool = True, dropping: bool = True) -> None:
        self.env = simpy.Environment()
        self.instance, self.dynamic, self.dropping = instance, dynamic, dropping
        self.latencies_ms: dict[str, dict[int, float]] = {
            each.id: {} for each in (*instance.workloads, *instance.applications)
        }
        self.slots: dict[str, list[tuple[Server, Place]]] = {workload.id: [] for workload in instance.workloads}
        self.credit: dict[str, list[float]] = {}
        self.application = {stage: one for one in instance.applications for stage in one.stages}
        self.journeys: dict[str, dict[int, Journey]] = {one.id: {} for one in instance.applications}
        for pool in instance.gpus:
            for gpu in plan.gpus:
                if gpu.type == pool.type.name:
                    self._set_up(gpu, pool.type)

    def _set_up(self, placed: PlacedGpu, gpu_type: GpuType) -> None:
        demand, beside_ms = MODELS[self.instance.performance_model]
        demands = [self._gpulet_demand(gpu_type, gpulet) for gpulet in placed.gpulets]
        gpu = Gpu(
            (lambda position, others: beside_ms(gpu_type, position, [demand(gpu_type, other) for other in others]))
            if self.dynamic
            else None
        )
        for position, gpulet in enumerate(placed.gpulets):
            others = demands[:position] + demands[position + 1 :]
            places = [self._place(gpu_type, gpulet, slot, others) for slot in gpulet.slots]
            server = Server(self, gpu, gpulet.share_units, places)
            for place in places:
                self.slots[place.workload].append((server, place))

    def _gpulet_demand(self, gpu_type: GpuType, gpulet: Gpulet) -> Demand:
        """Return the demands of a gpulet for its neighbours: the largest of its slots in each component."""
        demand, _ = MODELS[self.instance.performance_model]
        demands = [demand(gpu_type, Resident(self._model(s), s.batch, gpulet.share_units)) for s in gpulet.slots]
        l2, dram, power = (max(values) for values in zip(*demands, strict=True))
        return l2, dram, power

    def _model(self, slot: Slot) -> str:
        return self.instance.workloads[self.instance.workload_index[slot.workload]].model

    def _place(self, gpu_type: GpuType, gpulet: Gpulet, slot: Slot, others: Sequence[Demand]) -> Place:
        _, beside_ms = MODELS[self.instance.performance_model]
        workload = self.instance.workloads[self.instance.workload_index[slot.workload]]
        model = gpu_type.models[workload.model]
        sizes = range(1, slot.batch + 1)
        gpu_ms = [beside_ms(gpu_type, Resident(workload.model, b, gpulet.share_units), others) for b in sizes]
        transfers = [one_gpu.transfers_ms(gpu_type, model, b) for b in sizes]
        overlapping = self.instance.performance_model == "igniter"
        promised_ms = [gpu + load + feedback for gpu, (load, feedback) in zip(gpu_ms, transfers, strict=True)]
        half = self.instance.slo_rule in (SloRule.HALF_SLO, SloRule.P99)
        timeout_ms = min(
            workload.slo_ms / 2.0 if half else 1000.0 * slot.batch / slot.rate_rps,
            workload.slo_ms - self.instance.latency_buffer * promised_ms[-1],
        )
        if gpulet.duty_cycle_ms is not None:
            timeout_ms = workload.slo_ms - gpulet.duty_cycle_ms
        return Place(
            slot.workload,
            workload.model,
            slot.batch,
            slot.rate_rps,
            workload.slo_ms,
            max(0.0, timeout_ms),
            [0.0, *promised_ms],
            [0.0, *gpu_ms],
            [0.0, *(feedback if overlapping else load + feedback for load, feedback in transfers)],
            [0.0, *(load if overlapping else 0.0 for load, _ in transfers)],
        )

    # --- Requests ---

    def run(self, arrivals_ms: Mapping[str, Sequence[float]], until_ms: float) -> dict[str, dict[int, float]]:
        """Serve requests that arrive at the given times until ``until_ms``; return ``latencies_ms``."""
        for name, times_ms in arrivals_ms.items():
            for number, at_ms in enumerate(times_ms):
                self._at(at_ms, lambda name=name, number=number, at_ms=at_ms: self._enter(name, number, at_ms))
        self.env.run(until_ms)
        return self.latencies_ms

    def _at(self, at_ms: float, action: Callable[[], None]) -> None:
        event = self.env.timeout(at_ms - self.env.now)
        assert event.callbacks is not None
        event.callbacks.append(lambda _: action())

    def _enter(self, name: str, number: int, at_ms: float) -> None:
        if name not in self.journeys:
            self._send(name, Request(number, at_ms))
            return
        application = next(application for application in self.instance.applications if application.id == name)
        missing = {stage: sum(after == stage for _, after in application.edges) for stage in application.stages}
        self.journeys[name][number] = Journey(
            at_ms, missing, dict.fromkeys(application.stages, 0.0), len(application.stages)
        )
        for stage in application.stages:
            if missing[stage] == 0:
                self._send(stage, Request(number, at_ms))

    def _send(self, workload: str, request: Request) -> None:
        """Send a request to the slot that is furthest behind its planned share of the requests."""
        slots = self.slots[workload]
        if not slots:
            self.latencies_ms[workload][request.number] = inf
            self._lose(workload, request)
            return
        total_rps = sum(place.rate_rps for _, place in slots)
        credit = self.credit.setdefault(workload, [0.0] * len(slots))
        for at, (_, place) in enumerate(slots):
            credit[at] += place.rate_rps / total_rps
        chosen = credit.index(max(credit))
        credit[chosen] -= 1.0
        server, place = slots[chosen]
        if request.arrived_ms > self.env.now:
            self._at(request.arrived_ms, lambda: server.arrive(place, request))
        else:
            server.arrive(place, request)

    def drop(self, place: Place, request: Request) -> None:
        self.latencies_ms[place.workload][request.number] = inf
        self._lose(place.workload, request)

    def _lose(self, workload: str, request: Request) -> None:
        if workload in self.application:
            application = self.application[workload]
            self.journeys[application.id][request.number].lost = True
            self.latencies_ms[application.id][request.number] = inf

    def serve(self, place: Place, request: Request, done_ms: float) -> None:
        self.latencies_ms[place.workload][request.number] = done_ms - request.arrived_ms
        if place.workload in self.application:
            self._continue(self.application[place.workload], place.workload, request.number, done_ms)

    def _continue(self, one: Application, stage: str, number: int, done_ms: float) -> None:
        journey = self.journeys[one.id][number]
        if journey.lost:
            return
        journey.stages_left -= 1
        journey.done_ms = max(journey.done_ms, done_ms)
        if journey.stages_left == 0:
            self.latencies_ms[one.id][number] = journey.done_ms - journey.arrived_ms
        for before, after in one.edges:
            if before == stage:
                journey.missing[after] -= 1
                journey.ready_ms[after] = max(journey.ready_ms[after], done_ms)
                if journey.missing[after] == 0:
                    self._send(after, Request(number, journey.ready_ms[after]))
