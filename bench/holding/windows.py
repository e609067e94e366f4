"""Measured seconds and part of an arrival trace of each simulation in the test whether a plan holds."""

import math
from dataclasses import dataclass, replace

from bench.holding.attainment import Spread
from bench.simulation.arrivals import Arrivals
from bench.simulation.settings import Settings
from bench.simulation.trace import Trace

SIMULATIONS, BLOCKS = 10, 10
"""Number of simulations, and of blocks of equal length in each."""

SECONDS = 300.0
"""Measured time of a simulation, unless it must be longer."""

FIRST_SEED = 7_000_000
"""First seed of the simulations; schedulers and ``bench run`` use small seeds."""

MOST_REQUESTS_OF_WHOLE_TRACES = 1_000_000_000
"""Most requests of all simulations together if each simulation covers a whole trace."""


@dataclass(frozen=True, slots=True)
class Windows:
    """Arrivals and measured time of the simulations of a test.

    Attributes
    ----------
    arrivals
        Arrival process of the test.
    seconds
        Measured seconds of each simulation.
    spread
        See ``Spread``.
    """

    arrivals: Arrivals
    seconds: float
    spread: Spread

    def at_least(self, seconds: float) -> "Windows":
        """Return windows of at least ``seconds``; with a trace, of whole rounds of the trace."""
        trace = self.arrivals.trace
        if trace is not None:
            seconds = _rounds_s(trace, seconds)
        return replace(self, seconds=seconds)

    def settings(self, number: int, warmup_s: float, dropping: bool | None) -> Settings:
        """Return the settings of simulation ``number``; every second simulation begins with a backlog."""
        arrivals, trace = self.arrivals, self.arrivals.trace
        if trace is not None:
            # The measurement begins where the trace, or this simulation's part of it, begins.
            warmup_s = float(math.ceil(warmup_s))
            first_s = number * len(trace.rates_rps) // SIMULATIONS if self.spread is Spread.TRACE_PARTS else 0
            arrivals = replace(arrivals, trace=trace.beginning_at(first_s - int(warmup_s)))
        return Settings(
            arrivals,
            self.seconds,
            warmup_s,
            FIRST_SEED + number,
            dropping=dropping,
            interval_s=self.seconds / BLOCKS,
            backlog=number % 2 == 1,
        )


def windows_of(arrivals: Arrivals, requests_rps: float, seconds: float | None) -> Windows:
    """Return the windows of a test.

    Every simulation covers a trace in whole rounds, except in two cases: ``seconds`` is shorter than the trace, or more
    than ``MOST_REQUESTS_OF_WHOLE_TRACES`` requests would arrive. Then each simulation covers another part of the trace.
    The parts begin at equal distances.
    """
    trace = arrivals.trace
    if trace is None:
        return Windows(arrivals, seconds or SECONDS, Spread.STATIONARY)
    length_s = len(trace.rates_rps)
    most_s = MOST_REQUESTS_OF_WHOLE_TRACES / (SIMULATIONS * requests_rps) if requests_rps > 0.0 else math.inf
    if seconds is None and length_s > max(SECONDS, most_s):
        seconds = max(SECONDS, float(math.floor(most_s)))
    if seconds is not None and seconds < length_s:
        return Windows(arrivals, seconds, Spread.TRACE_PARTS)
    return Windows(arrivals, _rounds_s(trace, seconds or SECONDS), Spread.WHOLE_TRACE)


def _rounds_s(trace: Trace, seconds: float) -> float:
    """Return the time of the fewest whole rounds of a trace that take at least ``seconds``."""
    length_s = len(trace.rates_rps)
    return float(length_s * math.ceil(seconds / length_s - 1e-9))
