"""Rate traces: requests per second for every second, from a CSV file that may be compressed."""

import gzip
import io
import zlib
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path

import numpy as np

from instances import InputError
from instances.arrays import Floats
from instances.special_files import refuse_special

MOST_SECONDS = 10_000_000
"""Longest trace and longest simulation: a third of a year. A longer file is refused, not read into memory."""

MOST_RPS = 1e9
"""Largest rate, above that of any service; sums of many such rates are still exact enough for drawing arrivals."""

_LONGEST_LINE = 200
"""Number of bytes at which a line counts as too long."""


@dataclass(frozen=True)
class Trace:
    """Rate of a stream over time; it repeats from its start.

    Attributes
    ----------
    name
        Name of its file.
    rates_rps
        Rate in each second, not negative, not all 0; shape (seconds,).
    """

    name: str
    rates_rps: Floats

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the rates."""
        return sha256(np.ascontiguousarray(self.rates_rps).tobytes()).hexdigest()

    @cached_property
    def _expected(self) -> Floats:
        """Expected number of requests up to each second, as a fraction of the number in the whole trace."""
        cumulative_rps = np.append(0.0, np.cumsum(self.rates_rps))
        return cumulative_rps / cumulative_rps[-1]

    def part(self, first_s: int, seconds: int) -> "Trace":
        """Return the part of ``seconds`` seconds from ``first_s`` on as a trace."""
        rates_rps = self.rates_rps[first_s : first_s + seconds]
        if not rates_rps.any():
            raise InputError(self.name, f"holds no requests in the {seconds} s from second {first_s} on")
        return Trace(f"{self.name}[{first_s}:{first_s + seconds}]", rates_rps)

    def beginning_at(self, first_s: int) -> "Trace":
        """Return the same endless trace from second ``first_s`` on; ``first_s`` may be negative."""
        return Trace(self.name, np.roll(self.rates_rps, -(first_s % len(self.rates_rps))))

    def times_ms(self, times_at_rate_1: Floats, mean_rps: float) -> Floats:
        """Return the arrival times in ms that correspond to the nondecreasing arrival times of a stream of rate 1.

        ``mean_rps`` is the mean rate over the whole trace.
        """
        seconds = len(self.rates_rps)
        rounds, fraction = np.divmod(times_at_rate_1 / (mean_rps * seconds), 1.0)
        return (rounds * seconds + np.interp(fraction, self._expected, np.arange(seconds + 1.0))) * 1000.0


def read_rate_trace(path: Path) -> Trace:
    """Read requests per second, one number per line.

    A first line that is not a number is a heading. Files whose name ends in ``.gz`` are decompressed.

    Raises
    ------
    InputError
        If a rate is not a number from 0 to ``MOST_RPS``, no rate is above 0, or the file is too long or cannot be read.
        The message names the file and the line.
    """
    refuse_special(path)
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as lines:
            return Trace(path.name, _rates_rps(str(path), lines))
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(str(path), f"cannot be read: {getattr(error, 'strerror', None) or error}") from None


def _rates_rps(where: str, lines: gzip.GzipFile | io.BufferedReader) -> Floats:
    """Return the rate of every line; ``where`` names the file in errors."""
    rates: list[float] = []
    number = 0
    while line := lines.readline(_LONGEST_LINE):
        number += 1
        if len(line) == _LONGEST_LINE or len(rates) == MOST_SECONDS:
            raise InputError(
                f"{where}: line {number}", "is too long; expected one rate per line, at most 10 million lines"
            )
        text = line.decode("utf-8-sig", errors="replace").strip()
        if not text:
            continue
        try:
            rate = float(text)
        except ValueError:
            if number == 1:
                continue
            raise InputError(f"{where}: line {number}", f'"{text}" is not a number of requests per second') from None
        if not 0.0 <= rate <= MOST_RPS:
            raise InputError(f"{where}: line {number}", f"{text} req/s; expected a number from 0 to {MOST_RPS:,.0f}")
        rates.append(rate)
    if not any(rates):
        raise InputError(where, "holds no rate above 0; expected one number of requests per second per line")
    return np.array(rates)
