"""Requests of applications, which visit several workloads: order of the stages and end-to-end latency."""

from typing import NamedTuple

import numpy as np

from bench.simulation.histogram import bin_of
from bench.simulation.measured import Measured, nothing_measured
from bench.simulation.serving_rules import is_late
from bench.simulation.settings import KernelSettings
from instances import Instance
from instances.arrays import Floats, Ints
from instances.compiled import compiled

NONE = -1
"""Index that stands for no application, no slot or no batch."""


class Flow(NamedTuple):
    """Stage graph of the applications.

    Attributes
    ----------
    application
        Application of each workload, or ``NONE``, shape (workloads,).
    stages, slo_ms
        Number of stages and end-to-end SLO of each application.
    before
        Number of direct predecessors of each workload's stage, shape (workloads,).
    first_after, after
        The stages after workload w are ``after[first_after[w]]`` to ``after[first_after[w + 1] - 1]``.
    """

    application: Ints
    stages: Ints
    slo_ms: Floats
    before: Ints
    first_after: Ints
    after: Ints


class Underway(NamedTuple):
    """Unfinished requests of applications, and measurements of the finished requests.

    Each request has a row; the rows of an application are in the order of arrival.

    Attributes
    ----------
    base
        Number of the request in row 0 of each application, shape (applications,). Row r has request ``base + r``.
    arrived_ms
        Arrival times, shape (applications, rows).
    done_ms
        End of the latest finished stage, shape (applications, rows).
    stages_left
        Number of unfinished stages, or ``NONE`` after a stage dropped the request, shape (applications, rows).
    missing
        Number of unfinished direct predecessors of each workload's stage, shape (workloads, rows).
    ready_ms
        End of the latest finished predecessor, shape (workloads, rows).
    measured
        End-to-end latencies and counts of the measured requests, by application.
    """

    base: Ints
    arrived_ms: Floats
    done_ms: Floats
    stages_left: Ints
    missing: Ints
    ready_ms: Floats
    measured: Measured


def flow_of(instance: Instance) -> Flow:
    """Return the stage graph of an instance's applications."""
    count, index_of = len(instance.workloads), instance.workload_index
    application = np.full(count, NONE, dtype=np.int64)
    before = np.zeros(count, dtype=np.int64)
    successors: list[list[int]] = [[] for _ in range(count)]
    for number, app in enumerate(instance.applications):
        for stage in app.stages:
            application[index_of[stage]] = number
        for source, target in app.edges:
            before[index_of[target]] += 1
            successors[index_of[source]].append(index_of[target])
    return Flow(
        application,
        np.array([len(app.stages) for app in instance.applications], dtype=np.int64),
        np.array([app.slo_ms for app in instance.applications], dtype=np.float64),
        before,
        np.cumsum([0, *(len(stages) for stages in successors)]).astype(np.int64),
        np.array([stage for stages in successors for stage in stages], dtype=np.int64),
    )


def none_underway(flow: Flow) -> Underway:
    """Return the state before the first request."""
    applications, workloads = len(flow.stages), len(flow.application)
    return Underway(
        np.zeros(applications, dtype=np.int64),
        np.zeros((applications, 0)),
        np.zeros((applications, 0)),
        np.zeros((applications, 0), dtype=np.int64),
        np.zeros((workloads, 0), dtype=np.int64),
        np.zeros((workloads, 0)),
        nothing_measured(applications),
    )


@compiled
def stage_done(
    flow: Flow, underway: Underway, workload: int, request: int, done_ms: float, settings: KernelSettings
) -> None:
    """Record that a request has finished a stage; measure the request if that was its last stage."""
    app = flow.application[workload]
    row = request - underway.base[app]
    if underway.stages_left[app, row] == NONE:
        return
    underway.stages_left[app, row] -= 1
    underway.done_ms[app, row] = max(underway.done_ms[app, row], done_ms)
    for i in range(flow.first_after[workload], flow.first_after[workload + 1]):
        after = flow.after[i]
        underway.missing[after, row] -= 1
        underway.ready_ms[after, row] = max(underway.ready_ms[after, row], done_ms)
    arrived_ms = underway.arrived_ms[app, row]
    if underway.stages_left[app, row] == 0 and settings.from_ms <= arrived_ms < settings.to_ms:
        latency_ms = underway.done_ms[app, row] - arrived_ms
        counts = underway.measured.counts
        underway.measured.histogram[app, bin_of(latency_ms)] += 1
        counts[app].served += 1
        counts[app].late += is_late(latency_ms, flow.slo_ms[app])
        counts[app].largest_ms = max(counts[app].largest_ms, latency_ms)


@compiled
def stage_dropped(flow: Flow, underway: Underway, workload: int, request: int, settings: KernelSettings) -> None:
    """Record that a stage dropped a request; the whole request then counts as dropped."""
    app = flow.application[workload]
    row = request - underway.base[app]
    if underway.stages_left[app, row] != NONE:
        underway.stages_left[app, row] = NONE
        underway.measured.counts[app].dropped += settings.from_ms <= underway.arrived_ms[app, row] < settings.to_ms


def with_rows(underway: Underway, flow: Flow, base: Ints, drawn_before: Ints, times_ms: list[Floats]) -> Underway:
    """Return the state with rows for new requests, after the rows of the unfinished ones.

    Parameters
    ----------
    base
        Number of the oldest unfinished request of each application, shape (applications,).
    drawn_before
        Number of requests of each application before the new ones, shape (applications,).
    times_ms
        Arrival times of the new requests of each application.
    """
    first_row, new_count = base - underway.base, [len(times) for times in times_ms]
    old_count = [int(end - start) for end, start in zip(drawn_before, base, strict=True)]
    rows = max((old + new for old, new in zip(old_count, new_count, strict=True)), default=0)
    by_application = (len(flow.stages), rows)
    by_workload = (len(flow.application), rows)
    arrived_ms, done_ms = np.zeros(by_application), np.zeros(by_application)
    stages_left = np.zeros(by_application, dtype=np.int64)
    missing, ready_ms = np.zeros(by_workload, dtype=np.int64), np.zeros(by_workload)
    for app, times in enumerate(times_ms):
        members = flow.application == app
        old_rows = slice(first_row[app], first_row[app] + old_count[app])
        moved_rows = slice(0, old_count[app])
        new_rows = slice(old_count[app], old_count[app] + new_count[app])
        arrived_ms[app, moved_rows] = underway.arrived_ms[app, old_rows]
        done_ms[app, moved_rows] = underway.done_ms[app, old_rows]
        stages_left[app, moved_rows] = underway.stages_left[app, old_rows]
        missing[members, moved_rows] = underway.missing[members, old_rows]
        ready_ms[members, moved_rows] = underway.ready_ms[members, old_rows]
        arrived_ms[app, new_rows], stages_left[app, new_rows] = times, flow.stages[app]
        missing[members, new_rows] = flow.before[members, None]
    return underway._replace(
        base=base, arrived_ms=arrived_ms, done_ms=done_ms, stages_left=stages_left, missing=missing, ready_ms=ready_ms
    )
