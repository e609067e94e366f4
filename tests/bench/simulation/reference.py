"""A plan served request by request with SimPy, straight from the rules: what the compiled simulation must agree with.

Nothing here uses the simulation's own files. GPU times come from the equations in plain Python.
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
"""Demands of a batch as its neighbours see them: L2 and DRAM in percent, power in watts."""


# --- Performance models ---


@dataclass(frozen=True)
class Resident:
    """A batch on a GPU."""

    model: str
    batch: int
    units: int


def igniter_demand(gpu: GpuType, one: Resident) -> Demand:
    model, share_pct = gpu.models[one.model], 100.0 * one.units / gpu.share_units
    return one_gpu.l2_pct(model, one.batch, share_pct), 0.0, one_gpu.power_w(model, one.batch, share_pct)


def igniter_ms(gpu: GpuType, one: Resident, others: Sequence[Demand]) -> float:
    """GPU time beside others (iGniter, equations 4 to 10)."""
    hardware, model = gpu.hardware, gpu.models[one.model]
    power_w = igniter_demand(gpu, one)[2] + sum(power for _, _, power in others)
    scheduling_ms = model.kernels * one_gpu.delay_per_kernel_ms(hardware, 1 + len(others)) + model.scheduling_alone_ms
    growth = 1.0 + model.alpha_cache * sum(l2 for l2, _, _ in others)
    active_ms = one_gpu.active_ms(model, one.batch, 100.0 * one.units / gpu.share_units) * growth
    return (scheduling_ms + active_ms) * hardware.max_frequency_mhz / one_gpu.frequency_mhz(hardware, power_w)


def gpulet_demand(gpu: GpuType, one: Resident) -> Demand:
    tables, row = gpu_tables(gpu, "gpulet"), list(gpu.models).index(one.model)
    return tables.l2_pct[row, one.batch, one.units], tables.dram_pct[row, one.batch, one.units], 0.0


def gpulet_ms(gpu: GpuType, one: Resident, others: Sequence[Demand]) -> float:
    """GPU time beside others (gpulet, Sec. 4.4): each pair adds what it is longer by, if it is."""
    tables, row, pair = gpu_tables(gpu, "gpulet"), list(gpu.models).index(one.model), gpu.pair
    assert pair is not None
    l2, dram, _ = gpulet_demand(gpu, one)
    factors = [
        (pair.l2_own * l2 + pair.l2_other * l2_other + pair.dram_own * dram + pair.dram_other * dram_other) / 100.0
        + pair.constant
        for l2_other, dram_other, _ in others
    ]
    growth = 1.0 + sum(max(0.0, factor - 1.0) for factor in factors)
    return float(tables.active_ms[row, one.batch, one.units]) * growth


MODELS = {"igniter": (igniter_demand, igniter_ms), "gpulet": (gpulet_demand, gpulet_ms)}


# --- One executor ---


@dataclass
class Request:
    """Someone who came to a workload; ``number`` tells which of its stream or application."""

    number: int
    arrived_ms: float


@dataclass
class Place:
    """A slot: its rules, its times by batch size, and its queue."""

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
    """A gpulet: one batch at a time, at the pace that its GPU gives it."""

    def __init__(self, world: "World", gpu: "Gpu", units: int, places: list[Place]) -> None:
        self.world, self.gpu, self.units, self.places = world, gpu, units, places
        self.came = world.env.event()
        self.process = world.env.process(self.serve())

    def arrive(self, place: Place, request: Request) -> None:
        place.queue.append(request)
        self.came.succeed()
        self.came = self.world.env.event()

    def serve(self) -> Steps:
        """Serve the place whose batch was ready first, again and again."""
        env = self.world.env
        while True:
            place = min(self.places, key=lambda place: place.ready_ms)
            if place.ready_ms > env.now:
                moment = [env.timeout(place.ready_ms - env.now)] if place.queue else []
                yield env.any_of([self.came, *moment])
            elif not self.drop_hopeless(place):
                yield from self.run(place)

    def drop_hopeless(self, place: Place) -> bool:
        """Drop who would be late in the batch that would start now; return whether another batch is to be chosen."""
        lost = False
        while self.world.dropping and place.queue:
            size = min(place.batch, len(place.queue))
            foreseen_ms = self.world.env.now + place.promised_ms[size] - place.queue[0].arrived_ms
            if foreseen_ms <= place.slo_ms + 0.5 * ROUNDING_MS:
                break
            self.world.drop(place, place.queue.pop(0))
            lost = True
        return lost

    def run(self, place: Place) -> Steps:
        env = self.world.env
        boarded, place.queue = place.queue[: place.batch], place.queue[place.batch :]
        size = len(boarded)
        batch = Batch(Resident(place.model, size, self.units), place.planned_ms[size], self)
        left = 1.0
        self.gpu.enter(batch)
        while left > 0.0:
            since_ms, whole_ms = env.now, self.gpu.pace_ms(batch)
            try:
                yield env.timeout(left * whole_ms)
                left = 0.0
            except simpy.Interrupt:
                left -= (env.now - since_ms) / whole_ms
        self.gpu.leave(batch)
        done_ms = env.now + place.tail_ms[size] + place.delay_ms[size]
        for request in boarded:
            self.world.serve(place, request, done_ms)
        yield env.timeout(place.tail_ms[size])


class Gpu:
    """Batches that slow each other: while they overlap, or always as planned."""

    def __init__(self, beside_ms: Callable[[Resident, Sequence[Resident]], float] | None) -> None:
        self.beside_ms = beside_ms
        self.running: list[Batch] = []

    def pace_ms(self, own: Batch) -> float:
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


# --- All of them ---


@dataclass
class Journey:
    """A request of an application on its way."""

    arrived_ms: float
    missing: dict[str, int]
    ready_ms: dict[str, float]
    stages_left: int
    done_ms: float = 0.0
    lost: bool = False


class World:
    """A plan and its requests.

    ``latencies_ms`` of each workload and application by number of the request: infinite if it was dropped, absent if it
    is not done.
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
        shown = [self._shown(gpu_type, gpulet) for gpulet in placed.gpulets]
        gpu = Gpu(
            (lambda own, others: beside_ms(gpu_type, own, [demand(gpu_type, other) for other in others]))
            if self.dynamic
            else None
        )
        for own, gpulet in enumerate(placed.gpulets):
            others = shown[:own] + shown[own + 1 :]
            places = [self._place(gpu_type, gpulet, slot, others) for slot in gpulet.slots]
            server = Server(self, gpu, gpulet.share_units, places)
            for place in places:
                self.slots[place.workload].append((server, place))

    def _shown(self, gpu_type: GpuType, gpulet: Gpulet) -> Demand:
        """The componentwise largest demand of the slots."""
        demand, _ = MODELS[self.instance.performance_model]
        each = [demand(gpu_type, Resident(self._model(s), s.batch, gpulet.share_units)) for s in gpulet.slots]
        l2, dram, power = (max(values) for values in zip(*each, strict=True))
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
        """Serve the requests of each workload, or application, and return ``latencies_ms``."""
        for name, times_ms in arrivals_ms.items():
            for number, at_ms in enumerate(times_ms):
                self._at(at_ms, lambda name=name, number=number, at_ms=at_ms: self._enter(name, number, at_ms))
        self.env.run(until_ms)
        return self.latencies_ms

    def _at(self, at_ms: float, what: Callable[[], None]) -> None:
        event = self.env.timeout(at_ms - self.env.now)
        assert event.callbacks is not None
        event.callbacks.append(lambda _: what())

    def _enter(self, name: str, number: int, at_ms: float) -> None:
        if name not in self.journeys:
            self._send(name, Request(number, at_ms))
            return
        one = next(one for one in self.instance.applications if one.id == name)
        missing = {stage: sum(after == stage for _, after in one.edges) for stage in one.stages}
        self.journeys[name][number] = Journey(at_ms, missing, dict.fromkeys(one.stages, 0.0), len(one.stages))
        for stage in one.stages:
            if missing[stage] == 0:
                self._send(stage, Request(number, at_ms))

    def _send(self, workload: str, request: Request) -> None:
        """Send to the slot that is furthest behind what part of the requests it should have had."""
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
            one = self.application[workload]
            self.journeys[one.id][request.number].lost = True
            self.latencies_ms[one.id][request.number] = inf

    def serve(self, place: Place, request: Request, done_ms: float) -> None:
        self.latencies_ms[place.workload][request.number] = done_ms - request.arrived_ms
        if place.workload in self.application:
            self._go_on(self.application[place.workload], place.workload, request.number, done_ms)

    def _go_on(self, one: Application, stage: str, number: int, done_ms: float) -> None:
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
