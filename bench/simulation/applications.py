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


class Flow(NamedTuple):
    """Stage graph of the applications; without applications every array is empty or ``NONE``.

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
    """Unfinished requests of applications, one row each in the order of arrival, and counts of the finished ones.

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
        Number of unfinished direct predecessors of the stage, shape (workloads, rows).
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
    count, where = len(instance.workloads), instance.workload_index
    application = np.full(count, NONE, dtype=np.int64)
    before, after = np.zeros(count, dtype=np.int64), [[] for _ in range(count)]  # type: ignore[var-annotated]
    for number, one in enumerate(instance.applications):
        for stage in one.stages:
            application[where[stage]] = number
        for source, target in one.edges:
            before[where[target]] += 1
            after[where[source]].append(where[target])
    return Flow(
        application,
        np.array([len(one.stages) for one in instance.applications], dtype=np.int64),
        np.array([one.slo_ms for one in instance.applications], dtype=np.float64),
        before,
        np.cumsum([0, *(len(stages) for stages in after)]).astype(np.int64),
        np.array([stage for stages in after for stage in stages], dtype=np.int64),
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
    flow: Flow, underway: Underway, workload: int, request: int, done_ms: float, terms: KernelSettings
) -> None:
    """Record that a request has finished a stage; measure the request if that was its last stage."""
    one = flow.application[workload]
    row = request - underway.base[one]
    if underway.stages_left[one, row] == NONE:
        return
    underway.stages_left[one, row] -= 1
    underway.done_ms[one, row] = max(underway.done_ms[one, row], done_ms)
    for at in range(flow.first_after[workload], flow.first_after[workload + 1]):
        after = flow.after[at]
        underway.missing[after, row] -= 1
        underway.ready_ms[after, row] = max(underway.ready_ms[after, row], done_ms)
    arrived_ms = underway.arrived_ms[one, row]
    if underway.stages_left[one, row] == 0 and terms.from_ms <= arrived_ms < terms.to_ms:
        latency_ms = underway.done_ms[one, row] - arrived_ms
        counts = underway.measured.counts
        underway.measured.histogram[one, bin_of(latency_ms)] += 1
        counts[one].served += 1
        counts[one].late += is_late(latency_ms, flow.slo_ms[one])
        counts[one].largest_ms = max(counts[one].largest_ms, latency_ms)


@compiled
def stage_dropped(flow: Flow, underway: Underway, workload: int, request: int, terms: KernelSettings) -> None:
    """Record that a stage dropped a request; the whole request then counts as dropped."""
    one = flow.application[workload]
    row = request - underway.base[one]
    if underway.stages_left[one, row] != NONE:
        underway.stages_left[one, row] = NONE
        underway.measured.counts[one].dropped += terms.from_ms <= underway.arrived_ms[one, row] < terms.to_ms


def with_rows(underway: Underway, flow: Flow, base: Ints, drawn_before: Ints, times_ms: list[Floats]) -> Underway:
    """Return the state with rows for new requests, after the rows of the unfinished ones.

    For each application, ``base`` is the number of its oldest unfinished request, ``drawn_before`` the number of its
    earlier requests, and ``times_ms`` has the arrival times of the new ones.
    """
    first, new = base - underway.base, [len(times) for times in times_ms]
    kept = [int(end - start) for end, start in zip(drawn_before, base, strict=True)]
    rows = max((k + n for k, n in zip(kept, new, strict=True)), default=0)
    by_application = (len(flow.stages), rows)
    by_workload = (len(flow.application), rows)
    arrived, done = np.zeros(by_application), np.zeros(by_application)
    left = np.zeros(by_application, dtype=np.int64)
    missing, ready = np.zeros(by_workload, dtype=np.int64), np.zeros(by_workload)
    for one, times in enumerate(times_ms):
        members = flow.application == one
        old, stay = slice(first[one], first[one] + kept[one]), slice(0, kept[one])
        added = slice(kept[one], kept[one] + new[one])
        for target, source in ((arrived, underway.arrived_ms), (done, underway.done_ms), (left, underway.stages_left)):
            target[one, stay] = source[one, old]
        missing[members, stay], ready[members, stay] = underway.missing[members, old], underway.ready_ms[members, old]
        arrived[one, added], left[one, added] = times, flow.stages[one]
        missing[members, added] = flow.before[members, None]
    return underway._replace(
        base=base, arrived_ms=arrived, done_ms=done, stages_left=left, missing=missing, ready_ms=ready
    )
