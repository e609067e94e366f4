"""Simulation of language-model services: every request is prefilled and then decoded, on gpulets of their own.

Requests queue for prefill, which produces the first token. The token is delivered when the request takes its place in a
decoding batch. The time to first token ends there; the time per output token is the mean step from then on. The results
of ``x/prefill`` are times to first token, those of ``x/decode`` times per output token. No performance model has
interference between services, so slots are independent of each other.
"""

import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from bench.simulation.arrivals import Stream
from bench.simulation.decoding import Noise, decode, prefill
from bench.simulation.histogram import counts_of
from bench.simulation.layout import sites
from bench.simulation.load import overloads, server_loads, warmup_s
from bench.simulation.result import RequestCounts, Series, Served, Simulated, served
from bench.simulation.routing import TURNS, routing_of, spread
from bench.simulation.serving_rules import ROUNDING_MS, offered_rps
from bench.simulation.settings import Settings, drain_s
from instances import InputError, Instance, Plan, Workload
from instances.arrays import Flags, Floats

MOST_REQUESTS = 10_000_000
"""Largest number of requests of a service: all of them are in memory."""


@dataclass(frozen=True, slots=True)
class _Slot:
    """A slot of a plan: its ``SLOT`` record, its noise, and times by batch size."""

    record: np.void
    noise: Noise
    gpu_ms: Floats
    promised_ms: Floats


@dataclass(frozen=True, slots=True)
class _Requests:
    """Requests of one workload: arrivals at the service, latencies (NaN: dropped), waiting times, and ends."""

    arrived_ms: Floats
    latency_ms: Floats
    waiting_ms: Floats
    ended_ms: Floats


