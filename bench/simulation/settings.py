"""Settings of a simulation."""

import math
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from bench.simulation.arrivals import Arrivals
from bench.simulation.serving_rules import longest_request_s
from bench.simulation.trace import MOST_SECONDS
from instances import InputError, Instance
from instances.errors import FieldName

MOST_REQUESTS = 10_000_000_000
"""Largest number of requests of a simulation. On one core, they take from a quarter of an hour to several hours."""

MOST_INTERVALS = 86_400
"""Largest number of intervals of a series, the seconds of a day; the intervals of all workloads are in memory."""

DRAIN_S, DRAIN_REQUESTS = 60.0, 2.0
"""Longest time after the last measured arrival, in seconds and in multiples of the longest request; the larger time
counts. Requests that are not served by then count as unfinished."""


class Interference(StrEnum):
    """Neighbours that slow a batch: all neighbours at all times, or neighbours whose batches overlap with the batch."""

    STATIC = "static"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a simulation.

    Attributes
    ----------
    seconds, warmup_s
        Simulated time that is measured, and simulated time before the measurement; both at most ``MOST_SECONDS``. If
        ``warmup_s`` is ``None``, ``bench.simulation.load.warmup_s`` computes the time before the measurement.
    seed
        Seed of the arrivals and the noise; every plan gets the same requests for the same seed.
    dropping
        Whether requests that can no longer meet their SLO are dropped when their batch starts; ``None``: as the
        instance says.
    noise
        Standard deviation of the logarithm of a factor on each batch's GPU time.
    interval_s
        Length of the intervals of a series; ``None`` for no series.
    backlog
        Whether servers begin only after the longest request of their workloads, so that requests wait at first.
        Otherwise the simulation begins with idle servers.
    """

    arrivals: Arrivals = field(default_factory=Arrivals)
    seconds: float = 30.0
    warmup_s: float | None = None
    seed: int = 0
    interference: Interference = Interference.DYNAMIC
    dropping: bool | None = None
    noise: float = 0.0
    interval_s: float | None = None
    backlog: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.seconds <= MOST_SECONDS:
            raise InputError(
                FieldName("seconds"), f"{self.seconds:g}; expected a time above 0, at most {MOST_SECONDS:,} s"
            )
        if self.intervals > MOST_INTERVALS:
            expected = f"expected a time of at most {MOST_INTERVALS * (self.interval_s or 0.0):,g} s with a series"
            raise InputError(FieldName("seconds"), f"{self.seconds:g}; {expected}")
        if self.warmup_s is not None and not 0.0 <= self.warmup_s <= MOST_SECONDS:
            raise InputError(FieldName("warmup_s"), f"{self.warmup_s:g}; expected a time from 0 to {MOST_SECONDS:,} s")
        if not 0 <= self.seed < 2**63:
            raise InputError(FieldName("seed"), f"{self.seed}; expected a whole number from 0 to 2^63 - 1")
        if not 0.0 <= self.noise < 10.0:
            raise InputError(
                FieldName("noise"), f"{self.noise:g}; expected a standard deviation of at least 0, below 10"
            )

    @property
    def intervals(self) -> int:
        """Number of intervals of the series; 0 without one."""
        return 0 if self.interval_s is None else max(1, math.ceil(self.seconds / self.interval_s - 1e-9))

    def drops(self, instance: Instance) -> bool:
        """Return whether requests that can no longer meet their SLO are dropped."""
        return instance.dropping if self.dropping is None else self.dropping


def drain_s(instance: Instance) -> float:
    """Return the longest simulated time after the last measured arrival."""
    return min(MOST_SECONDS, max(DRAIN_S, DRAIN_REQUESTS * longest_request_s(instance)))


class KernelSettings(NamedTuple):
    """Settings of the compiled event loop.

    Attributes
    ----------
    from_ms, to_ms
        Begin (included) and end (excluded) of the measurement; requests that arrive in between count.
    dynamic
        Whether batches slow each other only while they overlap; otherwise every neighbour is always active.
    dropping
        Whether requests that can no longer meet their SLO are dropped.
    noise, seed
        As in ``Settings``; the seed is that of the noise.
    interval_ms
        Length of the intervals of a series.
    """

    from_ms: float
    to_ms: float
    dynamic: bool
    dropping: bool
    noise: float
    seed: int
    interval_ms: float
