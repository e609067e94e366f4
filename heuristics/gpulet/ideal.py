"""Ideal scheduler: all layouts of the GPUs, each with a search over assignments (ATC'22, Sec. 3.3 and 5.2)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement, product
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.gpulet.elastic_partitioning import EfficientShare, ElasticPartitioning, Variant, give, give_most, split
from heuristics.gpulet.pools import CuttingScheduler, cut_pools, warm_cutting
from heuristics.gpulet.state import Gpulets, capacity_on_rps, load, restore, snapshot
from instances import Instance, Objective
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.view import View

LAYOUT_TENTHS = (10, 2, 4, 5)
"""Shares of the first gpulet, in tenths of the GPU; the second gpulet has the remainder."""


@compiled
def _search(tables: Tables, gpulets: Gpulets, unserved_rps: Floats, tries: Ints) -> bool:
    """Serve the unserved rates; return whether that succeeds. ``tries[0]`` is the number of tries that are left.

    The workload that needs the most units for its remaining rate is tried on every gpulet.
    """
    workload, most_units = -1, 0.0
    needed_units = 0.0
    for w in range(len(unserved_rps)):
        rps_per_unit = 0.0
        for units in tables.permitted:
            rps_per_unit = max(rps_per_unit, gpulets.alone_rps[w, units] / units)
        units_of_w = unserved_rps[w] / rps_per_unit if rps_per_unit > 0.0 else np.inf
        if unserved_rps[w] > 0.0:
            needed_units += units_of_w
            if units_of_w > most_units:
                workload, most_units = w, units_of_w
    if workload < 0:
        return True
    free_units = 0.0
    for i in range(len(gpulets.units)):
        free_units += gpulets.units[i] * (1.0 - load(gpulets, i))
    if needed_units > free_units * (1.0 + 1e-9) or tries[0] <= 0:
        return False
    for i in range(len(gpulets.units)):
        if gpulets.units[i] == 0 or _interchangeable_with_earlier(gpulets, i):
            continue
        tries[0] -= 1
        saved, saved_unserved_rps = snapshot(gpulets, i), unserved_rps.copy()
        rate_rps = unserved_rps[workload]
        if gpulets.slots[i] == 0:
            rate_rps = min(rate_rps, capacity_on_rps(tables, gpulets, workload, i))
        served = rate_rps > 0.0 and give(tables, gpulets, i, workload, rate_rps, unserved_rps)
        if not served and gpulets.slots[i] > 0:
            served = give_most(tables, gpulets, i, workload, unserved_rps)
        if served and _search(tables, gpulets, unserved_rps, tries):
            return True
        restore(gpulets, i, saved)
        unserved_rps[:] = saved_unserved_rps
    return False


@compiled
def _interchangeable_with_earlier(gpulets: Gpulets, i: int) -> bool:
    """Return whether gpulet ``i`` can be exchanged for an earlier one, so that trying both would repeat the search.

    This holds if the GPUs of both are empty, both have the same size, and so have their neighbours.
    """
    if gpulets.slots[i] > 0 or gpulets.slots[i ^ 1] > 0:
        return False
    for j in range(i):
        if (
            gpulets.slots[j] == 0
            and gpulets.slots[j ^ 1] == 0
            and gpulets.units[j] == gpulets.units[i]
            and gpulets.units[j ^ 1] == gpulets.units[i ^ 1]
        ):
            return True
    return False


@dataclass(frozen=True, slots=True)
class Ideal(CuttingScheduler):
    """Search over all layouts: each GPU whole or split in two, each layout with a search over assignments.

    A GPU is whole or split 2:8, 4:6 or 5:5. The search starts with the plans of elastic partitioning, second pass
    included. Only if those fail, all combinations of layouts are searched, those with the fewest splits first. In each,
    the workload whose unserved rate needs the most units is tried on every gpulet. An empty gpulet gets as much of the
    rate as it can serve; on other gpulets, the workload takes turns with the present slots.

    Attributes
    ----------
    interference
        Whether interference is considered.
    tries
        Limit on the gpulets tried for a workload, over all layouts; 0 for only elastic partitioning. A work limit also
        counts gpulets tried and replaces this limit.
    splits
        Share of one gpulet of each GPU in tenths, such as ``2+4`` for two GPUs split 2:8 and 4:6. Only this layout is
        searched, without elastic partitioning first. ``all``: all layouts.
    """

    name: ClassVar[str] = "ideal"
    work_unit: ClassVar[str] = "gpulets tried"

    interference: bool = True
    tries: int = 50_000
    splits: str = "all"

    def __post_init__(self) -> None:
        if self.tries < 0:
            raise ValueError(f"tries is {self.tries}; expected at least 0")
        if self.splits != "all" and not {*self.splits.split("+")} <= {*map(str, LAYOUT_TENTHS)}:
            tenths = ", ".join(map(str, sorted(LAYOUT_TENTHS)))
            raise ValueError(f'splits is "{self.splits}"; expected all, or numbers of {tenths} with + between')

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_cutting(self.cut)
        warm_cutting(self._search_layouts)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan that serves all workloads."""
        return cut_pools(instance, run, replace(self, tries=run.work_left(0, self.tries)).cut, self.margins)

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        if self.splits != "all":
            return self._search_layouts(view, gpus)
        # The first success is returned, so the order affects only the plan, never whether there is one.
        for variant, efficient in product(Variant, reversed(EfficientShare)):
            elastic = ElasticPartitioning(variant, self.interference, second_pass=True, efficient=efficient)
            gpulets = elastic.cut(view, gpus)
            if gpulets is not None:
                return gpulets
        return self._search_layouts(view, gpus)

    def _search_layouts(self, view: View, gpus: int) -> Gpulets | None:
        """Search each combination of layouts until one serves all workloads or no try is left."""
        undivided = Gpulets.undivided(view, gpus, self.interference)
        tries = np.array([min(self.tries, np.iinfo(np.int64).max)], dtype=np.int64)
        only = [int(tenths) for tenths in self.splits.split("+")] if self.splits != "all" else None
        for gpulets in layouts(view, undivided, only):
            if _search(view.tables, gpulets, view.rate_rps.copy(), tries):
                return gpulets
            if tries[0] <= 0:
                break
        return None


def layouts(view: View, undivided: Gpulets, only: Sequence[int] | None = None) -> Iterator[Gpulets]:
    """Yield the empty GPUs in every combination of the layouts that the GPU type's shares permit.

    With ``only``, the tenths of one gpulet of each GPU, yield this combination if it fits the number of GPUs.
    """
    share_units, permitted = view.tables.share_units, set(view.tables.permitted.tolist())
    gpus = len(undivided.units) // 2
    for tenths_of_gpus in combinations_with_replacement(LAYOUT_TENTHS, gpus) if only is None else (only,):
        layout = [round(share_units * tenths / 10) for tenths in tenths_of_gpus]
        if len(layout) != gpus or not permitted.issuperset(layout):
            continue
        gpulets = undivided.copied()
        for g, units in enumerate(layout):
            split(view.tables, gpulets, 2 * g, units)
        yield gpulets
