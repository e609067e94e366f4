"""The course of a simulation: windows of arrivals go in, the event loop goes on, what was measured comes out."""

import math
import time
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.simulation.applications import NONE, flow_of, nobody_underway, with_rows
from bench.simulation.arrivals import Stream
from bench.simulation.engine import advance
from bench.simulation.histogram import BINS
from bench.simulation.layout import Records, Site, sites
from bench.simulation.offered import offered_rps
from bench.simulation.result import Outcome, Series, Served, Simulated, served
from bench.simulation.routing import routing_of, spread
from bench.simulation.settings import Interference, Settings
from bench.simulation.state import BY_SECOND, COUNTS, QUEUE, Measured, Terms, idle, nothing_measured
from instances import Application, Instance, Partition, Plan
from instances.tables import Tables, gpu_tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

REQUESTS_AT_ONCE = 200_000
"""Requests in memory at a time, about."""

LONGEST_DRAIN_S = 60.0
"""How long after the last measured arrival the simulation goes on; who is not served by then counts as unfinished."""


@dataclass(slots=True)
class _Part:
    """The GPUs of one type while they are simulated; its slots begin at ``first`` among those of all types."""

    site: Site
    tables: Tables
    first: int
    arrivals_ms: Floats
    request: Ints
    queues: Records
    state: Records
    measured: Measured

    def waiting(self, slot: int) -> slice:
        """Where the requests of a slot that are not done lie."""
        return slice(int(self.queues["head"][slot]), int(self.queues["known"][slot]))


