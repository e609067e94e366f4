"""Horus as MediatorDNN compares with it: contention and mean utilisation, no variation (MediatorDNN, Sec. IV-A)."""

from dataclasses import dataclass
from typing import ClassVar

from heuristics.grouping import Fits, Grouping, fill_by_mean
from heuristics.mediator import con_score, ranked_by
from heuristics.utilisation import Utilisation


@dataclass(frozen=True, slots=True)
class Horus(Grouping):
    """MediatorDNN's loop with ConScore alone, mean utilisations within the GPU, the busiest opening groups.

    Attributes
    ----------
    standardise
        Standardise each metric over the jobs before distances are taken; see ``Mediator``.
    """

    name: ClassVar[str] = "horus"

    standardise: bool = False

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Group positions."""
        score = con_score(profile.metrics, self.standardise)
        return fill_by_mean(profile, lambda group, left: ranked_by(score, group, left), fits)
