"""Difficulty of an entry: how much work its proof takes the reference schedulers."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

UNMEASURED = "unmeasured"
"""Word for the difficulty of a proven entry that was not measured."""


class Difficulty(StrEnum):
    """Class of an entry by the work after which every reference scheduler proves its best value.

    The work is one second of a core (toy), ten (easy) or sixty (medium). A hard entry is proven, but some reference
    scheduler does not prove it within sixty seconds. An open entry is not proven.
    """

    TOY = "toy"
    EASY = "easy"
    MEDIUM = "medium"
    HARD = "hard"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class MeasuredDifficulty:
    """Measured difficulty of a proven entry.

    Attributes
    ----------
    proven_s
        By reference scheduler, the work limit in seconds of a core with which it proved the entry; ``None`` if no limit
        sufficed.
    version, date
        Version of the bench, and day of the measurement (ISO 8601).
    """

    difficulty: Difficulty
    proven_s: dict[str, int | None]
    version: str
    date: str


def counted(difficulties: Iterable[str | None]) -> str:
    """Return the number of entries of each difficulty, in words."""
    counts = Counter(difficulty or UNMEASURED for difficulty in difficulties)
    return ", ".join(f"{counts[name]} {name}" for name in (*Difficulty, UNMEASURED) if counts[name])
