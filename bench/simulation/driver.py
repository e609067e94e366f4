"""Driver of a simulation: it feeds windows of arrivals to the event loop and collects the measurements."""

import math
import time
from collections.abc import Generator, Mapping, Sequence

import numpy as np

from bench.simulation.applications import NONE, flow_of, none_underway, stage_dropped, with_rows
from bench.simulation.arrivals import Stream
from bench.simulation.exchange import end_batches, queued_arrivals_ms, take_over
from bench.simulation.gpu_group import GpuGroup, measured_intervals
from bench.simulation.layout import Site, sites
from bench.simulation.load import overloads, server_loads, warmup_s
from bench.simulation.measured import Measured, nothing_measured
from bench.simulation.result import RequestCounts, Series, Served, Simulated, served
from bench.simulation.routing import TURNS, Routing, routing_of, spread
from bench.simulation.serving_rules import offered_rps
from bench.simulation.settings import Interference, KernelSettings, Settings, drain_s
from instances import Application, Instance, Partition, Plan, Workload
from instances.arrays import Floats, Ints

REQUESTS_AT_ONCE = 200_000
"""Approximate number of requests in memory at a time."""

_NO_REQUESTS: tuple[Floats, Ints] = np.empty(0), np.empty(0, dtype=np.int64)
"""No requests: empty arrays of arrival times, and of numbers of the requests within their application."""


