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

LEAST_BURSTINESS, MOST_BURSTINESS = 0.01, 100.0
"""Range of the burstiness. Far outside it, gaps are all equal, or nearly all 0 and too many to draw."""


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


def parse_arrivals(text: str, where: str = _ARRIVALS) -> Arrivals:
    """Return the arrivals that ``text`` names: a process, ``gamma:CV``, or a trace file.

    Raises
    ------
    InputError
        If ``text`` is neither, or the file is not a trace; ``where`` is the location in the error.
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

    The mean rate must be above 0. Streams of one seed with different names are independent; the same name gives the
    same stream.
    """

    _FEWEST = 64
    """Smallest number of gaps that are drawn at a time."""

    def __init__(self, arrivals: Arrivals, rate_rps: float, seed: int, name: str) -> None:
        self._arrivals = arrivals
        self._rate_rps = rate_rps
        entropy = [seed, int.from_bytes(sha256(name.encode()).digest()[:8], "little")]
        self._random = np.random.Generator(np.random.PCG64(np.random.SeedSequence(entropy)))
        self._count = 0
        self._units = 0.0
        self._waiting = np.empty(0)

    def until(self, limit_ms: float) -> Floats:
        """Return the arrival times up to ``limit_ms``, in ms, after those of earlier calls."""
        parts = [self._waiting]
        while not len(parts[-1]) or parts[-1][-1] <= limit_ms:
            parts.append(self._more(limit_ms))
        times_ms = np.concatenate(parts)
        taken = int(np.searchsorted(times_ms, limit_ms, side="right"))
        self._waiting = times_ms[taken:]
        return times_ms[:taken]

    def _more(self, limit_ms: float) -> Floats:
        """Draw the next requests, approximately up to ``limit_ms``."""
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
        # Times at rate 1, summed one after the other, so that they do not depend on the pieces they are drawn in.
        gaps[0] += self._units
        units = np.cumsum(gaps, out=gaps)
        self._units = float(units[-1])
        if self._arrivals.trace is not None:
            return self._arrivals.trace.times_ms(units, self._rate_rps)
        units *= period_ms
        return units
