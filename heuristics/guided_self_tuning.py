"""Guided self-tuning: GSLICE as gpulet's baseline, tuned in advance on the profile (arXiv'21, Sec. 6.1)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.elastic_partitioning import max_efficient_partition
from heuristics.gpulet_pools import OBJECTIVES, cut_pools, terms_of, warm_cutting
from heuristics.gpulets import Gpulets
from heuristics.greedy_best_fit import fit_spatially
from instances import Instance, Objective
from instances.view import View


@dataclass(frozen=True, slots=True)
class GuidedSelfTuning:
    """Guided self-tuning: each model's most efficient share, or more if its rate needs more, without turns.

    The original GSLICE searches share and batch at run time. The paper gives it the profiled latencies and the most
    efficient share of each model, so tuning is a table look-up here. Workloads are placed in the given order.
    Interference is ignored, and the judge reports violations.
    """

    name: ClassVar[str] = "guided-self-tuning"
    objectives: ClassVar[frozenset[Objective]] = OBJECTIVES
    own_model: ClassVar[bool] = True

    def warm(self) -> None:
        """Load the compiled kernels."""
        warm_cutting(self.cut)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan that serves all workloads."""
        return cut_pools(instance, run, self.cut)

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        terms = terms_of(view, interference=False)
        order = np.arange(len(view.rate_rps), dtype=np.int64)
        efficient = np.array([max_efficient_partition(view, terms, w) for w in order.tolist()], dtype=np.int64)
        gpulets = Gpulets.undivided(gpus, view.tables.share_units)
        rest_rps = view.rate_rps.copy()
        fit_spatially(view.tables, terms, gpulets, order, efficient, rest_rps)
        return None if rest_rps.any() else gpulets
