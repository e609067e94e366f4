"""Bin packing as MediatorDNN's baseline: mean utilisation as close to capacity as possible (Sec. IV-A)."""

from dataclasses import dataclass
from typing import ClassVar

from heuristics.grouping import Fits, Grouping, fill_by_mean
from heuristics.utilisation import Utilisation


@dataclass(frozen=True, slots=True)
class BinPacking(Grouping):
    """Bin packing by mean utilisation: each GPU takes the busiest that fits; contention and variation do not count."""

    name: ClassVar[str] = "bin-packing"

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Return the groups of positions."""
        return fill_by_mean(profile, lambda group, left: list(left), fits)
