"""Event loop of the simulation: batches start and end on executors, and slow each other while they overlap."""

from typing import NamedTuple

import numpy as np

from bench.simulation.applications import NONE, Flow, Underway, stage_done, stage_dropped
from bench.simulation.contention import noise_factor, retime
from bench.simulation.histogram import bin_of
from bench.simulation.layout import Site
from bench.simulation.measured import Measured
from bench.simulation.routing import Routing, next_slot
from bench.simulation.serving_rules import is_late, would_be_late
from bench.simulation.settings import KernelSettings
from instances.arrays import Floats, Ints, Records
from instances.compiled import inlined, kernel
from instances.queueing import next_batch


class Work(NamedTuple):
    """State of the event loop, which changes its arrays in place.

    Attributes
    ----------
    site, settings
        Executors and slots; settings of the simulation.
    arrivals_ms, request
        Arrival times at all slots, concatenated and nondecreasing within a slot, and numbers of the requests within
        their application. All arrivals up to the end of the simulated window are present.
    queues, state, measured
        Records of ``QUEUE`` and ``STATE``; measurements by slot.
    routing, flow, underway
        Routing to slots; stage graph and unfinished requests of applications.
    scratch
        Buffer for the demands of a GPU's residents, shape (executors, 3).
    """

    site: Site
    settings: KernelSettings
    arrivals_ms: Floats
    request: Ints
    queues: Records
    state: Records
    measured: Measured
    routing: Routing
    flow: Flow
    underway: Underway
    scratch: Floats


@kernel
def advance(work: Work, until_ms: float) -> None:
    """Process all events up to ``until_ms``.

    Without applications, GPUs do not depend on each other and are simulated one by one. With applications, a batch on
    one GPU may send requests to another GPU, so all events are processed in the order of time.
    """
    executors, state = work.site.executors, work.state
    for e in range(len(state)):
        if state[e].slot == NONE:
            _plan(work, e)
    together = len(work.flow.stages) > 0
    # With a constant 0, Numba would compile the called kernels a second time for that constant.
    first = int(np.int64(0))
    while first < len(state):
        end = len(state) if together else executors[first].end
        while True:
            e = first
            for other in range(first + 1, end):
                if state[other].event_ms < state[e].event_ms:
                    e = other
            now_ms = state[e].event_ms
            if not now_ms <= until_ms:
                break
            if state[e].slot == NONE:
                s = _start(work, e)
            else:
                s = state[e].slot
                _end(work, e)
                if work.site.slots[s].application != NONE:
                    _send_to_next_stages(work, e, s)
                state[e].slot = NONE
                _plan(work, e)
            # An executor alone on its GPU has no interference: its planned time is exact.
            if s != NONE and work.settings.dynamic and executors[e].end - executors[e].first > 1:
                retime(work.site, state, work.scratch, e, now_ms)
        first = end


@inlined
def _plan(work: Work, e: int) -> None:
    """Set the start and the slot of an idle executor's next batch, which is the batch that is ready first."""
    executors, slots, queues, state = work.site.executors, work.site.slots, work.queues, work.state
    earliest_ms = np.inf
    for s in range(executors[e].first_slot, executors[e].end_slot):
        if queues[s].head < queues[s].known:
            ready_ms, _ = next_batch(
                work.arrivals_ms, queues[s].head, queues[s].known, -np.inf, slots[s].batch, slots[s].timeout_ms
            )
            if ready_ms < earliest_ms:
                earliest_ms, state[e].turn = ready_ms, s
    state[e].event_ms = max(earliest_ms, state[e].free_ms)


@inlined
def _start(work: Work, e: int) -> int:
    """Start a batch of the waiting requests that can still meet their SLO.

    Return the slot of the batch, or ``NONE`` if no batch starts.
    """
    slots, times, settings = work.site.slots, work.site.times, work.settings
    arrivals_ms, queues, state = work.arrivals_ms, work.queues, work.state
    now_ms = state[e].event_ms
    s = state[e].turn
    drawn_end, largest_batch = queues[s].known, slots[s].batch
    first = queues[s].head
    end = first
    while end < drawn_end and end < first + largest_batch and arrivals_ms[end] <= now_ms:
        end += 1
    if settings.dropping:
        while first < end and would_be_late(
            now_ms + times[s, end - first].promised_ms - arrivals_ms[first], slots[s].slo_ms
        ):
            _drop(work, s, arrivals_ms[first])
            if slots[s].application != NONE:
                stage_dropped(work.flow, work.underway, slots[s].workload, work.request[first], settings)
            first += 1
            if end < drawn_end and arrivals_ms[end] <= now_ms:
                end += 1
        if first > queues[s].head:
            queues[s].head = first
            # The smaller batch may not be ready yet, or the batch of another slot may be ready first.
            _plan(work, e)
            if state[e].event_ms > now_ms or state[e].turn != s:
                return NONE
    if first == end:
        _plan(work, e)
        return NONE
    state[e].slot, state[e].size = s, end - first
    state[e].left, state[e].since_ms, state[e].started_ms = 1.0, now_ms, now_ms
    state[e].factor = noise_factor(settings.noise, settings.seed, slots[s].number, queues[s].batches)
    state[e].whole_ms = times[s, end - first].gpu_ms * state[e].factor
    state[e].event_ms = now_ms + state[e].whole_ms
    queues[s].batches += 1
    return s


