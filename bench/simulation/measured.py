"""Measurements of a simulation: counts, latencies and a series by interval."""

from typing import NamedTuple

import numpy as np

from bench.simulation.histogram import BINS
from instances.arrays import Ints, Records

BY_INTERVAL = np.dtype([("arrived", "i8"), ("served", "i8"), ("late", "i8"), ("dropped", "i8")])
"""Record of the requests that arrived in one interval: numbers of all requests, of requests that were served (in time
or late), of requests that were served late, and of requests that were dropped. During a simulation, ``arrived`` counts
only requests that were served or dropped."""

COUNTS = np.dtype([*BY_INTERVAL.descr, ("latency_ms", "f8"), ("waiting_ms", "f8"), ("largest_ms", "f8")])
"""Record of all requests: the numbers of ``BY_INTERVAL``, the sums of the latencies and of the waiting times before the
batch, and the largest latency."""


class Measured(NamedTuple):
    """Measurements of a simulation: one row per slot, workload or application.

    Attributes
    ----------
    counts
        Records of ``COUNTS``, shape (rows,).
    histogram
        Latencies, shape (rows, BINS).
    by_interval
        Records of ``BY_INTERVAL``, shape (intervals, rows). Without a series there are 0 intervals.
    """

    counts: Records
    histogram: Ints
    by_interval: Records


def nothing_measured(rows: int, intervals: int = 0) -> Measured:
    """Return measurements that are all 0, with a series of ``intervals`` intervals."""
    return Measured(
        np.zeros(rows, dtype=COUNTS),
        np.zeros((rows, BINS), dtype=np.int64),
        np.zeros((intervals, rows), dtype=BY_INTERVAL),
    )
