"""State of the GPUs of one type in a simulation: waiting requests, running batches and measurements."""

import numpy as np

from bench.simulation.applications import NONE, Flow, Underway
from bench.simulation.engine import Work, advance
from bench.simulation.layout import QUEUE, STATE, Site
from bench.simulation.measured import BY_INTERVAL, COUNTS, Measured, nothing_measured
from bench.simulation.routing import Routing
from bench.simulation.settings import KernelSettings
from instances.arrays import Floats, Ints


def measured_intervals(times_ms: Floats, settings: KernelSettings, intervals: int) -> Ints:
    """Return the number of the interval, of ``intervals`` intervals, in which each measured request arrives."""
    measured_ms = times_ms[(settings.from_ms <= times_ms) & (times_ms < settings.to_ms)]
    return np.minimum((measured_ms - settings.from_ms) // settings.interval_ms, intervals - 1).astype(np.int64)


class GpuGroup:
    """The GPUs of one type in a plan, at first without requests.

    Parameters
    ----------
    site
        Executors and slots.
    intervals
        Number of intervals of the series; 0 without a series.

    Attributes
    ----------
    first
        Number of the first slot among the slots of the plan.
    arrivals_ms, request
        Waiting and in-flight requests: the queues of all slots, concatenated.
    queues, state, measured
        See ``bench.simulation.layout``.
    """

    def __init__(self, site: Site, intervals: int) -> None:
        self.site, self.first = site, int(site.slots["number"][0])
        self.arrivals_ms, self.request = np.empty(0), np.empty(0, dtype=np.int64)
        self.queues = np.zeros(len(site.slots), dtype=QUEUE)
        self.state = np.zeros(len(site.executors), dtype=STATE)
        self.state["slot"], self.state["turn"] = NONE, site.executors["first_slot"]
        self.measured = nothing_measured(len(site.slots), intervals)

    def unfinished(self, slot: int) -> slice:
        """Return the range of a slot's unfinished requests: those of its in-flight batch, and those that wait."""
        return slice(int(self.queues["head"][slot]), int(self.queues["known"][slot]))

    def begin_with_backlog(self) -> None:
        """Let every executor begin only after the longest SLO of its slots, while requests arrive."""
        for state, executor in zip(self.state, self.site.executors, strict=True):
            slots = self.site.slots[executor["first_slot"] : executor["end_slot"]]
            state["free_ms"] = slots["slo_ms"].max(initial=0.0)

    def advance(
        self, settings: KernelSettings, routing: Routing, flow: Flow, underway: Underway, until_ms: float
    ) -> None:
        """Process all events up to ``until_ms``."""
        scratch = np.empty((len(self.state), 3))
        own_state = self.arrivals_ms, self.request, self.queues, self.state, self.measured
        advance(Work(self.site, settings, *own_state, routing, flow, underway, scratch), until_ms)

    def count_unfinished(self, settings: KernelSettings) -> None:
        """Count measured requests that still wait or are in a batch as arrived; the event loop has not counted them."""
        for slot in range(len(self.queues)):
            times_ms = self.arrivals_ms[self.unfinished(slot)]
            interval = measured_intervals(times_ms, settings, len(self.measured.by_interval))
            self.measured.counts["arrived"][slot] += len(interval)
            if len(self.measured.by_interval):
                np.add.at(self.measured.by_interval["arrived"][:, slot], interval, 1)

    def move_measured(self, total: Measured) -> None:
        """Add the measurements to the measurements of the workloads in ``total``, and reset them."""
        workload = self.site.slots["workload"]
        for name in COUNTS.names or ():
            combine = np.maximum if name == "largest_ms" else np.add
            combine.at(total.counts[name], workload, self.measured.counts[name])
        np.add.at(total.histogram, workload, self.measured.histogram)
        for name in BY_INTERVAL.names or ():
            np.add.at(total.by_interval[name].T, workload, self.measured.by_interval[name].T)
        self.measured = nothing_measured(len(workload), len(total.by_interval))
