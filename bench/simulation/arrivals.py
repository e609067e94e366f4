"""Arrivals of requests: an endless stream per workload or application, independent of the plan that serves it."""

import math
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

import numpy as np

from bench.simulation.trace import Trace, read_rate_trace
from instances import InputError
from instances.arrays import Floats
from instances.errors import FieldName, unknown_name
from instances.special_files import refuse_special

DEFAULT_BURSTINESS = 3.0
"""Burstiness of ``gamma`` without a number."""

LEAST_BURSTINESS, MOST_BURSTINESS = 0.01, 100.0
"""Range of the burstiness. Far below this range, all gaps are equal. Far above it, nearly all gaps are 0, and too many
requests must be drawn."""


class Process(StrEnum):
    """Kind of arrival process.

    ``constant``: equal gaps. ``poisson``: independent arrivals. ``gamma``: gamma-distributed gaps; a coefficient of
    variation above 1 gives bursts. ``trace``: independent arrivals with a rate that changes every second.
    """

    CONSTANT = "constant"
    POISSON = "poisson"
    GAMMA = "gamma"
    TRACE = "trace"


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Arrival process of all streams of a simulation.

    Attributes
    ----------
    burstiness
        Coefficient of variation of the gaps of ``gamma``; 1 is Poisson.
    trace
        Shape of the rate for ``trace``, scaled to each workload's rate.
    """

    process: Process = Process.POISSON
    burstiness: float = DEFAULT_BURSTINESS
    trace: Trace | None = None

    def __post_init__(self) -> None:
        if (self.process is Process.TRACE) != (self.trace is not None):
            raise InputError("arrivals", "expected a trace for the process `trace` and for no other process")
        if not LEAST_BURSTINESS <= self.burstiness <= MOST_BURSTINESS:
            expected = f"expected a number from {LEAST_BURSTINESS:g} to {MOST_BURSTINESS:g}"
            raise InputError("arrivals", f"burstiness {self.burstiness:g}; {expected}")

    @property
    def label(self) -> str:
        """Name for people: the text that ``parse_arrivals`` reads, or the name of the trace."""
        if self.process is Process.GAMMA:
            return f"gamma:{self.burstiness:g}"
        return self.trace.name if self.trace is not None else str(self.process)

    @property
    def identity(self) -> str:
        """Text that identifies the arrivals: the label and, for a trace, its fingerprint."""
        return self.label if self.trace is None else f"{self.label} {self.trace.fingerprint}"


_ARRIVALS = FieldName("arrivals")
"""Place of an error, unless the caller names another."""


def parse_arrivals(text: str, where: str = _ARRIVALS) -> Arrivals:
    """Return the arrivals that ``text`` names: a process, ``gamma:CV``, or a trace file.

    Raises
    ------
    InputError
        If ``text`` names no process and no trace file. The error names the location ``where``.
    """
    name, _, burstiness = text.partition(":")
    if name in (Process.CONSTANT, Process.POISSON) and not burstiness:
        return Arrivals(Process(name))
    if name == Process.GAMMA:
        try:
            return Arrivals(Process.GAMMA, float(burstiness or DEFAULT_BURSTINESS))
        except ValueError:
            raise InputError(
                where, f'"{text}"; expected a burstiness (a number) after the colon, such as gamma:3'
            ) from None
    path = Path(text)
    refuse_special(path)
    if path.is_file():
        return Arrivals(Process.TRACE, trace=read_rate_trace(path))
    if path.suffix or len(path.parts) > 1:
        raise InputError(where + f" {text}", "no such file; expected a process or a file of requests per second")
    processes = [str(process) for process in Process if process is not Process.TRACE]
    raise unknown_name(where, "arrival process", text, processes)


class Stream:
    """Requests of one workload or application, in the order of time.

    The mean rate must be above 0. The seed and the name determine the stream. Streams with different names are
    independent.
    """

    _FEWEST = 64
    """Smallest number of gaps that are drawn at a time."""

    def __init__(self, arrivals: Arrivals, rate_rps: float, seed: int, name: str) -> None:
        self._arrivals = arrivals
        self._rate_rps = rate_rps
        entropy = [seed, int.from_bytes(sha256(name.encode()).digest()[:8], "little")]
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
        self._drawn = 0
        self._last_time_at_rate_1 = 0.0
        self._drawn_ahead_ms = np.empty(0)

    def until(self, limit_ms: float) -> Floats:
        """Return the arrival times in ms up to ``limit_ms`` that no earlier call returned."""
        pieces = [self._drawn_ahead_ms]
        while not len(pieces[-1]) or pieces[-1][-1] <= limit_ms:
            pieces.append(self._draw(limit_ms))
        times_ms = np.concatenate(pieces)
        count = int(np.searchsorted(times_ms, limit_ms, side="right"))
        self._drawn_ahead_ms = times_ms[count:]
        return times_ms[:count]

    def _draw(self, limit_ms: float) -> Floats:
        """Draw the next requests, approximately up to ``limit_ms``."""
        count = max(self._FEWEST, math.ceil(self._rate_rps * limit_ms / 1000.0 * 1.01) - self._drawn)
        self._drawn += count
        period_ms = 1000.0 / self._rate_rps
        if self._arrivals.process is Process.CONSTANT:
            return np.arange(self._drawn - count, self._drawn, dtype=np.float64) * period_ms
        if self._arrivals.process is Process.GAMMA:
            shape = self._arrivals.burstiness**-2
            gaps = self._random.standard_gamma(shape, count) / shape
        else:
            gaps = self._random.standard_exponential(count)
        # Times at rate 1. They are summed one after the other, so that no time depends on the sizes of the draws.
        gaps[0] += self._last_time_at_rate_1
        times_at_rate_1 = np.cumsum(gaps, out=gaps)
        self._last_time_at_rate_1 = float(times_at_rate_1[-1])
        if self._arrivals.trace is not None:
            return self._arrivals.trace.times_ms(times_at_rate_1, self._rate_rps)
        times_at_rate_1 *= period_ms
        return times_at_rate_1
