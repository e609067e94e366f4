"""Base class of hostile schedulers, and reasons that many of their rows have."""

from dataclasses import dataclass
from typing import ClassVar

from toy_schedulers import Base

from bench.api import Outcome, Run
from instances import Instance

KILLED = "killed ... s into a time limit of ... s"
MAY_BE_MEMORY = "; the memory limit of 4096 MiB may be the cause"


@dataclass(frozen=True)
class Hostile(Base):
    """A scheduler that attacks the bench, then returns an honest plan.

    Attributes
    ----------
    how
        Variant of the attack, a key of ``ENDS``; by default the first.
    ENDS
        Termination and reason that the row of each variant must have, with a time limit of 5 s and a memory limit of
        4 GiB. In a reason, ``...`` stands for any text.
    REFUTED
        Variants whose claim must be refuted by an honest row.
    """

    ENDS: ClassVar[dict[str, tuple[str, str]]] = {"": ("finished", "")}
    REFUTED: ClassVar[frozenset[str]] = frozenset()
    how: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "how", self.how or next(iter(self.ENDS)))

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        self.attack(instance, run)
        return super().schedule(instance, run)

    def attack(self, instance: Instance, run: Run) -> None:
        """Do something hostile."""
