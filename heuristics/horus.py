"""Horus as MediatorDNN compares with it: contention and mean utilisation, no variation (MediatorDNN, Sec. IV-A)."""

from dataclasses import dataclass
from typing import ClassVar

from bench.api import Outcome, Run
from heuristics.grouping import OBJECTIVES, Fits, fill_by_mean, schedule_groups, warm_grouping
from heuristics.mediator import con_score, ranked_by
from heuristics.utilisation import Utilisation
from instances import Instance, Objective


@dataclass(frozen=True, slots=True)
class Horus:
    """MediatorDNN's loop with ConScore alone, mean utilisations within the GPU, the busiest opening groups.

    Attributes
    ----------
    spend_spare
        Whether spare shares are spent on throughput under ``capacity``.
    """

    name: ClassVar[str] = "horus"
    objectives: ClassVar[frozenset[Objective]] = OBJECTIVES

    spend_spare: bool = True

    def warm(self) -> None:
        """Load the compiled kernels."""
        warm_grouping(self.groups)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan in which every group is a GPU."""
        return schedule_groups(instance, self.groups, self.spend_spare)

    def groups(self, profile: Utilisation, fits: Fits) -> list[list[int]]:
        """Group positions."""
        score = con_score(profile.metrics)
        return fill_by_mean(profile, lambda group, left: ranked_by(score, group, left), fits)
