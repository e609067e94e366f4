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
    for executor in range(len(state)):
        if state[executor].slot == NONE:
            _plan(work, executor)
    has_applications = len(work.flow.stages) > 0
    # With a constant 0, Numba would compile the called kernels a second time for that constant.
    first = int(np.int64(0))
    while first < len(state):
        end = len(state) if has_applications else executors[first].end
        while True:
            executor = first
            for other in range(first + 1, end):
                if state[other].event_ms < state[executor].event_ms:
                    executor = other
            now_ms = state[executor].event_ms
            if not now_ms <= until_ms:
                break
            if state[executor].slot == NONE:
                slot = _start(work, executor)
            else:
                slot = state[executor].slot
                _end(work, executor)
                if work.site.slots[slot].application != NONE:
                    _send_to_next_stages(work, executor, slot)
                state[executor].slot = NONE
                _plan(work, executor)
            # An executor alone on its GPU has no interference: its planned time is exact.
            if slot != NONE and work.settings.dynamic and executors[executor].end - executors[executor].first > 1:
                retime(work.site, state, work.scratch, executor, now_ms)
        first = end


@inlined
def _plan(work: Work, executor: int) -> None:
    """Set the start and the slot of an idle executor's next batch, which is the batch that is ready first."""
    executors, slots, queues, state = work.site.executors, work.site.slots, work.queues, work.state
    earliest_ms = np.inf
    for slot in range(executors[executor].first_slot, executors[executor].end_slot):
        if queues[slot].head < queues[slot].known:
            ready_ms, _ = next_batch(
                work.arrivals_ms,
                queues[slot].head,
                queues[slot].known,
                -np.inf,
                slots[slot].batch,
                slots[slot].timeout_ms,
            )
            if ready_ms < earliest_ms:
                earliest_ms, state[executor].turn = ready_ms, slot
    state[executor].event_ms = max(earliest_ms, state[executor].free_ms)


@inlined
def _start(work: Work, executor: int) -> int:
    """Start a batch of the waiting requests that can still meet their SLO.

    Return the slot of the batch, or ``NONE`` if no batch starts.
    """
    slots, times, settings = work.site.slots, work.site.times, work.settings
    arrivals_ms, queues, state = work.arrivals_ms, work.queues, work.state
    now_ms = state[executor].event_ms
    slot = state[executor].turn
    drawn_end, largest_batch = queues[slot].known, slots[slot].batch
    first = queues[slot].head
    end = first
    while end < drawn_end and end < first + largest_batch and arrivals_ms[end] <= now_ms:
        end += 1
    if settings.dropping:
        while first < end and would_be_late(
            now_ms + times[slot, end - first].promised_ms - arrivals_ms[first], slots[slot].slo_ms
        ):
            _drop(work, slot, arrivals_ms[first])
            if slots[slot].application != NONE:
                stage_dropped(work.flow, work.underway, slots[slot].workload, work.request[first], settings)
            first += 1
            if end < drawn_end and arrivals_ms[end] <= now_ms:
                end += 1
        if first > queues[slot].head:
            queues[slot].head = first
            # The smaller batch may not be ready yet, or the batch of another slot may be ready first.
            _plan(work, executor)
            if state[executor].event_ms > now_ms or state[executor].turn != slot:
                return NONE
    if first == end:
        _plan(work, executor)
        return NONE
    state[executor].slot, state[executor].size = slot, end - first
    state[executor].left, state[executor].since_ms, state[executor].started_ms = 1.0, now_ms, now_ms
    state[executor].factor = noise_factor(settings.noise, settings.seed, slots[slot].number, queues[slot].batches)
    state[executor].whole_ms = times[slot, end - first].gpu_ms * state[executor].factor
    state[executor].event_ms = now_ms + state[executor].whole_ms
    queues[slot].batches += 1
    return slot


@inlined
def _end(work: Work, executor: int) -> None:
    """Count the requests of a batch that ends."""
    times, settings, arrivals_ms = work.site.times, work.settings, work.arrivals_ms
    queues, state = work.queues, work.state
    counts, histogram, by_interval = work.measured.counts, work.measured.histogram, work.measured.by_interval
    slot, size = state[executor].slot, state[executor].size
    first = queues[slot].head
    queues[slot].head = first + size
    started_ms = state[executor].started_ms
    state[executor].free_ms = state[executor].event_ms + times[slot, size].tail_ms
    done_ms = state[executor].free_ms + times[slot, size].delay_ms
    slo_ms = work.site.slots[slot].slo_ms
    for i in range(first, first + size):
        arrival_ms = arrivals_ms[i]
        if not settings.from_ms <= arrival_ms < settings.to_ms:
            continue
        latency_ms = done_ms - arrival_ms
        late = is_late(latency_ms, slo_ms)
        counts[slot].arrived += 1
        counts[slot].served += 1
        counts[slot].late += late
        counts[slot].latency_ms += latency_ms
        counts[slot].waiting_ms += started_ms - arrival_ms
        counts[slot].largest_ms = max(counts[slot].largest_ms, latency_ms)
        histogram[slot, bin_of(latency_ms)] += 1
        if len(by_interval) > 0:
            interval = min(int((arrival_ms - settings.from_ms) // settings.interval_ms), len(by_interval) - 1)
            by_interval[interval, slot].arrived += 1
            by_interval[interval, slot].served += 1
            by_interval[interval, slot].late += late


@inlined
def _drop(work: Work, slot: int, arrival_ms: float) -> None:
    """Count a request that is dropped."""
    settings, counts, by_interval = work.settings, work.measured.counts, work.measured.by_interval
    if settings.from_ms <= arrival_ms < settings.to_ms:
        counts[slot].arrived += 1
        counts[slot].dropped += 1
        if len(by_interval) > 0:
            interval = min(int((arrival_ms - settings.from_ms) // settings.interval_ms), len(by_interval) - 1)
            by_interval[interval, slot].arrived += 1
            by_interval[interval, slot].dropped += 1


@kernel
def _send_to_next_stages(work: Work, executor: int, slot: int) -> None:
    """Send each request of a finished batch to the next stages whose predecessors have all finished."""
    slots, times, settings = work.site.slots, work.site.times, work.settings
    arrivals_ms, request, queues, state = work.arrivals_ms, work.request, work.queues, work.state
    flow, underway = work.flow, work.underway
    workload, app, size = slots[slot].workload, slots[slot].application, state[executor].size
    done_ms = state[executor].free_ms + times[slot, size].delay_ms
    for position in range(queues[slot].head - size, queues[slot].head):
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
