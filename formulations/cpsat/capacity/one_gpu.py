"""The most throughput of one set of workloads on one GPU: branch and bound over cells, best first.

A search can stop at any time and go on later; what it knows in between are a plan and a bound.
"""

import heapq
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from formulations.cpsat.capacity.cell import MARGIN, overestimate, throughput_of
from formulations.cpsat.capacity.configurations import Configurations
from instances.arrays import Ints
from instances.tables import Tables

CLOSED_WITHIN = 5e-10
"""Relative difference from the bound at which a plan is the best."""

FIRST_CELLS = 50
"""Cells of a search's first part; each later part visits twice as many."""

DEADLINE_EVERY = 64
"""Cells between two looks at the clock."""


@dataclass(slots=True)
class OneGpu:
    """The search on one set.

    Attributes
    ----------
    gpu, configurations
        Tables of the GPU type and what there is on it.
    members
        Class of each resident, ascending.
    value, chosen
        The best throughput found, -inf before, and its configurations.
    open
        Cells to look at, as (-overestimate, number, low, high), the most promising first.
    doubtful
        Most throughput of a plan that breaks a limit by no more than rounding: it counts for the bound.
    part
        Cells of the next part of the search.
    """

    gpu: Tables
    configurations: Configurations
    members: tuple[int, ...]
    value: float = -math.inf
    chosen: tuple[int, ...] = ()
    open: list[tuple[float, int, Ints, Ints]] = field(default_factory=list)
    doubtful: float = -math.inf
    part: int = FIRST_CELLS
    _pushed: int = 0

    @classmethod
    def of(cls, gpu: Tables, configurations: Configurations, members: Sequence[int]) -> "OneGpu":
        """Start with the cell of all configurations."""
        search = cls(gpu, configurations, tuple(members))
        first = configurations.first
        search._look(first[list(members)], first[np.array(members) + 1], math.inf)
        return search

    @property
    def bound(self) -> float:
        """Throughput that no feasible plan exceeds; -inf if there is none."""
        top = -self.open[0][0] if self.open else -math.inf
        return max(self.value * (1.0 + CLOSED_WITHIN), self.doubtful, top)

    @property
    def closed(self) -> bool:
        """Whether nothing better is left to find."""
        return not self.open

    @property
    def impossible(self) -> bool:
        """Whether the set is proven not to fit."""
        return self.bound == -math.inf

    def go_on(self, deadline: float) -> int:
        """Search one more part; return the cells visited."""
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
        """Bound a cell, take the plan behind the bound, and keep the cell if it promises more."""
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
        """Return the resident whose impact varies most, and where to cut its interval: halfway in impact."""
        impact = self.configurations.impact
        width = np.where(high - low > 1, impact[high - 1] - impact[low], -1.0)
        if width.max() <= 0.0:
            i = int(np.argmax(high - low))
            return i, int(low[i] + high[i]) // 2
        i = int(np.argmax(width))
        middle = (impact[low[i]] + impact[high[i] - 1]) / 2.0
        cut = int(low[i] + np.searchsorted(impact[low[i] : high[i]], middle, side="right"))
        return i, min(max(cut, int(low[i]) + 1), int(high[i]) - 1)
