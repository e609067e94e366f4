"""Finding of ``bench doctor``: one thing that was checked, with its result."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """How bad a finding is."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at.

    Attributes
    ----------
    check
        What it is about, in a word or two.
    level
        ``error``: runs would fail or be wrong; ``warning``: they would be slower or less telling.
    found
        What there is.
    advice
        What to do; empty if nothing.
    """

    check: str
    level: Level
    found: str
    advice: str = ""
