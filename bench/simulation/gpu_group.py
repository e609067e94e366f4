"""State of the GPUs of one type in a simulation: waiting requests, running batches and measurements."""

import numpy as np

from bench.simulation.applications import NONE, Flow, Underway
from bench.simulation.engine import Work, advance
from bench.simulation.layout import QUEUE, STATE, Site
from bench.simulation.measured import BY_SECOND, COUNTS, Measured, nothing_measured
from bench.simulation.routing import Routing
from bench.simulation.settings import KernelSettings


class GpuGroup:
    """The GPUs of one type in a plan, at first without requests.

    Parameters
    ----------
    site
        Executors and slots.
    first
        Index of its first slot among the slots of all groups.
    seconds
        As in ``nothing_measured``.

    Attributes
    ----------
    arrivals_ms, request
        Waiting and in-flight requests: the queues of all slots, concatenated.
    queues, state, measured
        See ``bench.simulation.layout``.
    """

    def __init__(self, site: Site, first: int, seconds: int) -> None:
        self.site, self.first = site, first
        self.arrivals_ms, self.request = np.empty(0), np.empty(0, dtype=np.int64)
        self.queues = np.zeros(len(site.slots), dtype=QUEUE)
        self.state = np.zeros(len(site.executors), dtype=STATE)
        self.state["slot"], self.state["turn"] = NONE, site.executors["first_slot"]
        self.measured = nothing_measured(len(site.slots), seconds)

    def waiting(self, slot: int) -> slice:
        """Return the range of a slot's unfinished requests."""
        return slice(int(self.queues["head"][slot]), int(self.queues["known"][slot]))

    def advance(self, terms: KernelSettings, routing: Routing, flow: Flow, underway: Underway, until_ms: float) -> None:
        """Process all events up to ``until_ms``."""
        scratch = np.empty((len(self.state), 3))
        own = self.arrivals_ms, self.request, self.queues, self.state, self.measured
        advance(Work(self.site, terms, *own, routing, flow, underway, scratch), until_ms)

    def move_measured(self, to: Measured) -> None:
        """Add the measurements to those of the workloads in ``to``, and reset them."""
        workload = self.site.slots["workload"]
        for name in COUNTS.names or ():
            joined = np.maximum if name == "largest_ms" else np.add
            joined.at(to.counts[name], workload, self.measured.counts[name])
        np.add.at(to.histogram, workload, self.measured.histogram)
        for name in BY_SECOND.names or ():
            np.add.at(to.by_second[name].T, workload, self.measured.by_second[name].T)
        self.measured = nothing_measured(len(workload), len(to.by_second))