class ServiceSimulation:
    """Simulation of a plan for language-model services, with the parameters of ``bench.plan_simulation.simulate``."""

    def __init__(self, plan: Plan, instance: Instance, settings: Settings, truth: Instance) -> None:
        self.instance, self.settings = instance, settings
        plan_sites = sites(plan, instance, truth)
        self.offered = offered_rps(plan, instance)
        self.servers = server_loads(plan_sites, instance, settings, self.offered)
        self.from_ms = 1000.0 * warmup_s(self.servers, instance, settings)
        self.to_ms = self.from_ms + 1000.0 * settings.seconds
        if (requests := max(self.offered.values()) * self.to_ms / 1000.0) > MOST_REQUESTS:
            problem = f"{requests:,.0f} requests of one service would arrive; at most {MOST_REQUESTS:,} are simulated"
            raise InputError("simulation", f"{problem}; ask for fewer seconds")
        self.slots: list[list[_Slot]] = [[] for _ in instance.workloads]
        for site in plan_sites:
            for row, times in zip(site.slots, site.times, strict=True):
                slot_times = times[: int(row["batch"]) + 1]
                noise = Noise(settings.noise, settings.seed, int(row["number"]))
                gpu_ms = slot_times["gpu_ms"] + slot_times["tail_ms"]
                slot = _Slot(row, noise, gpu_ms, np.ascontiguousarray(slot_times["promised_ms"]))
                self.slots[int(row["workload"])].append(slot)

    def run(self) -> Generator[float, None, Simulated]:
        """Simulate to the end; yield the finished fraction after every service."""
        started = time.perf_counter()
        requests_of: dict[int, _Requests] = {}
        services = self.instance.services
        for number, service in enumerate(services):
            positions = [
                position for position, workload in enumerate(self.instance.workloads) if workload.service == service
            ]
            requests_of |= self._service(positions)
            yield (number + 1) / len(services)
        requests = [requests_of[position] for position in range(len(requests_of))]
        results = tuple(
            self._of_workload(position, workload_requests) for position, workload_requests in enumerate(requests)
        )
        series = self._series(requests) if self.settings.interval_s is not None else None
        wall_s = time.perf_counter() - started
        overloaded = tuple(overloads(self.servers, self.instance, self.settings))
        return Simulated(results, (), self.settings.seconds, wall_s, series, overloaded)

    def _service(self, positions: Sequence[int]) -> dict[int, _Requests]:
        """Serve the requests of one service: by its prefill workload if it has one, then by its decode workload."""
        prefills = [position for position in positions if not self._workload(position).steps]
        first = self._workload(positions[0])
        rate_rps = self.offered[first.id]
        # Requests arrive until the measured requests can be decoded, so that the last steps also have full batches.
        last_ms = self.to_ms + 2.0 * sum(
            workload.slo_ms * max(1, workload.steps) for workload in map(self._workload, positions)
        )
        arrived_ms = np.empty(0)
        if rate_rps > 0.0:
            arrived_ms = Stream(self.settings.arrivals, rate_rps, self.settings.seed, first.id).until(last_ms)
        requests_of, ready_ms = {}, arrived_ms
        for position in prefills:
            ready_ms = self._prefilled(position, arrived_ms)
            requests_of[position] = _Requests(arrived_ms, ready_ms - arrived_ms, np.zeros(len(arrived_ms)), ready_ms)
        for position in positions:
            if position not in prefills:
                joined_ms, finished_ms = self._decoded(position, ready_ms)
                tpot_ms = (finished_ms - joined_ms) / self._workload(position).steps
                was_prefilled = np.isfinite(ready_ms)
                requests_of[position] = _Requests(
                    arrived_ms[was_prefilled],
                    tpot_ms[was_prefilled],
                    (joined_ms - ready_ms)[was_prefilled],
                    finished_ms[was_prefilled],
                )
                # The first token is delivered when the request takes its place in a decoding batch.
                for prefill_position in prefills:
                    requests_of[prefill_position] = _Requests(
                        arrived_ms, joined_ms - arrived_ms, joined_ms - arrived_ms, joined_ms
                    )
        return requests_of

    def _workload(self, position: int) -> Workload:
        return self.instance.workloads[position]

    def _prefilled(self, position: int, arrived_ms: Floats) -> Floats:
        """Return the end of each request's prefill; NaN if it was dropped."""
        done_ms = np.full(len(arrived_ms), np.nan)
        for slot, on_slot in self._slots_with_requests(position, len(arrived_ms)):
            slo_ms, timeout_ms = slot.record["slo_ms"], slot.record["timeout_ms"]
            dropping, begin_ms = self.settings.drops(self.instance), self._begin_ms(position)
            done_ms[on_slot] = prefill(
                arrived_ms[on_slot], slot.gpu_ms, slot.promised_ms, slo_ms, timeout_ms, begin_ms, dropping, slot.noise
            )
        return done_ms

    def _decoded(self, position: int, ready_ms: Floats) -> tuple[Floats, Floats]:
        """Return the times at which each request joins a batch and has all tokens; NaN if it was dropped before."""
        joined_ms, finished_ms = np.full(len(ready_ms), np.nan), np.full(len(ready_ms), np.nan)
        order = np.argsort(ready_ms, kind="stable")[: int(np.isfinite(ready_ms).sum())]
        for slot, on_slot in self._slots_with_requests(position, len(order)):
            requests = order[on_slot]
            steps = self._workload(position).steps
            joined_ms[requests], finished_ms[requests] = decode(
                ready_ms[requests], steps, slot.gpu_ms, self._begin_ms(position), slot.noise
            )
        return joined_ms, finished_ms

    def _begin_ms(self, position: int) -> float:
        """Return the time at which the slots of a workload begin to serve; see ``Settings.backlog``."""
        workload = self._workload(position)
        return workload.slo_ms * max(1, workload.steps) if self.settings.backlog else 0.0

    def _slots_with_requests(self, position: int, count: int) -> Iterator[tuple[_Slot, Flags]]:
        """Yield the slots of a workload with the requests that each gets, in proportion to the planned rates."""
        slots = self.slots[position]
        if not slots:
            return
        target = np.empty(count, dtype=np.int64)
        rates = np.array([slot.record["rate_rps"] for slot in slots])
        seed = self.settings.seed if self.instance.random_routing else TURNS
        routing = routing_of(len(self.slots), np.full(len(slots), position, dtype=np.int64), rates, seed)
        spread(routing, position, target)
        for number, slot in enumerate(slots):
            yield slot, target == number

    def _outcomes(self, position: int, requests: _Requests) -> tuple[Flags, Flags, Flags, Flags]:
        """Mark the measured requests, and those of them that were dropped, are unfinished, or were late."""
        measured = (self.from_ms <= requests.arrived_ms) & (requests.arrived_ms < self.to_ms)
        dropped = measured & np.isnan(requests.latency_ms)
        unfinished = measured & (requests.ended_ms > self.to_ms + 1000.0 * drain_s(self.instance))
        late = measured & ~unfinished & (requests.latency_ms > self._slo_ms(position) + ROUNDING_MS)
        return measured, dropped, unfinished, late

    def _slo_ms(self, position: int) -> float:
        """Return the objective against which the results of a workload are counted."""
        workload = self._workload(position)
        return workload.slo_ms if workload.steps or workload.service is None else workload.service.ttft_ms

    def _of_workload(self, position: int, requests: _Requests) -> Served:
        measured, dropped, unfinished, late = self._outcomes(position, requests)
        done = measured & ~dropped & ~unfinished
        latency_ms = requests.latency_ms[done]
        counts = RequestCounts(int(measured.sum()), len(latency_ms), int(late.sum()), int(dropped.sum()))
        return served(
            self._workload(position).id,
            self._slo_ms(position),
            self.offered[self._workload(position).id],
            self.settings.seconds,
            counts,
            counts_of(latency_ms),
            float(latency_ms.max(initial=0.0)),
            float(latency_ms.sum()),
            float(requests.waiting_ms[done].sum()),
            self.instance.may_miss,
        )

    def _series(self, requests: Sequence[_Requests]) -> Series:
        """Return the outcomes by the interval of arrival at the service."""
        intervals, interval_s = self.settings.intervals, self.settings.interval_s or self.settings.seconds
        counts = np.zeros((4, intervals, len(requests)), dtype=np.int64)
        for position, workload_requests in enumerate(requests):
            measured, dropped, unfinished, late = self._outcomes(position, workload_requests)
            interval = np.minimum((workload_requests.arrived_ms - self.from_ms) // (1000.0 * interval_s), intervals - 1)
            in_time = measured & ~unfinished & ~dropped & ~late
            for row, outcome in enumerate((measured, in_time, late, dropped)):
                counts[row, :, position] = np.bincount(interval[outcome].astype(np.int64), minlength=intervals)
        return Series(tuple(workload.id for workload in self.instance.workloads), interval_s, *counts)
