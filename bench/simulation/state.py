"""State of a simulation: queues, executors and requests, as records for compiled code."""

from typing import NamedTuple

import numpy as np

from bench.simulation.applications import NONE
from bench.simulation.histogram import BINS
from bench.simulation.layout import Records, Site
from instances.arrays import Ints

QUEUE = np.dtype([("head", "i8"), ("known", "i8"), ("batches", "i8")])
"""Of each slot: its oldest request that is not done, the end of those that have come or will, and how many batches have
started. Behind ``known`` there is room for requests that other stages hand over."""

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
"""What an executor is doing.

``event_ms``: when its batch ends, or the next one starts; ``slot`` (``NONE`` between batches), ``size`` and
``started_ms`` of the batch; ``left`` is the part of it that was left at ``since_ms``, ``whole_ms`` how long all of it
takes at the present pace, ``factor`` its noise; ``free_ms``: when the next batch may start; ``turn``: the slot whose
batch that will be.
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
"""What is measured of a slot: requests that came to an end, were served (in time or late), were served late, were
dropped; sums of latencies and of waits before batches start, and the longest latency."""

BY_SECOND = np.dtype([("arrived", "i8"), ("served", "i8"), ("late", "i8"), ("dropped", "i8")])
"""Requests by the second in which they arrived."""


class KernelSettings(NamedTuple):
    """What a simulation is asked to do.

    Attributes
    ----------
    from_ms, to_ms
        Requests that arrive from the one until before the other are measured.
    dynamic
        Whether batches slow each other only while they overlap; otherwise every neighbour is always active.
    dropping
        Whether requests that can no longer be in time are dropped.
    noise
        Standard deviation of the logarithm of a factor on each batch's GPU time.
    seed
        Of the noise.
    """

    from_ms: float
    to_ms: float
    dynamic: bool
    dropping: bool
    noise: float
    seed: int


class Measured(NamedTuple):
    """What is measured.

    Attributes
    ----------
    counts
        Records of ``COUNTS``, shape (slots,).
    histogram
        Latencies, shape (slots, BINS).
    by_second
        Records of ``BY_SECOND``, shape (seconds, slots); no seconds if it was not asked for.
    """

    counts: Records
    histogram: Ints
    by_second: Records


def idle(site: Site) -> Records:
    """Return executors that have done nothing yet."""
    state = np.zeros(len(site.executors), dtype=STATE)
    state["slot"], state["turn"] = NONE, site.executors["first_slot"]
    return state


def nothing_measured(slots: int, seconds: int) -> Measured:
    """Return counts of 0, by second for ``seconds`` of them."""
    return Measured(
        np.zeros(slots, dtype=COUNTS),
        np.zeros((slots, BINS), dtype=np.int64),
        np.zeros((seconds, slots), dtype=BY_SECOND),
    )
