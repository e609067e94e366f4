"""Benchmark set of the library: a diverse part of the entries, small enough to be run as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

BENCHMARK = "benchmark"
"""Name that selects the set: ``library/benchmark``."""


@dataclass(frozen=True, slots=True)
class BenchmarkSet:
    """Benchmark set; ``instances.library.choosing`` has the procedure by which it was chosen.

    Attributes
    ----------
    version
        Version of the set; a changed set has a new version.
    entries
        Names of the entries, in alphabetical order.
    difficulties
        Difficulty of each candidate when the set was chosen; ``None`` if it was not measured.
    """

    version: int
    entries: Sequence[str]
    difficulties: Mapping[str, str | None]
