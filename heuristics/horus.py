"""Horus as MediatorDNN's baseline: contention and mean utilisation without variation (MediatorDNN, Sec. IV-A)."""

from dataclasses import dataclass
from typing import ClassVar

from heuristics.grouping import Fits, Grouping, fill_by_mean
from heuristics.mediator import con_score, ranked_by
from heuristics.utilisation import Utilisation


@dataclass(frozen=True, slots=True)
class Horus(Grouping):
    """Horus: MediatorDNN's loop with ConScore alone and mean utilisations within the GPU; the busiest opens a group.

    Attributes
    ----------
    standardise
        Standardise each metric over the jobs before distances are computed; see ``Mediator``.
    """

    name: ClassVar[str] = "horus"

    standardise: bool = False

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Return the groups of positions."""
        score = con_score(profile.metrics, self.standardise)
        return fill_by_mean(profile, lambda group, left: ranked_by(score, group, left), fits)
