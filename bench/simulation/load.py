"""Loads of a plan's servers: those with more work than time, and the time until a simulation has forgotten its start.

A server (an executor, which runs one batch at a time) needs for each request the time of the fastest batch size,
divided by that size. Its *load* is the sum of these times over the requests of a second. Alone on its GPU, it needs the
*least load*; beside neighbours that run all the time, the *full load*. Under dynamic interference the true load lies in
between.

Above a least load of 1, a server that drops requests misses at least the fraction ``1 - 1 / load`` of them in the long
run. A server that drops none gets ever further behind, so in the long run it misses all of them; a load of exactly 1
suffices for that, unless the arrivals are regular.
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
"""Least time before the measurement: so many seconds, and so many times the longest request."""

WARMUP_RELAXATIONS = 5.0
"""Least time before the measurement in relaxation times of the queue of a server that drops no requests."""

LEAST_EXCESS = 0.02
"""Least excess of the load over 1 for which the time to fill a queue is waited for in full; the load shows it then."""

MOST_RELAXATION = 1e5
"""Longest relaxation time that is waited for, in requests at full speed: that of a load of 0.997."""


@dataclass(frozen=True, slots=True)
class ServerLoad:
    """Load of a server.

    Attributes
    ----------
    workloads
        Ids of the workloads that it serves.
    parts
        Part of each workload's requests that it gets.
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
    """A server with more work than time.

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
    known: Sequence[Site], instance: Instance, settings: Settings, offered: dict[str, float]
) -> list[ServerLoad]:
    """Return the loads of the servers of all sites; ``offered`` has the rate of the requests by workload."""
    planned_rps = np.full(len(instance.workloads), np.finfo(float).tiny)
    for site in known:
        np.add.at(planned_rps, site.slots["workload"], site.slots["rate_rps"])
    arriving_rps = np.array([offered[workload.id] for workload in instance.workloads])
    alone = settings.interference is Interference.DYNAMIC and instance.partition is Partition.SHARES
    found = []
    for site in known:
        needed_ms = _needed_ms(site, alone)
        for executor in site.executors:
            slots = site.slots[executor["first_slot"] : executor["end_slot"]]
            workloads = [instance.workloads[w] for w in slots["workload"]]
            parts = slots["rate_rps"] / planned_rps[slots["workload"]]
            rates_rps = parts * arriving_rps[slots["workload"]]
            steps_rps = rates_rps * [max(1, workload.steps) for workload in workloads]
            own_ms = needed_ms[executor["first_slot"] : executor["end_slot"]]
            least, full = (steps_rps @ own_ms / 1000.0).tolist()
            found.append(
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
    return found


def _needed_ms(site: Site, alone: bool) -> Floats:
    """Return the least time of each slot per request, shape (slots, 2): without neighbours if ``alone``, and beside."""
    sizes = np.arange(1, site.times.shape[1])
    times_ms = np.where(sizes <= site.slots["batch"][:, None], site.times["gpu_ms"][:, 1:], np.inf)
    alone_ms = times_ms.copy()
    if alone:
        _lower_to_alone(site.tables, site.slots["model"], site.executors["units"][site.slots["executor"]], alone_ms)
    tails_ms = site.times["tail_ms"][:, 1:]
    return np.stack([((each + tails_ms) / sizes).min(axis=1) for each in (alone_ms, times_ms)], axis=1)


@kernel
def _lower_to_alone(tables: Tables, model: Floats, units: Floats, times_ms: Floats) -> None:
    """Lower each time, shape (slots, sizes), to that without neighbours; an infinite time stays."""
    for s in range(len(times_ms)):
        m, u = model[s], units[s]
        for at in range(times_ms.shape[1]):
            b = at + 1
            if times_ms[s, at] < np.inf:
                own_ms = gpu_time_ms(tables, m, b, u, 1, 0.0, 0.0, tables.power_w[m, b, u])
                times_ms[s, at] = min(times_ms[s, at], own_ms)


def overloads(servers: Sequence[ServerLoad], instance: Instance, settings: Settings) -> list[Overload]:
    """Return the overloaded servers, the largest load first.

    A server with several slots is left out if one of its workloads has other slots too: these may serve the requests
    that it misses. So are all servers of applications, whose later stages get fewer requests if earlier ones drop some.
    """
    if instance.applications:
        return []
    found = []
    for one in servers:
        at_one = one.waits and settings.arrivals.process is not Process.CONSTANT
        if one.least_load < 1.0 - ROUNDING if at_one else one.least_load <= 1.0 + ROUNDING:
            continue
        missed = 1.0 if one.waits else 1.0 - 1.0 / one.least_load
        if len(one.workloads) == 1:
            found.append(Overload(one.workloads, one.least_load, float(one.parts[0]) * missed))
        elif one.parts.min() > 1.0 - ROUNDING:
            found.append(Overload(one.workloads, one.least_load, missed))
    return sorted(found, key=lambda each: -each.load)


def warmup_s(servers: Sequence[ServerLoad], instance: Instance, settings: Settings) -> float:
    """Return the simulated time before the measurement: that of the settings, or enough to forget the start.

    The queue of a server that drops requests is as long as its SLO at most. If the server is overloaded, the queue also
    needs time to become that long. The queue of a server that drops none has, at a load of r below 1, a relaxation time
    of the time per request over (1 - r)².
    """
    if settings.warmup_s is not None:
        return settings.warmup_s
    enough_s = max(WARMUP_S, WARMUP_REQUESTS * longest_request_s(instance))
    for one in servers:
        load = one.full_load if one.full_load < 1.0 else one.least_load
        if one.waits and load < 1.0:
            relaxation = min(MOST_RELAXATION, (1.0 - load) ** -2)
            enough_s = max(enough_s, WARMUP_RELAXATIONS * relaxation * one.request_ms / 1000.0)
        elif not one.waits and one.least_load > 1.0:
            filling = WARMUP_REQUESTS + 1.0 / max(LEAST_EXCESS, one.least_load - 1.0)
            enough_s = max(enough_s, filling * one.slo_ms / 1000.0)
    return min(float(MOST_SECONDS), enough_s)
