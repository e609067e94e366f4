"""State of the GPUs of one type in a simulation: waiting requests, running batches and measurements."""

from dataclasses import dataclass

import numpy as np

from bench.simulation.applications import Flow, Underway
from bench.simulation.engine import Work, advance
from bench.simulation.layout import (
    BY_SECOND,
    COUNTS,
    QUEUE,
    KernelSettings,
    Measured,
    Records,
    Site,
    idle,
    nothing_measured,
)
from bench.simulation.routing import Routing
from instances.arrays import Floats, Ints


@dataclass(slots=True)
class GpuGroup:
    """The GPUs of one type in a plan.

    Attributes
    ----------
    site
        Executors and slots.
    first
        Index of its first slot among the slots of all groups.
    arrivals_ms, request
        Waiting and in-flight requests: the queues of all slots, concatenated.
    queues, state, measured
        See ``bench.simulation.layout``.
    """

    site: Site
    first: int
    arrivals_ms: Floats
    request: Ints
    queues: Records
    state: Records
    measured: Measured

    @classmethod
    def idle(cls, site: Site, first: int, seconds: int) -> "GpuGroup":
        """Return GPUs without requests; ``seconds`` as in ``nothing_measured``."""
        return cls(
            site,
            first,
            np.empty(0),
            np.empty(0, dtype=np.int64),
            np.zeros(len(site.slots), dtype=QUEUE),
            idle(site),
            nothing_measured(len(site.slots), seconds),
        )

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
