"""Random fit: every workload on a random GPU with room; a reference point that every scheduler should beat."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run, Status
from heuristics.baselines.placement import Placement, PlacementProblem, order_waiting, warm_placement
from heuristics.packing import UnservableError
from instances import Instance, Objective, Plan

FIRST_NOISE = 4.0
"""Standard deviation of the logarithmic noise on the sizes that order draw 2; in draw n it is divided by n - 1."""


@dataclass(frozen=True, slots=True)
class RandomFit:
    """Random feasible placement: a reference point.

    Workloads are placed in random order. Each workload goes to a GPU in use that has room at its full rate; all such
    GPUs and batches are equally likely. Without such a GPU, the workload goes to a new GPU. Shares are the least
    feasible shares. If a required workload is left out, the draw is repeated. Later draws are ordered from large to
    small, with less noise in every draw. The same seed gives the same plan.

    Attributes
    ----------
    draws
        Limit on the draws, at least 1. A work limit also counts draws and replaces this limit.
    """

    name: ClassVar[str] = "random"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY, Objective.GOODPUT})

    work_unit: ClassVar[str] = "draws"

    draws: int = 100

    def __post_init__(self) -> None:
        if self.draws < 1:
            raise ValueError(f"draws is {self.draws}; expected at least 1")

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_placement()

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a random feasible plan."""
        random = np.random.default_rng(run.seed)
        try:
            problem = PlacementProblem.of(instance)
        except UnservableError as error:
            return Outcome(error.status, reason=str(error))
        for draw in range(1, max(1, run.work_left(0, self.draws)) + 1):
            placement = Placement.empty(problem)
            random.shuffle(placement.waiting)
            if draw > 1:
                order_waiting(placement, random, FIRST_NOISE / (draw - 1))
            placement.insert(random.permutation(len(problem.views)).tolist(), random, at_random=True)
            if not len(placement.waiting) or instance.objective is Objective.GOODPUT:
                return Outcome(Status.FEASIBLE, Plan(instance.name, placement.gpus()), statistics={"draws": draw})
            if run.remaining_s <= 0.0:
                break
        return Outcome(Status.UNKNOWN, statistics={"draws": draw}, reason=placement.shortage())
