"""State of a simulation: queues, executors and requests, as records for compiled code."""

from typing import NamedTuple

import numpy as np

from bench.simulation.applications import NONE
from bench.simulation.histogram import BINS
from bench.simulation.layout import Records, Site
from instances.arrays import Ints

QUEUE = np.dtype([("head", "i8"), ("known", "i8"), ("batches", "i8")])
"""Record of a slot's queue: ``head`` is its oldest unfinished request, ``known`` the end of its drawn requests, and
``batches`` the number of started batches. The array has room after ``known`` for requests from earlier stages."""

STATE = np.dtype(
    [
        ("event_ms", "f8"),
        ("slot", "i8"),
        ("size", "i8"),
        ("started_ms", "f8"),
        ("since_ms", "f8"),
        ("left", "f8"),
        ("whole_ms", "f8"),
        ("factor", "f8"),
        ("free_ms", "f8"),
        ("turn", "i8"),
    ]
)
"""Record of an executor's state.

``event_ms``: end of its batch, or start of the next one. ``slot`` (``NONE`` between batches), ``size`` and
``started_ms``: those of the batch. ``left``: fraction of the batch that remained at ``since_ms``. ``whole_ms``: time of
the whole batch at the present speed. ``factor``: noise of the batch. ``free_ms``: earliest start of the next batch.
``turn``: slot of the next batch.
"""

COUNTS = np.dtype(
    [
        ("arrived", "i8"),
        ("served", "i8"),
        ("late", "i8"),
        ("dropped", "i8"),
        ("latency_ms", "f8"),
        ("waiting_ms", "f8"),
        ("largest_ms", "f8"),
    ]
)
"""Record of a slot's measurements: numbers of requests that finished, were served (in time or late), were served late,
and were dropped; sums of latencies and of waiting times before the batch; largest latency."""

BY_SECOND = np.dtype([("arrived", "i8"), ("served", "i8"), ("late", "i8"), ("dropped", "i8")])
"""Requests by the second in which they arrived."""


class KernelSettings(NamedTuple):
    """Settings of the compiled event loop.

    Attributes
    ----------
    from_ms, to_ms
        Begin (included) and end (excluded) of the arrivals that are measured.
    dynamic
        Whether batches slow each other only while they overlap; otherwise every neighbour is always active.
    dropping
        Whether requests that can no longer meet their SLO are dropped.
    noise
        Standard deviation of the logarithm of a factor on each batch's GPU time.
    seed
        Seed of the noise.
    """

    from_ms: float
    to_ms: float
    dynamic: bool
    dropping: bool
    noise: float
    seed: int


class Measured(NamedTuple):
    """Measurements of a simulation.

    Attributes
    ----------
    counts
        Records of ``COUNTS``, shape (slots,).
    histogram
        Latencies, shape (slots, BINS).
    by_second
        Records of ``BY_SECOND``, shape (seconds, slots); shape (0, slots) if not requested.
    """

    counts: Records
    histogram: Ints
    by_second: Records


def idle(site: Site) -> Records:
    """Return the initial state of the executors."""
    state = np.zeros(len(site.executors), dtype=STATE)
    state["slot"], state["turn"] = NONE, site.executors["first_slot"]
    return state


def nothing_measured(slots: int, seconds: int) -> Measured:
    """Return measurements that are all 0, with a series of ``seconds`` seconds."""
    return Measured(
        np.zeros(slots, dtype=COUNTS),
        np.zeros((slots, BINS), dtype=np.int64),
        np.zeros((seconds, slots), dtype=BY_SECOND),
    )
