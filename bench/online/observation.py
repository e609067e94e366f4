"""Observation of a serving system: counts by workload over a stretch of time."""

from dataclasses import dataclass
from typing import Self

import numpy as np
from numpy.typing import NDArray

from bench.simulation.result import VIOLATIONS_ALLOWED
from instances.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Seen:
    """What happened from one moment to another; every array has shape (workloads,).

    Attributes
    ----------
    seconds
        Between the moments.
    came
        Requests that arrived.
    served, late, dropped
        Requests that came to an end: served in time or late, of these late, dropped.
    service_ms
        Sum over the requests served of the time from the start of their batch to the result.
    """

    seconds: float
    came: Ints
    served: Ints
    late: Ints
    dropped: Ints
    service_ms: Floats

    @classmethod
    def nothing(cls, workloads: int) -> Self:
        """Return what is seen in no time."""
        none = np.zeros(workloads, dtype=np.int64)
        return cls(0.0, none, none, none, none, np.zeros(workloads))

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(
            self.seconds + other.seconds,
            self.came + other.came,
            self.served + other.served,
            self.late + other.late,
            self.dropped + other.dropped,
            self.service_ms + other.service_ms,
        )

    def __sub__(self, other: "Seen") -> "Seen":
        return Seen(
            self.seconds - other.seconds,
            self.came - other.came,
            self.served - other.served,
            self.late - other.late,
            self.dropped - other.dropped,
            self.service_ms - other.service_ms,
        )

    @property
    def rate_rps(self) -> Floats:
        """Requests that arrived per second."""
        return self.came / self.seconds

    @property
    def throughput_rps(self) -> Floats:
        """Requests served per second."""
        return self.served / self.seconds

    @property
    def violations(self) -> Ints:
        """Requests that came to an end and were not served in time."""
        return self.late + self.dropped

    @property
    def violating(self) -> NDArray[np.bool_]:
        """Which workloads' P99 latency is beyond the SLO, where a dropped request takes for ever."""
        return self.violations > VIOLATIONS_ALLOWED * (self.served + self.dropped)

    @property
    def violation_rate(self) -> float:
        """Fraction of the requests that came to an end that were not served in time."""
        ended = int((self.served + self.dropped).sum())
        return int(self.violations.sum()) / ended if ended else 0.0
