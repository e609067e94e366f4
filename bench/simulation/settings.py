"""Settings of a simulation."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from bench.simulation.arrivals import Arrivals
from bench.simulation.trace import MOST_SECONDS
from instances import InputError

MOST_REQUESTS = 10_000_000_000
"""Largest number of requests of a simulation. On one core, they take from a quarter of an hour to several hours."""

MOST_SERIES_S = 86_400
"""Longest simulation with a series: a day, since all seconds of all workloads are in memory."""

LONGEST_DRAIN_S = 60.0
"""Longest simulated time after the last measured arrival; requests not served by then count as unfinished."""


class Interference(StrEnum):
    """Neighbours that slow a batch: all neighbours at all times, or those whose batches overlap with it."""

    STATIC = "static"
    DYNAMIC = "dynamic"


@dataclass(frozen=True, slots=True)
class Settings:
    """Settings of a simulation.

    Attributes
    ----------
    seconds, warmup_s
        Measured simulated time, and time before it; at most ``MOST_SECONDS``, with a series ``MOST_SERIES_S``.
    seed
        Seed of the arrivals and the noise; every plan gets the same requests for the same seed.
    dropping
        Whether requests that can no longer meet their SLO are dropped when their batch starts.
    noise
        Standard deviation of the logarithm of a factor on each batch's GPU time.
    by_second
        Whether to record a series by second.
    """

    arrivals: Arrivals = field(default_factory=Arrivals)
    seconds: float = 30.0
    warmup_s: float = 5.0
    seed: int = 0
    interference: Interference = Interference.DYNAMIC
    dropping: bool = True
    noise: float = 0.0
    by_second: bool = False

    def __post_init__(self) -> None:
        most_s = MOST_SERIES_S if self.by_second else MOST_SECONDS
        if not 0.0 < self.seconds <= most_s:
            kept = " with a series by second" if self.by_second else ""
            raise InputError(
                "--seconds", f"{self.seconds:g}; expected a time greater than 0, at most {most_s:,} s{kept}"
            )
        if not 0.0 <= self.warmup_s <= MOST_SECONDS:
            raise InputError("--warmup", f"{self.warmup_s:g}; expected a time from 0 to {MOST_SECONDS:,} s")
        if not 0 <= self.seed < 2**63:
            raise InputError("--seed", f"{self.seed}; expected a whole number from 0 to 2^63 - 1")
        if not 0.0 <= self.noise < 10.0:
            raise InputError("--noise", f"{self.noise:g}; expected a standard deviation of at least 0, below 10")


class KernelSettings(NamedTuple):
    """Settings of the compiled event loop.

    Attributes
    ----------
    from_ms, to_ms
        Begin (included) and end (excluded) of the measurement; requests that arrive in between count.
    dynamic
        Whether batches slow each other only while they overlap; otherwise every neighbour is always active.
    dropping, noise, seed
        As in ``Settings``; the seed is that of the noise.
    """

    from_ms: float
    to_ms: float
    dynamic: bool
    dropping: bool
    noise: float
    seed: int
