"""Largest throughput of one set of workloads on one GPU: best-first branch and bound over cells.

A search can be interrupted and continued at any time; in between it holds an incumbent and a bound.
"""

import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from formulations.cpsat.capacity.cell import MARGIN, overestimate, throughput_of
from instances.arrays import Floats, Ints
from instances.configurations import Configurations, Rates, servable_configurations
from instances.tables import Tables
from instances.view import View

CLOSED_WITHIN = 5e-10
"""Relative difference from the bound within which a plan is optimal."""

FIRST_CELLS = 50
"""Number of cells in a search's first part; each later part visits twice as many."""

DEADLINE_EVERY = 64
"""Number of cells between two checks of the clock."""


@dataclass(slots=True)
class OneGpu:
    """Branch and bound on one set.

    Attributes
    ----------
    configurations, impact
        See ``class_configurations``.
    members
        Class of each resident, ascending.
    value, chosen
        Largest throughput found (-inf at first), and its configurations.
    open
        Open cells as (-upper bound, number, low, high), the largest bound first.
    doubtful
        Largest throughput of a plan that violates a limit by no more than rounding: it counts for the bound only.
    part
        Number of cells in the next part of the search.
    """

    gpu: Tables
    configurations: Configurations
    impact: Floats
    members: tuple[int, ...]
    value: float = -math.inf
    chosen: tuple[int, ...] = ()
    open: list[tuple[float, int, Ints, Ints]] = field(default_factory=list)
    doubtful: float = -math.inf
    part: int = FIRST_CELLS
    _pushed: int = 0

    @classmethod
    def of(cls, gpu: Tables, configurations: Configurations, impact: Floats, members: Sequence[int]) -> "OneGpu":
        """Start with the cell of all configurations."""
        search = cls(gpu, configurations, impact, tuple(members))
        first = configurations.first
        search._look(first[list(members)], first[np.array(members) + 1], math.inf)
        return search

    @property
    def bound(self) -> float:
        """Upper bound on the throughput of feasible plans; -inf if there is none."""
        top = -self.open[0][0] if self.open else -math.inf
        return max(self.value * (1.0 + CLOSED_WITHIN), self.doubtful, top)

    @property
    def closed(self) -> bool:
        """Whether the search is finished: nothing better exists."""
        return not self.open

    @property
    def impossible(self) -> bool:
        """Whether the set is proven infeasible."""
        return self.bound == -math.inf

    def go_on(self, deadline: float) -> int:
        """Search one more part; return the number of cells visited."""
        visited = 0
        while self.open and visited < self.part:
            if visited % DEADLINE_EVERY == 0 and time.monotonic() >= deadline:
                return visited
            negative, _, low, high = heapq.heappop(self.open)
            if not self._promises(-negative):
                self.open.clear()
                break
            visited += 1
            i, cut = self._split(low, high)
            below, above = high.copy(), low.copy()
            below[i] = above[i] = cut
            self._look(low.copy(), below, -negative)
            self._look(above, high.copy(), -negative)
        if self.open and not self._promises(-self.open[0][0]):
            self.open.clear()
        self.part *= 2
        return visited

    def _promises(self, bound: float) -> bool:
        return self.value == -math.inf or bound > self.value * (1.0 + CLOSED_WITHIN)

    def _look(self, low: Ints, high: Ints, parent: float) -> None:
        """Bound a cell, test the plan behind the bound, and keep the cell open if its bound exceeds the incumbent."""
        if (low >= high).any():
            return
        chosen = np.empty(len(low), dtype=np.int64)
        bound = min(parent, overestimate(self.gpu, self.configurations, np.array(self.members), low, high, chosen))
        if bound == -math.inf:
            return
        total, slack = throughput_of(self.gpu, self.configurations, chosen)
        if slack >= 0.0 and total > self.value:
            self.value, self.chosen = total, tuple(chosen.tolist())
        if (high - low).max() == 1:
            if -MARGIN <= slack < 0.0:
                self.doubtful = max(self.doubtful, total * (1.0 + MARGIN))
        elif self._promises(bound):
            self._pushed += 1
            heapq.heappush(self.open, (-bound, self._pushed, low, high))

    def _split(self, low: Ints, high: Ints) -> tuple[int, int]:
        """Return the resident whose impact varies most, and the split point of its interval: halfway in impact."""
        impact = self.impact
        width = np.where(high - low > 1, impact[high - 1] - impact[low], -1.0)
        if width.max() <= 0.0:
            i = int(np.argmax(high - low))
            return i, int(low[i] + high[i]) // 2
        i = int(np.argmax(width))
        middle = (impact[low[i]] + impact[high[i] - 1]) / 2.0
        cut = int(low[i] + np.searchsorted(impact[low[i] : high[i]], middle, side="right"))
        return i, min(max(cut, int(low[i]) + 1), int(high[i]) - 1)


def class_configurations(
    view: View, rates: Sequence[Rates], classes: Sequence[Sequence[int]]
) -> tuple[Configurations, Floats]:
    """Return the configurations that are feasible alone on a GPU, with a class of identical workloads as an item.

    The second array has the impact of each: approximately the fraction by which it slows each neighbour. A class is
    listed by ascending impact, and cells are split along it.
    """
    tables, used = view.tables, np.unique(view.model)
    slows = np.array([tables.alpha_l2[used].mean(), tables.alpha_dram[used].mean(), -tables.throttle_per_w])
    listed, impacts = [], []
    for members in classes:
        servable = servable_configurations(view, members[0], rates[members[0]])
        impact = servable.demand(tables) @ slows
        order = np.argsort(impact, kind="stable")
        listed.append(servable.only(order))
        impacts.append(impact[order])
    return Configurations.joined(listed), np.concatenate(impacts)


GpuSets = dict[tuple[int, ...], OneGpu]


def gpu_sets(
    gpu: Tables, configurations: Configurations, impact: Floats, sizes: Sequence[int], most_sets: int, deadline: float
) -> GpuSets | None:
    """List the sets that may fit on a GPU type.

    Return ``None`` if there are more than ``most_sets``, or if ``time.monotonic()`` reaches the deadline. ``sizes`` has
    the number of workloads of each class.
    """
    found: GpuSets = {}
    grown: list[tuple[int, ...]] = [()]
    for _ in range(min(gpu.most_residents, sum(sizes))):
        last, grown = grown, []
        for members in last:
            for joining in range(members[-1] if members else 0, len(sizes)):
                candidate = (*members, joining)
                if candidate.count(joining) > sizes[joining] or not _parts_fit(candidate, found):
                    continue
                if len(found) == most_sets or time.monotonic() >= deadline:
                    return None
                search = OneGpu.of(gpu, configurations, impact, candidate)
                if not search.impossible:
                    found[candidate] = search
                    grown.append(candidate)
    return found


def _parts_fit(candidate: tuple[int, ...], found: GpuSets) -> bool:
    """Return whether the set may fit without any one of its members."""
    return len(candidate) == 1 or all(candidate[:i] + candidate[i + 1 :] in found for i in range(len(candidate)))
