"""Checks of the solvers and the machine for ``bench doctor``; each results in a finding."""

from dataclasses import dataclass
from enum import StrEnum


class Level(StrEnum):
    """Severity of a finding."""

    OK = "ok"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of one check.

    Attributes
    ----------
    check
        Subject of the check, in a word or two.
    level
        ``error``: runs would fail or be wrong; ``warning``: runs would be slower or their times less reliable.
    found, advice
        Observation, and the recommended action or an empty text.
    """

    check: str
    level: Level
    found: str
    advice: str = ""


def rated(check: str, found: str, good: bool, advice: str) -> Finding:
    """Return a finding: fine if ``good``, otherwise a warning with advice."""
    return Finding(check, Level.OK, found) if good else Finding(check, Level.WARNING, found, advice)
