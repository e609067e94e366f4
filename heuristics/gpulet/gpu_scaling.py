"""GPU scaling: GPUs are added one at a time until all workloads are served (gpulet ATC'22, Algorithm 2)."""

from dataclasses import dataclass
from math import ceil
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.gpulet.best_fit import GreedyBestFit, GuidedSelfTuning
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning
from heuristics.gpulet.ideal import Ideal
from heuristics.gpulet.pools import CuttingRule, cut_pools, warm_cutting
from heuristics.gpulet.sbp import SquishyBinPacking
from heuristics.gpulet.state import Gpulets
from instances import Instance, Objective
from instances.errors import unknown_name
from instances.view import View

_RULES: dict[str, CuttingRule] = {
    rule.name: rule.cut
    for rule in (ElasticPartitioning(), SquishyBinPacking(), GreedyBestFit(), GuidedSelfTuning(), Ideal())
}


@dataclass(frozen=True, slots=True)
class GpuScaling:
    """GPU scaling (gpulet ATC'22, Algorithm 2): a rule with as many GPUs as before, then with one more at a time.

    The number of GPUs starts at that of the start plan (the last period) and is limited by the pool. Without a start
    plan it starts at the number that the rule uses on the whole pool, and falls by one while all workloads are still
    served.

    Attributes
    ----------
    of
        Name of the rule: ``elastic-partitioning``, ``sbp``, ``greedy-best-fit``, ``guided-self-tuning`` or ``ideal``.
    """

    name: ClassVar[str] = "gpu-scaling"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})

    of: str = ElasticPartitioning.name

    def __post_init__(self) -> None:
        if self.of not in _RULES:
            raise unknown_name("gpu-scaling.of", "rule", self.of, list(_RULES))

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_cutting(_RULES[self.of])

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan on the smallest tried number of GPUs that serves all workloads."""
        rule, used = _RULES[self.of], run.start.gpus_used if run.start is not None else 0

        def grown(view: View, limit: int) -> Gpulets | None:
            gpus = min(limit, used)  # line 2
            gpulets = rule(view, gpus)  # line 3
            while gpulets is None and gpus < limit and run.remaining_s > 0.0:  # line 4
                gpus += 1  # line 5
                gpulets = rule(view, gpus)  # line 6
            return gpulets  # lines 8-10

        def shrunk(view: View, limit: int) -> Gpulets | None:
            fewest, best, candidate = least_gpus(view), None, rule(view, limit)
            while candidate is not None:
                best = candidate
                gpus_in_use = int(np.count_nonzero(best.slots[::2] + best.slots[1::2]))
                candidate = rule(view, gpus_in_use - 1) if gpus_in_use > fewest and run.remaining_s > 0.0 else None
            return best

        return cut_pools(instance, run, grown if used else shrunk)


def least_gpus(view: View) -> int:
    """Return a lower bound on the number of GPUs, as if every workload ran alone at the share of most rate per unit."""
    shares = view.tables.permitted
    per_unit = (Gpulets.undivided(view, 0, interference=False).alone_rps[:, shares] / shares).max(axis=1, initial=0.0)
    if np.any(per_unit <= 0.0):
        return 1
    return ceil(float((view.rate_rps / per_unit).sum()) / view.tables.share_units * (1.0 - 1e-9))
