"""Bin packing as MediatorDNN compares with it: mean utilisation as close to capacity as can be (Sec. IV-A)."""

from dataclasses import dataclass
from typing import ClassVar

from heuristics.grouping import Fits, Grouping, fill_by_mean
from heuristics.utilisation import Utilisation


@dataclass(frozen=True, slots=True)
class BinPacking(Grouping):
    """Fill each GPU with the busiest that still fits: best fit on the mean, blind to contention and variation."""

    name: ClassVar[str] = "bin-packing"

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Group positions."""
        return fill_by_mean(profile, lambda group, left: list(left), fits)
