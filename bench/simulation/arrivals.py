"""Arrivals of requests: one endless stream for each workload, the same whatever plan serves it."""

import math
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

import numpy as np

from bench.simulation.trace import Trace, read_trace
from instances import InputError
from instances.arrays import Floats
from instances.errors import unknown_name

DEFAULT_BURSTINESS = 3.0

LEAST_BURSTINESS, MOST_BURSTINESS = 0.01, 100.0
"""Far beyond, gaps are all equal or nearly all 0, and drawing enough of them takes for ever."""


class Process(StrEnum):
    """How requests follow each other.

    ``constant``: at equal distances. ``poisson``: independently. ``gamma``: in bursts, with gaps of a coefficient of
    variation above 1. ``trace``: independently, at a rate that changes from second to second.
    """

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"
    TRACE = "trace"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The process behind every stream of a simulation.

    Attributes
    ----------
    process
        Its kind.
    burstiness
        Coefficient of variation of the gaps of ``gamma``; 1 is Poisson.
    trace
        Of ``trace``: its shape, scaled to each workload's rate.
    """

    process: Process = Process.POISSON
    burstiness: float = DEFAULT_BURSTINESS
    trace: Trace | None = None

    def __post_init__(self) -> None:
        if (self.process is Process.TRACE) != (self.trace is not None):
            raise InputError("arrivals", "a trace belongs to the process `trace` and to no other")
        if not LEAST_BURSTINESS <= self.burstiness <= MOST_BURSTINESS:
            expected = f"expected a number from {LEAST_BURSTINESS:g} to {MOST_BURSTINESS:g}"
            raise InputError("arrivals", f"burstiness {self.burstiness:g}; {expected}")

    @property
    def label(self) -> str:
        """How people name it: what ``parse_arrivals`` reads, or the name of the trace."""
        if self.process is Process.GAMMA:
            return f"gamma:{self.burstiness:g}"
        return self.trace.name if self.trace is not None else str(self.process)

    @property
    def identity(self) -> str:
        """What tells two of them apart: the label and, of a trace, what is in it."""
        return self.label if self.trace is None else f"{self.label} {self.trace.fingerprint}"


def parse_arrivals(text: str, where: str = "arrivals") -> Arrivals:
    """Return the arrivals that ``text`` names: a process, ``gamma:CV``, or the file of a trace.

    Raises
    ------
    InputError
        If it is neither, or the file holds no trace; ``where`` names who asked.
    """
    name, _, burstiness = text.partition(":")
    if name in (Process.CONSTANT, Process.POISSON) and not burstiness:
        return Arrivals(Process(name))
    if name == Process.GAMMA:
        try:
            return Arrivals(Process.GAMMA, float(burstiness or DEFAULT_BURSTINESS))
        except ValueError:
            raise InputError(where, f'"{text}"; expected a burstiness behind the colon, such as gamma:3') from None
    path = Path(text)
    if path.is_file():
        return Arrivals(Process.TRACE, trace=read_trace(path))
    if path.suffix or len(path.parts) > 1:
        raise InputError(f"{where} {text}", "no such file; expected a process or a file of requests per second")
    processes = [str(process) for process in Process if process is not Process.TRACE]
    raise unknown_name(where, "arrival process", text, processes)


class Stream:
    """The requests of one workload, in the order of time.

    Parameters
    ----------
    arrivals
        The process.
    rate_rps
        Mean rate, above 0.
    seed
        Of the simulation.
    name
        Of the workload: streams of different workloads are independent, those of the same workload always the same.
    """

    _FEWEST = 64
    """Gaps drawn at a time."""

    def __init__(self, arrivals: Arrivals, rate_rps: float, seed: int, name: str) -> None:
        self._arrivals = arrivals
        self._rate_rps = rate_rps
        entropy = [seed, int.from_bytes(sha256(name.encode()).digest()[:8], "little")]
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
        self._count = 0
        self._units = 0.0
        self._waiting = np.empty(0)

    def until(self, limit_ms: float) -> Floats:
        """Return the requests up to ``limit_ms``, in ms, that no earlier call has returned."""
        parts = [self._waiting]
        while not len(parts[-1]) or parts[-1][-1] <= limit_ms:
            parts.append(self._more(limit_ms))
        times_ms = np.concatenate(parts)
        taken = int(np.searchsorted(times_ms, limit_ms, side="right"))
        self._waiting = times_ms[taken:]
        return times_ms[:taken]

    def _more(self, limit_ms: float) -> Floats:
        """Draw the next requests, about as many as come until ``limit_ms``."""
        number = max(self._FEWEST, math.ceil(self._rate_rps * limit_ms / 1000.0 * 1.01) - self._count)
        self._count += number
        period_ms = 1000.0 / self._rate_rps
        if self._arrivals.process is Process.CONSTANT:
            return np.arange(self._count - number, self._count, dtype=np.float64) * period_ms
        if self._arrivals.process is Process.GAMMA:
            shape = self._arrivals.burstiness**-2
            gaps = self._random.standard_gamma(shape, number) / shape
        else:
            gaps = self._random.standard_exponential(number)
        # Times at rate 1, added one after the other: in whatever pieces they are drawn, they are the same.
        gaps[0] += self._units
        units = np.cumsum(gaps, out=gaps)
        self._units = float(units[-1])
        if self._arrivals.trace is not None:
            return self._arrivals.trace.times_ms(units, self._rate_rps)
        units *= period_ms
        return units