class Simulation:
    """One plan, simulated once.

    Parameters
    ----------
    plan, instance, settings, true_tables
        See ``bench.simulate.simulate``.
    """

    def __init__(
        self, plan: Plan, instance: Instance, settings: Settings, true_tables: Mapping[str, Tables] | None
    ) -> None:
        self.instance, self.settings = instance, settings
        self.started = time.perf_counter()
        shares = instance.partition is Partition.SHARES
        if true_tables is None and shares:
            true_tables = {p.type.name: gpu_tables(p.type, instance.performance_model) for p in instance.gpus}
        self.terms = Terms(
            1000.0 * settings.warmup_s,
            1000.0 * (settings.warmup_s + settings.seconds),
            settings.interference is Interference.DYNAMIC and shares,
            settings.dropping,
            settings.noise,
            settings.seed,
        )
        self.parts: list[_Part] = []
        for site in sites(plan, instance, true_tables or {}):
            self.parts.append(self._part(site))
        slots = [part.site.slots for part in self.parts]
        self.routing = routing_of(
            len(instance.workloads),
            np.concatenate([np.empty(0, np.int64), *(records["workload"] for records in slots)]),
            np.concatenate([np.empty(0), *(records["rate_rps"] for records in slots)]),
        )
        self.flow = flow_of(instance)
        self.underway = nobody_underway(self.flow)
        self.offered = offered_rps(plan, instance)
        self.streams = self._streams()
        self.came = np.zeros(len(instance.workloads), dtype=np.int64)
        self.applications_came = np.zeros(len(instance.applications), dtype=np.int64)
        self.drawn = np.zeros(len(instance.applications), dtype=np.int64)

    def _part(self, site: Site) -> _Part:
        slots = len(site.slots)
        first = self.parts[-1].first + len(self.parts[-1].site.slots) if self.parts else 0
        seconds = math.ceil(self.settings.seconds) if self.settings.by_second else 0
        nobody, queues = np.empty(0), np.zeros(slots, dtype=QUEUE)
        tables = site.tables if site.tables is not None else _NO_TABLES
        measured = nothing_measured(slots, seconds)
        return _Part(site, tables, first, nobody, np.empty(0, np.int64), queues, idle(site), measured)

    def _streams(self) -> dict[str, Stream]:
        """One stream for each workload outside applications, and one for each application."""
        settings = self.settings
        rates = {
            workload.id: self.offered[workload.id]
            for w, workload in enumerate(self.instance.workloads)
            if self.flow.application[w] == NONE
        } | {one.id: self._offered_to(one) for one in self.instance.applications}
        return {
            name: Stream(settings.arrivals, rate, settings.seed, name) for name, rate in rates.items() if rate > 0.0
        }

    def _offered_to(self, application: Application) -> float:
        return min(self.offered[stage] for stage in application.stages)

    def run(self) -> Generator[None, None, Simulated]:
        """Simulate to the end, pausing after every window of arrivals."""
        total_rps = math.fsum(self.offered.values())
        longest_slo_ms = max((w.slo_ms for w in self.instance.workloads), default=0.0)
        window_ms = 1000.0 * REQUESTS_AT_ONCE / total_rps if total_rps > 0.0 else math.inf
        until_ms, end_ms = 0.0, self.terms.to_ms
        while until_ms < end_ms or (self._measured_wait() and until_ms < end_ms + 1000.0 * LONGEST_DRAIN_S):
            if until_ms < end_ms:
                until_ms = min(until_ms + window_ms, end_ms)
            else:
                until_ms += min(window_ms, 2.0 * longest_slo_ms)
            self._let_in(until_ms)
            for part in self.parts:
                advance(
                    part.tables,
                    part.site.executors,
                    part.site.slots,
                    part.site.times,
                    self.terms,
                    part.arrivals_ms,
                    part.request,
                    part.queues,
                    part.state,
                    *part.measured,
                    self.routing,
                    self.flow,
                    self.underway,
                    np.empty((len(part.state), 3)),
                    until_ms,
                )
            yield
        return self._found()

    def _measured_wait(self) -> bool:
        return any(
            bool(np.any(part.arrivals_ms[part.waiting(slot)] < self.terms.to_ms))
            for part in self.parts
            for slot in range(len(part.queues))
        )

    def _let_in(self, until_ms: float) -> None:
        """Draw the requests up to ``until_ms`` and put each behind those that wait for the same slot."""
        nobody = np.empty(0), np.empty(0, dtype=np.int64)
        new = [nobody] * len(self.routing.slot)
        of_applications = self._draw_applications(until_ms)
        for w, workload in enumerate(self.instance.workloads):
            application = int(self.flow.application[w])
            if application != NONE:
                times_ms, request = of_applications[application] if self.flow.before[w] == 0 else nobody
            elif workload.id in self.streams:
                times_ms = self.streams[workload.id].until(until_ms)
                request = np.full(len(times_ms) if self.instance.applications else 0, NONE, dtype=np.int64)
            else:
                continue
            self.came[w] += self._measured(times_ms)
            mine = self.routing.slot[self.routing.first[w] : self.routing.first[w + 1]]
            if len(mine) == 1:
                new[mine[0]] = times_ms, request
            elif len(mine) > 1:
                target = np.empty(len(times_ms), dtype=np.int64)
                spread(self.routing, w, target)
                for slot in mine:
                    to_slot = target == slot
                    new[slot] = times_ms[to_slot], request[to_slot[: len(request)]]
        for part in self.parts:
            self._refill(part, new)

    def _measured(self, times_ms: Floats) -> int:
        return int(np.searchsorted(times_ms, self.terms.to_ms) - np.searchsorted(times_ms, self.terms.from_ms))

    def _refill(self, part: _Part, new: Sequence[tuple[Floats, Ints]]) -> None:
        """Lay the requests that wait and the new ones side by side, with room for those of later stages."""
        pieces_ms, pieces_request = [np.empty(0)], [np.empty(0, dtype=np.int64)]
        at = 0
        for slot, w in enumerate(part.site.slots["workload"]):
            waiting, (times_ms, request) = part.waiting(slot), new[part.first + slot]
            room = self.underway.arrived_ms.shape[1] if self.flow.before[w] > 0 else 0
            pieces_ms += [part.arrivals_ms[waiting], times_ms, np.empty(room)]
            pieces_request += [part.request[waiting], request, np.empty(room, dtype=np.int64)]
            known = at + waiting.stop - waiting.start + len(times_ms)
            part.queues["head"][slot], part.queues["known"][slot] = at, known
            at = known + room
        part.arrivals_ms, part.request = np.concatenate(pieces_ms), np.concatenate(pieces_request)

    def _draw_applications(self, until_ms: float) -> list[tuple[Floats, Ints]]:
        """Draw the requests of applications, and keep rows for them and for those underway."""
        oldest, before, found = self.drawn.copy(), self.drawn.copy(), []
        for part in self.parts:
            for slot, application in enumerate(part.site.slots["application"]):
                waiting = part.request[part.waiting(slot)]
                if application != NONE and len(waiting):
                    oldest[application] = min(oldest[application], waiting.min())
        for one, application in enumerate(self.instance.applications):
            times_ms = self.streams[application.id].until(until_ms) if application.id in self.streams else np.empty(0)
            self.applications_came[one] += self._measured(times_ms)
            found.append((times_ms, self.drawn[one] + np.arange(len(times_ms), dtype=np.int64)))
            self.drawn[one] += len(times_ms)
        if found:
            self.underway = with_rows(self.underway, self.flow, oldest, before, [times_ms for times_ms, _ in found])
        return found

    def _found(self) -> Simulated:
        seconds = self.settings.seconds
        workloads = tuple(self._of_workload(w) for w in range(len(self.instance.workloads)))
        applications = tuple(
            served(
                one.id,
                one.slo_ms,
                self._offered_to(one),
                seconds,
                Outcome(*(int(n[a]) for n in (self.applications_came, *self.underway[-4:-1]))),
                self.underway.histogram[a],
                float(self.underway.largest_ms[a]),
            )
            for a, one in enumerate(self.instance.applications)
        )
        return Simulated(workloads, applications, seconds, time.perf_counter() - self.started, self._series())

    def _of_workload(self, w: int) -> Served:
        workload = self.instance.workloads[w]
        counts, histogram = np.zeros(0, dtype=COUNTS), np.zeros(BINS, dtype=np.int64)
        for part in self.parts:
            mine = part.site.slots["workload"] == w
            counts = np.concatenate([counts, part.measured.counts[mine]])
            histogram += part.measured.histogram[mine].sum(axis=0)
        came = int(self.came[w])
        if self.flow.before[w] > 0:
            came = int(counts["arrived"].sum())  # those lost at an earlier stage never came here
        # Nobody serves a workload without slots
        dropped = int(counts["dropped"].sum()) if len(counts) else came
        return served(
            workload.id,
            workload.slo_ms,
            self.offered[workload.id],
            self.settings.seconds,
            Outcome(came, int(counts["served"].sum()), int(counts["late"].sum()), dropped),
            histogram,
            float(counts["largest_ms"].max(initial=0.0)),
            math.fsum(counts["latency_ms"]),
            math.fsum(counts["waiting_ms"]),
        )

    def _series(self) -> Series | None:
        if not self.settings.by_second:
            return None
        ids = tuple(workload.id for workload in self.instance.workloads)
        total = {
            name: np.zeros((math.ceil(self.settings.seconds), len(ids)), dtype=np.int64)
            for name in BY_SECOND.names or ()
        }
        for part in self.parts:
            for slot, w in enumerate(part.site.slots["workload"]):
                for name, sums in total.items():
                    sums[:, w] += part.measured.by_second[name][:, slot]
        return Series(ids, total["arrived"], total["served"] - total["late"], total["late"], total["dropped"])


def _no_tables() -> Tables:
    """Tables of no model at all, for GPUs on which nothing disturbs anything."""
    cube, square, row = np.zeros((0, 1, 1)), np.zeros((0, 1)), np.zeros(0)
    whole = np.zeros(0, dtype=np.int64)
    return Tables(
        active_ms=cube,
        l2_pct=cube,
        dram_pct=cube,
        power_w=cube,
        company=cube,
        transfer_ms=square,
        exposed_ms=square,
        memory_mib=square,
        scheduling_ms=row,
        kernels=row,
        alpha_l2=row,
        alpha_dram=row,
        max_batch=whole,
        next_share=whole,
        permitted=whole,
        share_units=0,
        memory_limit_mib=0.0,
        alpha_sch=0.0,
        beta_sch=0.0,
        idle_power_w=0.0,
        max_power_w=0.0,
        throttle_per_w=0.0,
        pairwise=False,
        falling=False,
        most_residents=0,
    )


_NO_TABLES = _no_tables()