class Simulation:
    """Simulation of a plan, or of several plans in succession.

    Parameters
    ----------
    plan, instance, settings, truth
        See ``bench.plan_simulation.simulate``.
    streams
        Requests by workload or application, in place of those that ``settings`` define.

    Attributes
    ----------
    groups
        GPUs of the active plan, by type.
    now_ms
        Simulated time; all events up to it are processed.
    arrived
        Number of measured requests that have arrived, by workload.
    measured
        Measurements by workload, complete up to the last ``tally``.
    servers
        Loads of the servers of the first plan.
    """

    def __init__(
        self,
        plan: Plan,
        instance: Instance,
        settings: Settings,
        truth: Instance,
        streams: Mapping[str, Stream] | None = None,
    ) -> None:
        self.plan, self.instance, self.settings, self.truth = plan, instance, settings, truth
        self.started = time.perf_counter()
        shares = instance.partition is Partition.SHARES
        self.offered = offered_rps(plan, instance)
        plan_sites = sites(plan, instance, truth)
        self.servers = server_loads(plan_sites, instance, settings, self.offered)
        from_ms = 1000.0 * warmup_s(self.servers, instance, settings)
        self.kernel_settings = KernelSettings(
            from_ms,
            from_ms + 1000.0 * settings.seconds,
            settings.interference is Interference.DYNAMIC and shares,
            settings.drops(instance),
            settings.noise,
            settings.seed,
            1000.0 * (settings.interval_s or settings.seconds),
        )
        self.groups, self.routing = self._gpus_and_routing(plan_sites)
        if settings.backlog:
            for group in self.groups:
                group.begin_with_backlog()
        self.measured = nothing_measured(len(instance.workloads), settings.intervals)
        self.flow = flow_of(instance)
        self.underway = none_underway(self.flow)
        self.streams = self._streams() if streams is None else streams
        total_rps = math.fsum(self.offered.values())
        self.window_ms = 1000.0 * REQUESTS_AT_ONCE / total_rps if total_rps > 0.0 else math.inf
        self.now_ms = 0.0
        self.arrived = np.zeros(len(instance.workloads), dtype=np.int64)
        self.applications_arrived = np.zeros(len(instance.applications), dtype=np.int64)
        # Number of requests drawn so far, by application
        self.drawn = np.zeros(len(instance.applications), dtype=np.int64)

    def _gpus_and_routing(self, plan_sites: Sequence[Site]) -> tuple[list[GpuGroup], Routing]:
        """Return the GPUs of a plan, without batches, and the routing of requests to the slots of the plan."""
        groups = [GpuGroup(site, self.settings.intervals) for site in plan_sites]
        slots = [group.site.slots for group in groups]
        routing = routing_of(
            len(self.instance.workloads),
            np.concatenate([np.empty(0, np.int64), *(records["workload"] for records in slots)]),
            np.concatenate([np.empty(0), *(records["rate_rps"] for records in slots)]),
            self.settings.seed if self.instance.random_routing else TURNS,
        )
        return groups, routing

    def _streams(self) -> dict[str, Stream]:
        """Return one stream per workload outside applications, and one stream per application."""
        settings = self.settings
        rates = {
            workload.id: self.offered[workload.id]
            for position, workload in enumerate(self.instance.workloads)
            if self.flow.application[position] == NONE
        } | {app.id: self.offered[app.stages[0]] for app in self.instance.applications}
        return {
            name: Stream(settings.arrivals, rate, settings.seed, name) for name, rate in rates.items() if rate > 0.0
        }

    def run(self) -> Generator[float, None, Simulated]:
        """Simulate to the end; yield the finished fraction after every window of arrivals."""
        while self.now_ms < self.kernel_settings.to_ms:
            self.advance(min(self.now_ms + self.window_ms, self.kernel_settings.to_ms))
            yield self.now_ms / self.kernel_settings.to_ms
        self.drain()
        return self.result()

    def advance(self, until_ms: float) -> None:
        """Draw requests and process all events up to ``until_ms``."""
        while self.now_ms < until_ms:
            self.now_ms = min(self.now_ms + self.window_ms, until_ms)
            self._draw_requests(self.now_ms)
            for group in self.groups:
                group.advance(self.kernel_settings, self.routing, self.flow, self.underway, self.now_ms)

    def drain(self) -> None:
        """Continue until all measured requests are served, for at most ``drain_s``."""
        window_ms = min(self.window_ms, 2.0 * max((w.slo_ms for w in self.instance.workloads), default=0.0))
        end_ms = self.kernel_settings.to_ms + 1000.0 * drain_s(self.instance)
        while self._has_unfinished_measured_requests() and self.now_ms < end_ms:
            self.advance(min(self.now_ms + window_ms, end_ms))

    def exchange(self, plan: Plan) -> None:
        """Switch to another plan on the same GPUs, by position; not for instances with applications.

        Gpulets with the same share, batches and workloads on the same GPU are the same processes and continue. Other
        in-flight batches end on the old plan and slow only each other. Waiting requests move to the slots of the new
        plan.
        """
        queued_ms = queued_arrivals_ms(self.groups, len(self.instance.workloads))
        old_plan, old_groups = self.plan, self.groups
        self.plan = plan
        self.groups, self.routing = self._gpus_and_routing(sites(plan, self.instance, self.truth))
        take_over(old_plan, old_groups, plan, self.groups, self.instance, self.now_ms)
        for group in old_groups:
            end_batches(group, self.kernel_settings, self.routing, self.flow, self.underway)
            group.move_measured(self.measured)
        new_requests = self._no_requests()
        no_numbers = np.empty(0, dtype=np.int64)
        for workload, times_ms in enumerate(queued_ms):
            self._send(workload, times_ms, no_numbers, new_requests)
        self._refill(new_requests)

    def tally(self) -> None:
        """Add the counts of all GPUs to ``measured``."""
        for group in self.groups:
            group.move_measured(self.measured)

    def _has_unfinished_measured_requests(self) -> bool:
        unfinished = self.underway.stages_left > 0
        return bool(np.any(self.underway.arrived_ms[unfinished] < self.kernel_settings.to_ms)) or any(
            bool(np.any(group.arrivals_ms[group.unfinished(slot)] < self.kernel_settings.to_ms))
            for group in self.groups
            for slot in range(len(group.queues))
        )

    def _draw_requests(self, until_ms: float) -> None:
        """Draw the requests up to ``until_ms`` and append each to the queue of its slot."""
        new_requests = self._no_requests()
        application_requests = self._draw_applications(until_ms)
        for position, workload in enumerate(self.instance.workloads):
            application = int(self.flow.application[position])
            if application != NONE:
                is_first_stage = self.flow.before[position] == 0
                times_ms, request = application_requests[application] if is_first_stage else _NO_REQUESTS
            elif workload.id in self.streams:
                times_ms = self.streams[workload.id].until(until_ms)
                # An instance without applications needs no numbers of the requests.
                request = np.full(len(times_ms) if self.instance.applications else 0, NONE, dtype=np.int64)
            else:
                continue
            self.arrived[position] += self._measured_count(times_ms)
            self._send(position, times_ms, request, new_requests)
        self._refill(new_requests)

    def _no_requests(self) -> list[tuple[Floats, Ints]]:
        """Return ``_NO_REQUESTS`` for each slot."""
        return [_NO_REQUESTS] * len(self.routing.slot)

    def _send(self, workload: int, times_ms: Floats, request: Ints, new_requests: list[tuple[Floats, Ints]]) -> None:
        """Send requests of a workload to its slots; drop them if the workload has no slot."""
        slots = self.routing.slot[self.routing.first[workload] : self.routing.first[workload + 1]]
        if len(slots) == 0:
            self._drop_requests(workload, times_ms, request)
        elif len(slots) == 1:
            new_requests[slots[0]] = times_ms, request
        else:
            target = np.empty(len(times_ms), dtype=np.int64)
            spread(self.routing, workload, target)
            for slot in slots:
                to_slot = target == slot
                new_requests[slot] = times_ms[to_slot], request[to_slot[: len(request)]]

    def _drop_requests(self, workload: int, times_ms: Floats, request: Ints) -> None:
        """Count requests of a workload without a slot as arrived and dropped."""
        if self.flow.application[workload] != NONE:
            for number in request:
                stage_dropped(self.flow, self.underway, workload, number, self.kernel_settings)
        intervals = self.settings.intervals
        interval = measured_intervals(times_ms, self.kernel_settings, intervals)
        for outcome in ("arrived", "dropped"):
            self.measured.counts[outcome][workload] += len(interval)
            if intervals:
                np.add.at(self.measured.by_interval[outcome][:, workload], interval, 1)

    def _measured_count(self, times_ms: Floats) -> int:
        """Return the number of measured requests among those that arrive at ``times_ms``, which ascend."""
        from_ms, to_ms = self.kernel_settings.from_ms, self.kernel_settings.to_ms
        return int(np.searchsorted(times_ms, to_ms) - np.searchsorted(times_ms, from_ms))

    def _refill(self, new_requests: Sequence[tuple[Floats, Ints]]) -> None:
        """Join the unfinished and the new requests of each slot, and leave room for requests from earlier stages."""
        for group in self.groups:
            pieces_ms, pieces_request = [np.empty(0)], [np.empty(0, dtype=np.int64)]
            start = 0
            for slot, workload in enumerate(group.site.slots["workload"]):
                unfinished, (times_ms, request) = group.unfinished(slot), new_requests[group.first + slot]
                room = self.underway.arrived_ms.shape[1] if self.flow.before[workload] > 0 else 0
                pieces_ms += [group.arrivals_ms[unfinished], times_ms, np.empty(room)]
                pieces_request += [group.request[unfinished], request, np.empty(room, dtype=np.int64)]
                end = start + unfinished.stop - unfinished.start + len(times_ms)
                group.queues["head"][slot], group.queues["known"][slot] = start, end
                start = end + room
            group.arrivals_ms, group.request = np.concatenate(pieces_ms), np.concatenate(pieces_request)

    def _draw_applications(self, until_ms: float) -> list[tuple[Floats, Ints]]:
        """Draw the new requests of applications, and make rows for the new and the unfinished requests."""
        oldest, drawn_before, new_requests = self.drawn.copy(), self.drawn.copy(), []
        for group in self.groups:
            for slot, application in enumerate(group.site.slots["application"]):
                unfinished = group.request[group.unfinished(slot)]
                if application != NONE and len(unfinished):
                    oldest[application] = min(oldest[application], unfinished.min())
        for position, application in enumerate(self.instance.applications):
            times_ms = self.streams[application.id].until(until_ms) if application.id in self.streams else np.empty(0)
            self.applications_arrived[position] += self._measured_count(times_ms)
            new_requests.append((times_ms, self.drawn[position] + np.arange(len(times_ms), dtype=np.int64)))
            self.drawn[position] += len(times_ms)
        if new_requests:
            self.underway = with_rows(
                self.underway, self.flow, oldest, drawn_before, [times_ms for times_ms, _ in new_requests]
            )
        return new_requests

    def result(self) -> Simulated:
        """End the simulation, and return its result."""
        for group in self.groups:
            group.count_unfinished(self.kernel_settings)
        self.tally()
        workloads = tuple(self._of_workload(position) for position in range(len(self.instance.workloads)))
        applications = tuple(
            self._served(
                application,
                self.offered[application.stages[0]],
                int(self.applications_arrived[position]),
                self.underway.measured,
                position,
            )
            for position, application in enumerate(self.instance.applications)
        )
        return Simulated(
            workloads,
            applications,
            self.settings.seconds,
            time.perf_counter() - self.started,
            self._series(),
            tuple(overloads(self.servers, self.instance, self.settings)),
        )

    def _of_workload(self, position: int) -> Served:
        workload, counts = self.instance.workloads[position], self.measured.counts[position]
        sums = float(counts["latency_ms"]), float(counts["waiting_ms"])
        arrived = int(counts["arrived"])
        return self._served(workload, self.offered[workload.id], arrived, self.measured, position, *sums)

    def _served(
        self,
        item: Workload | Application,
        offered_rps: float,
        arrived: int,
        measured: Measured,
        row: int,
        latency_sum_ms: float | None = None,
        waiting_sum_ms: float | None = None,
    ) -> Served:
        """Return the results of a workload or an application from row ``row`` of its measurements."""
        counts = measured.counts[row]
        return served(
            item.id,
            item.slo_ms,
            offered_rps,
            self.settings.seconds,
            RequestCounts(arrived, int(counts["served"]), int(counts["late"]), int(counts["dropped"])),
            measured.histogram[row],
            float(counts["largest_ms"]),
            latency_sum_ms,
            waiting_sum_ms,
            self.instance.may_miss,
        )

    def _series(self) -> Series | None:
        if self.settings.interval_s is None:
            return None
        ids = tuple(workload.id for workload in self.instance.workloads)
        counts = self.measured.by_interval
        in_time = counts["served"] - counts["late"]
        return Series(ids, self.settings.interval_s, counts["arrived"], in_time, counts["late"], counts["dropped"])
