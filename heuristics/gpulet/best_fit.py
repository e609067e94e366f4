"""Spatial baselines of gpulet, without turns: greedy best fit and guided self-tuning (ATC'22, Sec. 2.3; arXiv'21)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numba import njit

from heuristics.gpulet.elastic_partitioning import find_best_fit, max_efficient_partition, min_required_partition
from heuristics.gpulet.moves import give, revert_split, split
from heuristics.gpulet.pools import CuttingScheduler, terms_of
from heuristics.gpulet.state import Gpulets, GpuletTerms, capacity_rps, neighbour_of
from instances.arrays import Floats, Ints
from instances.tables import Tables
from instances.view import View


@njit(cache=True)
def _fit_spatially(
    tables: Tables, terms: GpuletTerms, gpulets: Gpulets, order: Ints, floor_units: Ints, rest_rps: Floats
) -> None:
    """Give every workload gpulets of its own until its rate in ``rest_rps`` is served, or no gpulet serves more of it.

    A gpulet of workload w has at least ``floor_units[w]``, even if less serves its remaining rate.
    """
    progress = True
    while progress:
        progress = False
        for m in order:  # repeated for workloads that lost rate because of later neighbours
            while rest_rps[m] > 0.0:
                if not _place(tables, terms, gpulets, m, floor_units[m], rest_rps):
                    return
                progress = True


@njit(cache=True)
def _place(tables: Tables, terms: GpuletTerms, gpulets: Gpulets, m: int, floor: int, rest_rps: Floats) -> bool:
    """Give workload ``m`` the best-fitting gpulet that serves some of its rate; return whether there is one."""
    ideal = max(floor, min_required_partition(tables, terms, m, rest_rps[m]))
    tried = np.zeros(len(gpulets.units), dtype=np.bool_)
    while True:
        i = find_best_fit(gpulets, ideal, tried)
        if i < 0 or gpulets.units[i] < ideal:
            return False
        if gpulets.units[i] == tables.share_units and ideal < tables.share_units:
            split(tables, gpulets, i, ideal)
        most = capacity_rps(tables, terms, m, gpulets.units[i], neighbour_of(tables, terms, gpulets, i))
        if most > 0.0 and give(tables, terms, gpulets, i, m, min(most, rest_rps[m]), rest_rps):
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
        gpulets = Gpulets.undivided(gpus, view.tables.share_units)
        rest_rps = view.rate_rps.copy()
        order = np.argsort(-rest_rps / full_rps, kind="stable")
        _fit_spatially(view.tables, terms, gpulets, order, np.zeros_like(order), rest_rps)
        return None if rest_rps.any() else gpulets


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
        gpulets = Gpulets.undivided(gpus, view.tables.share_units)
        rest_rps = view.rate_rps.copy()
        _fit_spatially(view.tables, terms, gpulets, order, efficient, rest_rps)
        return None if rest_rps.any() else gpulets
