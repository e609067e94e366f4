"""Ideal scheduler: all layouts of the GPUs, each with a search over assignments (ATC'22, Sec. 3.2 and 5.4)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run
from heuristics.gpulet.elastic_partitioning import ElasticPartitioning, Variant, give, give_most, split
from heuristics.gpulet.pools import CuttingScheduler, cut_pools, warm_cutting
from heuristics.gpulet.state import Gpulets, capacity_rps, load, neighbour_of, restore, snapshot
from instances import Instance
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables
from instances.view import View

LAYOUT_TENTHS = (10, 2, 4, 5)
"""First gpulet of a GPU in tenths; the second has the remainder."""


@compiled
def _search(tables: Tables, gpulets: Gpulets, rest_rps: Floats, tries: Ints) -> bool:
    """Serve the remaining rates, trying every gpulet for the workload with the largest; ``tries[0]`` counts down."""
    m, most = -1, 0.0
    needed = 0.0
    for w in range(len(rest_rps)):
        per_unit = 0.0
        for units in tables.permitted:
            per_unit = max(per_unit, gpulets.alone_rps[w, units] / units)
        part = rest_rps[w] / per_unit if per_unit > 0.0 else np.inf
        if rest_rps[w] > 0.0:
            needed += part
            if part > most:
                m, most = w, part
    if m < 0:
        return True
    free = 0.0
    for i in range(len(gpulets.units)):
        free += gpulets.units[i] * (1.0 - load(gpulets, i))
    if needed > free * (1.0 + 1e-9) or tries[0] <= 0:
        return False
    for i in range(len(gpulets.units)):
        if gpulets.units[i] == 0 or _like_an_earlier_one(gpulets, i):
            continue
        tries[0] -= 1
        before, rest_before = snapshot(gpulets, i), rest_rps.copy()
        wanted = rest_rps[m]
        if gpulets.slots[i] == 0:
            wanted = min(wanted, capacity_rps(tables, gpulets, m, gpulets.units[i], neighbour_of(tables, gpulets, i)))
        given = wanted > 0.0 and give(tables, gpulets, i, m, wanted, rest_rps)
        if not given and gpulets.slots[i] > 0:
            given = give_most(tables, gpulets, i, m, rest_rps)
        if given and _search(tables, gpulets, rest_rps, tries):
            return True
        restore(gpulets, i, before)
        rest_rps[:] = rest_before
    return False


@compiled
def _like_an_earlier_one(gpulets: Gpulets, i: int) -> bool:
    """Return whether a gpulet before ``i`` is like it: equal sizes of both and of their neighbours, on empty GPUs.

    Trying both would repeat the search.
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
    the workload with the largest unserved rate is tried on every gpulet: alone with as much of it as the gpulet serves,
    or in turns with its slots.

    Attributes
    ----------
    interference
        Whether interference is considered.
    tries
        Limit on the gpulets tried for a workload, over all layouts; 0 for elastic partitioning alone. A work limit also
        counts gpulets tried and replaces this limit.
    """

    name: ClassVar[str] = "ideal"
    work_unit: ClassVar[str] = "gpulets tried"

    interference: bool = True
    tries: int = 50_000

    def __post_init__(self) -> None:
        if self.tries < 0:
            raise ValueError(f"tries is {self.tries}; expected at least 0")

    def warm(self) -> None:
        """Load the compiled kernels."""
        warm_cutting(self.cut)
        warm_cutting(self._searched)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan that serves all workloads."""
        return cut_pools(instance, run, replace(self, tries=run.work_left(0, self.tries)).cut)

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        for variant in Variant:
            gpulets = ElasticPartitioning(variant, self.interference, second_pass=True).cut(view, gpus)
            if gpulets is not None:
                return gpulets
        return self._searched(view, gpus)

    def _searched(self, view: View, gpus: int) -> Gpulets | None:
        undivided = Gpulets.undivided(view, gpus, self.interference)
        tries = np.array([min(self.tries, np.iinfo(np.int64).max)], dtype=np.int64)
        for gpulets in layouts(view, undivided):
            if _search(view.tables, gpulets, view.rate_rps.copy(), tries):
                return gpulets
            if tries[0] <= 0:
                break
        return None


def layouts(view: View, undivided: Gpulets) -> Iterator[Gpulets]:
    """Yield the empty GPUs in every combination of the layouts that the GPU type's shares permit."""
    most, permitted = view.tables.share_units, set(view.tables.permitted.tolist())
    firsts = [round(most * tenths / 10) for tenths in LAYOUT_TENTHS]
    possible = [units for units in firsts if units in permitted]
    for chosen in combinations_with_replacement(possible, len(undivided.units) // 2):
        gpulets = undivided.copied()
        for g, units in enumerate(chosen):
            split(view.tables, gpulets, 2 * g, units)
        yield gpulets
