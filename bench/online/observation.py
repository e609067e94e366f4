"""Observation of a serving system: counts by workload over an interval."""

from dataclasses import dataclass, fields
from operator import add, attrgetter, sub
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bench.simulation.allowance import VIOLATIONS_ALLOWED
from instances.arrays import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Observation:
    """Observation of an interval of ``seconds``; every array has shape (workloads,).

    Attributes
    ----------
    arrived
        Requests that arrived.
    served, late, dropped
        Served requests, late requests among the served requests, and dropped requests.
    service_ms
        Time from the start of the batch to the result, summed over the served requests.
    """

    seconds: float
    arrived: Ints
    served: Ints
    late: Ints
    dropped: Ints
    service_ms: Floats

    @classmethod
    def empty(cls, workloads: int) -> Self:
        """Return the observation of an empty interval."""
        zeros = np.zeros(workloads, dtype=np.int64)
        return cls(0.0, zeros, zeros, zeros, zeros, np.zeros(workloads))

    def __add__(self, other: "Observation") -> "Observation":
        return Observation(*map(add, _fields(self), _fields(other)))

    def __sub__(self, other: "Observation") -> "Observation":
        return Observation(*map(sub, _fields(self), _fields(other)))

    def of_workload(self, position: int) -> dict[str, Any]:
        """Return the counts of one workload as JSON values."""
        return {
            "requests": int(self.arrived[position]),
            "throughput_rps": float(self.throughput_rps[position]),
            "late": int(self.late[position]),
            "dropped": int(self.dropped[position]),
        }

    @property
    def rate_rps(self) -> Floats:
        """Requests that arrived per second."""
        return self.arrived / self.seconds

    @property
    def throughput_rps(self) -> Floats:
        """Requests served per second."""
        return self.served / self.seconds

    @property
    def violations(self) -> Ints:
        """Requests that were late or dropped."""
        return self.late + self.dropped

    @property
    def violating(self) -> NDArray[np.bool_]:
        """Workloads whose P99 latency exceeds the SLO; the latency of a dropped request counts as infinite."""
        return self.violations > VIOLATIONS_ALLOWED * (self.served + self.dropped)

    @property
    def violation_rate(self) -> float:
        """Fraction of the finished requests that were late or dropped."""
        finished = int((self.served + self.dropped).sum())
        return int(self.violations.sum()) / finished if finished else 0.0


_fields = attrgetter(*(field.name for field in fields(Observation)))
"""Function that returns the fields of an observation as a tuple."""
