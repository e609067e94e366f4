"""Loads of a plan's servers: overloaded servers, and the time after which the initial queues no longer matter.

A server (an executor, which runs one batch at a time) needs for each request the time of the fastest batch size,
divided by that size. Its *load* is the sum of these times over the requests of a second. Alone on its GPU, it needs the
*least load*; beside neighbours that run all the time, the *full load*. Under dynamic interference the true load lies in
between.

Above a least load of 1, a server that drops requests misses at least the fraction ``1 - 1 / load`` of them in the long
run. The queue of a server that drops no requests grows without limit, so in the long run all of its requests are
late. Unless the arrivals are regular, this is already so at a load of exactly 1.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.simulation.arrivals import Process
from bench.simulation.layout import Site
from bench.simulation.serving_rules import longest_request_s
from bench.simulation.settings import Interference, Settings
from bench.simulation.trace import MOST_SECONDS
from instances import Instance, Partition
from instances.arrays import Floats
from instances.compiled import kernel
from instances.interference import gpu_time_ms
from instances.tables import Tables

ROUNDING = 1e-9
"""Tolerance of loads, which are quotients of rounded numbers: many plans have a load of exactly 1."""

WARMUP_S, WARMUP_REQUESTS = 5.0, 5.0
"""Least time before the measurement, in seconds and in multiples of the longest request."""

WARMUP_RELAXATIONS = 5.0
"""Least time before the measurement in relaxation times of the queue of a server that drops no requests."""

LEAST_EXCESS = 0.02
"""Least excess of the load over 1 at which the warm-up lasts until the queue is full."""

MOST_RELAXATION = 1e5
"""Longest relaxation time that the warm-up covers, as a multiple of ``request_ms``; a load of 0.997 has it."""


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """Load of a server.

    Attributes
    ----------
    workloads
        Ids of the workloads that it serves.
    parts
        Fraction of each workload's requests that the server gets.
    slo_ms
        Its longest SLO.
    least_load, full_load
        Load alone on its GPU, and beside neighbours that run all the time.
    request_ms
        Time per request at full speed, alone.
    waits
        Whether its requests wait without a limit: no request is dropped, or requests are decoded.
    """

    workloads: tuple[str, ...]
    parts: Floats
    slo_ms: float
    least_load: float
    full_load: float
    request_ms: float
    waits: bool


@dataclass(frozen=True, slots=True)
class Overload:
    """A server whose least load is too large.

    Attributes
    ----------
    workloads
        Ids of the workloads that it serves.
    load
        Its least load.
    missed
        Least fraction of the requests of one of these workloads that is not served in time in the long run.
    """

    workloads: tuple[str, ...]
    load: float
    missed: float


def server_loads(
    plan_sites: Sequence[Site], instance: Instance, settings: Settings, offered: dict[str, float]
) -> list[ServerLoad]:
    """Return the loads of the servers of all sites; ``offered`` has the rate of the requests by workload."""
    planned_rps = np.full(len(instance.workloads), np.finfo(float).tiny)
    for site in plan_sites:
        np.add.at(planned_rps, site.slots["workload"], site.slots["rate_rps"])
    arriving_rps = np.array([offered[workload.id] for workload in instance.workloads])
    without_neighbours = settings.interference is Interference.DYNAMIC and instance.partition is Partition.SHARES
    loads = []
    for site in plan_sites:
        needed_ms = _needed_ms(site, without_neighbours)
        for executor in site.executors:
            slots = site.slots[executor["first_slot"] : executor["end_slot"]]
            workloads = [instance.workloads[w] for w in slots["workload"]]
            parts = slots["rate_rps"] / planned_rps[slots["workload"]]
            rates_rps = parts * arriving_rps[slots["workload"]]
            steps_rps = rates_rps * [max(1, workload.steps) for workload in workloads]
            request_ms = needed_ms[executor["first_slot"] : executor["end_slot"]]
            least, full = (steps_rps @ request_ms / 1000.0).tolist()
            loads.append(
                ServerLoad(
                    tuple(workload.id for workload in workloads),
                    parts,
                    max(workload.slo_ms for workload in workloads),
                    least,
                    full,
                    1000.0 * least / max(float(rates_rps.sum()), np.finfo(float).tiny),
                    not settings.drops(instance) or any(workload.steps for workload in workloads),
                )
            )
    return loads


def _needed_ms(site: Site, without_neighbours: bool) -> Floats:
    """Return the least time of each slot per request, shape (slots, 2).

    Column 1 has the time beside neighbours that run all the time. Column 0 has the time without neighbours if
    ``without_neighbours``; otherwise it equals column 1.
    """
    sizes = np.arange(1, site.times.shape[1])
    times_ms = np.where(sizes <= site.slots["batch"][:, None], site.times["gpu_ms"][:, 1:], np.inf)
    alone_ms = times_ms.copy()
    if without_neighbours:
        _lower_to_alone(site.tables, site.slots["model"], site.executors["units"][site.slots["executor"]], alone_ms)
    tails_ms = site.times["tail_ms"][:, 1:]
    return np.stack([((batch_ms + tails_ms) / sizes).min(axis=1) for batch_ms in (alone_ms, times_ms)], axis=1)


@kernel
def _lower_to_alone(tables: Tables, model: Floats, units: Floats, times_ms: Floats) -> None:
    """Lower each time, shape (slots, sizes), to that without neighbours; an infinite time stays."""
    for slot in range(len(times_ms)):
        row, share = model[slot], units[slot]
        for column in range(times_ms.shape[1]):
            size = column + 1
            if times_ms[slot, column] < np.inf:
                alone_ms = gpu_time_ms(tables, row, size, share, 1, 0.0, 0.0, tables.power_w[row, size, share])
                times_ms[slot, column] = min(times_ms[slot, column], alone_ms)


def overloads(servers: Sequence[ServerLoad], instance: Instance, settings: Settings) -> list[Overload]:
    """Return the overloaded servers, the largest load first.

    A server with several slots is left out if one of its workloads also has slots elsewhere, which may serve the
    requests that the server misses. All servers of applications are left out: if earlier stages drop requests, later
    stages get fewer.
    """
    if instance.applications:
        return []
    overloaded = []
    for server in servers:
        if server.waits and settings.arrivals.process is not Process.CONSTANT:
            is_overloaded = server.least_load >= 1.0 - ROUNDING
        else:
            is_overloaded = server.least_load > 1.0 + ROUNDING
        if not is_overloaded:
            continue
        missed = 1.0 if server.waits else 1.0 - 1.0 / server.least_load
        if len(server.workloads) == 1:
            overloaded.append(Overload(server.workloads, server.least_load, float(server.parts[0]) * missed))
        elif server.parts.min() > 1.0 - ROUNDING:
            overloaded.append(Overload(server.workloads, server.least_load, missed))
    return sorted(overloaded, key=lambda overload: -overload.load)


def warmup_s(servers: Sequence[ServerLoad], instance: Instance, settings: Settings) -> float:
    """Return the simulated time before the measurement: that of the settings, or the time until queues are typical.

    The queue of a server that drops requests takes at most as long as its SLO. If the server is overloaded, the queue
    also needs time to become that long. The queue of a server that drops none has a relaxation time of
    ``request_ms / (1 - r)²`` at a load of r below 1.
    """
    if settings.warmup_s is not None:
        return settings.warmup_s
    enough_s = max(WARMUP_S, WARMUP_REQUESTS * longest_request_s(instance))
    for server in servers:
        load = server.full_load if server.full_load < 1.0 else server.least_load
        if server.waits and load < 1.0:
            relaxation = min(MOST_RELAXATION, (1.0 - load) ** -2)
            enough_s = max(enough_s, WARMUP_RELAXATIONS * relaxation * server.request_ms / 1000.0)
        elif not server.waits and server.least_load > 1.0:
            filling = WARMUP_REQUESTS + 1.0 / max(LEAST_EXCESS, server.least_load - 1.0)
            enough_s = max(enough_s, filling * server.slo_ms / 1000.0)
    return min(float(MOST_SECONDS), enough_s)
