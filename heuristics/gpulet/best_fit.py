"""Spatial baselines of gpulet, without turns: greedy best fit and guided self-tuning (ATC'22, Sec. 2.3; arXiv'21)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from heuristics.gpulet.elastic_partitioning import (
    EfficientShare,
    find_best_fit,
    give,
    max_efficient_partition,
    min_required_partition,
    revert_split,
    split,
)
from heuristics.gpulet.pools import CuttingScheduler
from heuristics.gpulet.state import Gpulets, capacity_on_rps
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.view import View


@compiled
def fill_greedily(tables: Tables, gpulets: Gpulets, order: Ints, unserved_rps: Floats) -> None:
    """Give each workload gpulets of the least share that serves its unserved rate (greedy best fit)."""
    progress = True
    while progress:
        progress = False
        for workload in order:  # repeated for workloads that lost rate because of later neighbours
            while unserved_rps[workload] > 0.0:
                units = min_required_partition(tables, gpulets, workload, unserved_rps[workload])
                if not serve_alone(tables, gpulets, workload, units, unserved_rps):
                    return
                progress = True


@compiled
def fill_efficiently(tables: Tables, gpulets: Gpulets, efficient: Ints, unserved_rps: Floats) -> None:
    """Give each workload gpulets of its most efficient share, or of more if its rate needs more (guided self-tuning).

    ``efficient`` has ``p_eff`` of each workload.
    """
    progress = True
    while progress:
        progress = False
        for workload in range(len(efficient)):  # repeated for workloads that lost rate because of later neighbours
            while unserved_rps[workload] > 0.0:
                units = max(
                    efficient[workload], min_required_partition(tables, gpulets, workload, unserved_rps[workload])
                )
                if not serve_alone(tables, gpulets, workload, units, unserved_rps):
                    return
                progress = True


@compiled
def serve_alone(tables: Tables, gpulets: Gpulets, workload: int, units: int, unserved_rps: Floats) -> bool:
    """Give ``workload`` the free gpulet of at least ``units`` that fits best; return whether a gpulet serves it."""
    tried = np.zeros(len(gpulets.units), dtype=np.bool_)
    while True:
        i = find_best_fit(gpulets, units, tried)
        if i < 0 or gpulets.units[i] < units:
            return False
        if gpulets.units[i] == tables.share_units and units < tables.share_units:
            split(tables, gpulets, i, units)
        largest_rps = capacity_on_rps(tables, gpulets, workload, i)
        if largest_rps > 0.0 and give(
            tables, gpulets, i, workload, min(largest_rps, unserved_rps[workload]), unserved_rps
        ):
            return True
        tried[i] = True
        revert_split(tables, gpulets, i)


@dataclass(frozen=True, slots=True)
class GreedyBestFit(CuttingScheduler):
    """Greedy best fit: the least share that serves the rate, on the gpulet that fits it best, without turns.

    A workload first fills whole GPUs if one is not enough. Workloads are placed by decreasing share; the paper does not
    state an order.

    Attributes
    ----------
    interference
        Whether interference is considered; the paper is silent on it. The judge reports violations.
    """

    name: ClassVar[str] = "greedy-best-fit"
    own_model: ClassVar[bool] = True

    interference: bool = False

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        gpulets, unserved_rps = Gpulets.undivided(view, gpus, self.interference), view.rate_rps.copy()
        full_rps = gpulets.alone_rps[:, view.tables.share_units]
        if np.any(full_rps <= 0.0):
            return None
        order = np.argsort(-view.rate_rps / full_rps, kind="stable")
        fill_greedily(view.tables, gpulets, order, unserved_rps)
        return None if unserved_rps.any() else gpulets


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
        gpulets, unserved_rps = Gpulets.undivided(view, gpus, interference=False), view.rate_rps.copy()
        efficient = [max_efficient_partition(view, gpulets, w, EfficientShare.KNEE) for w in range(len(unserved_rps))]
        fill_efficiently(view.tables, gpulets, np.array(efficient, dtype=np.int64), unserved_rps)
        return None if unserved_rps.any() else gpulets
