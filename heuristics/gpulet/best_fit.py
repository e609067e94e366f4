"""Spatial baselines of gpulet, without turns: greedy best fit and guided self-tuning (ATC'22, Sec. 2.3; arXiv'21)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heuristics.gpulet.elastic_partitioning import max_efficient_partition, partitioned
from heuristics.gpulet.pools import CuttingScheduler, terms_of
from heuristics.gpulet.state import Gpulets
from instances.view import View


@dataclass(frozen=True, slots=True)
class GreedyBestFit(CuttingScheduler):
    """Greedy best fit: the least share that serves the rate, on the gpulet that fits it best, without turns.

    A workload first fills whole GPUs if one is not enough. Workloads are placed by decreasing share; the paper does not
    state an order.

    Attributes
    ----------
    interference
        Whether interference is considered. The paper's baseline ignores it, and the judge reports violations.
    """

    name: ClassVar[str] = "greedy-best-fit"
    own_model: ClassVar[bool] = True

    interference: bool = False

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        terms = terms_of(view, self.interference)
        full_rps = terms.alone_rps[:, view.tables.share_units]
        if np.any(full_rps <= 0.0):
            return None
        order = np.argsort(-view.rate_rps / full_rps, kind="stable")
        return partitioned(view, gpus, terms, order, np.zeros_like(order), spatial=True)


@dataclass(frozen=True, slots=True)
class GuidedSelfTuning(CuttingScheduler):
    """Guided self-tuning: each model's most efficient share, or more if its rate needs more, without turns.

    The original GSLICE searches share and batch at run time. The paper gives it the profiled latencies and the most
    efficient share of each model, so tuning is a table look-up here. Workloads are placed in the given order.
    Interference is ignored, and the judge reports violations.
    """

    name: ClassVar[str] = "guided-self-tuning"
    own_model: ClassVar[bool] = True

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        terms = terms_of(view, interference=False)
        order = np.arange(len(view.rate_rps), dtype=np.int64)
        efficient = np.array([max_efficient_partition(view, terms, w) for w in order.tolist()], dtype=np.int64)
        return partitioned(view, gpus, terms, order, efficient, spatial=True)