@inlined
def _end(work: Work, e: int) -> None:
    """Count the requests of a batch that ends."""
    times, settings, arrivals_ms = work.site.times, work.settings, work.arrivals_ms
    queues, state = work.queues, work.state
    counts, histogram, by_interval = work.measured.counts, work.measured.histogram, work.measured.by_interval
    s, size = state[e].slot, state[e].size
    first = queues[s].head
    queues[s].head = first + size
    started_ms = state[e].started_ms
    state[e].free_ms = state[e].event_ms + times[s, size].tail_ms
    done_ms = state[e].free_ms + times[s, size].delay_ms
    slo_ms = work.site.slots[s].slo_ms
    for i in range(first, first + size):
        arrival_ms = arrivals_ms[i]
        if not settings.from_ms <= arrival_ms < settings.to_ms:
            continue
        latency_ms = done_ms - arrival_ms
        late = is_late(latency_ms, slo_ms)
        counts[s].arrived += 1
        counts[s].served += 1
        counts[s].late += late
        counts[s].latency_ms += latency_ms
        counts[s].waiting_ms += started_ms - arrival_ms
        counts[s].largest_ms = max(counts[s].largest_ms, latency_ms)
        histogram[s, bin_of(latency_ms)] += 1
        if len(by_interval) > 0:
            interval = min(int((arrival_ms - settings.from_ms) // settings.interval_ms), len(by_interval) - 1)
            by_interval[interval, s].arrived += 1
            by_interval[interval, s].served += 1
            by_interval[interval, s].late += late


@inlined
def _drop(work: Work, s: int, arrival_ms: float) -> None:
    """Count a request that is dropped."""
    settings, counts, by_interval = work.settings, work.measured.counts, work.measured.by_interval
    if settings.from_ms <= arrival_ms < settings.to_ms:
        counts[s].arrived += 1
        counts[s].dropped += 1
        if len(by_interval) > 0:
            interval = min(int((arrival_ms - settings.from_ms) // settings.interval_ms), len(by_interval) - 1)
            by_interval[interval, s].arrived += 1
            by_interval[interval, s].dropped += 1


@kernel
def _send_to_next_stages(work: Work, e: int, s: int) -> None:
    """Send the requests of a finished batch to those stages of which all predecessors have finished."""
    slots, times, settings = work.site.slots, work.site.times, work.settings
    arrivals_ms, request, queues, state = work.arrivals_ms, work.request, work.queues, work.state
    flow, underway = work.flow, work.underway
    workload, app, size = slots[s].workload, slots[s].application, state[e].size
    done_ms = state[e].free_ms + times[s, size].delay_ms
    for position in range(queues[s].head - size, queues[s].head):
        number = request[position]
        row = number - underway.base[app]
        stage_done(flow, underway, workload, number, done_ms, settings)
        if underway.stages_left[app, row] == NONE:
            continue
        for i in range(flow.first_after[workload], flow.first_after[workload + 1]):
            after = flow.after[i]
            if underway.missing[after, row] > 0:
                continue
            target = next_slot(work.routing, after)
            if target == NONE:
                stage_dropped(flow, underway, after, number, settings)
                continue
            # A batch that ended earlier may have a longer delay, so requests may come out of order.
            # Insert the request in the order of arrival.
            arrival_ms = underway.ready_ms[after, row]
            place = queues[target].known
            while place > queues[target].head and arrivals_ms[place - 1] > arrival_ms:
                arrivals_ms[place], request[place] = arrivals_ms[place - 1], request[place - 1]
                place -= 1
            arrivals_ms[place], request[place] = arrival_ms, number
            queues[target].known += 1
            if state[slots[target].executor].slot == NONE:
                _plan(work, slots[target].executor)
