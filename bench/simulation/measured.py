"""Measurements of a simulation: counts, latencies and a series by interval."""

from typing import NamedTuple

import numpy as np

from bench.simulation.histogram import BINS
from instances.arrays import Ints, Records

BY_INTERVAL = np.dtype([("arrived", "i8"), ("served", "i8"), ("late", "i8"), ("dropped", "i8")])
"""Record of requests by the interval in which they arrived: numbers of all, of those that were served (in time or
late), were served late, and were dropped. During a simulation, ``arrived`` counts those that have ended."""

COUNTS = np.dtype([*BY_INTERVAL.descr, ("latency_ms", "f8"), ("waiting_ms", "f8"), ("largest_ms", "f8")])
"""Record of all requests: also the sums of latencies and of waiting times before the batch, and the largest latency."""


class Measured(NamedTuple):
    """Measurements of a simulation: one row per slot, workload or application.

    Attributes
    ----------
    counts
        Records of ``COUNTS``, shape (rows,).
    histogram
        Latencies, shape (rows, BINS).
    by_interval
        Records of ``BY_INTERVAL``, shape (intervals, rows); shape (0, rows) if not requested.
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
