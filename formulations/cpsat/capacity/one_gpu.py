"""Largest throughput of one set of workloads on one GPU: best-first branch and bound over cells.

A cell gives each resident an interval of configurations, rows ``low`` to ``high`` - 1 (see ``cell``). A search can be
interrupted and continued at any time. An interrupted search has an incumbent and a bound.
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
"""Relative difference between bound and incumbent within which the search of a set is finished."""

FIRST_CELLS = 50
"""Number of cells in a search's first part; each later part has up to twice as many as the one before."""

DEADLINE_EVERY = 64
"""Number of cells between two checks of the clock."""


@dataclass(slots=True)
class OneGpu:
    """Branch and bound on one set.

    Attributes
    ----------
    configurations, impacts
        See ``class_configurations``.
    members
        Class of each resident, ascending.
    value, chosen
        Largest throughput found (-inf at first), and its configurations.
    open_cells
        Heap of (-upper bound, number of the cell, low, high), the largest bound first; ``low`` and ``high`` have the
        first row of each resident's interval and the row after its last.
    borderline_value
        Largest throughput of a plan that violates a limit by no more than rounding; only the bound takes it into
        account.
    next_cells
        Number of cells in the next part of the search.
    """

    gpu: Tables
    configurations: Configurations
    impacts: Floats
    members: tuple[int, ...]
    value: float = -math.inf
    chosen: tuple[int, ...] = ()
    open_cells: list[tuple[float, int, Ints, Ints]] = field(default_factory=list)
    borderline_value: float = -math.inf
    next_cells: int = FIRST_CELLS
    _cell_count: int = 0

    @classmethod
    def of(cls, gpu: Tables, configurations: Configurations, impacts: Floats, members: Sequence[int]) -> "OneGpu":
        """Start with the cell of all configurations."""
        search = cls(gpu, configurations, impacts, tuple(members))
        first_row = configurations.first
        search._examine(first_row[list(members)], first_row[np.array(members) + 1], math.inf)
        return search

    @property
    def bound(self) -> float:
        """Upper bound on the throughput of feasible plans; -inf if there is none."""
        largest_open_bound = -self.open_cells[0][0] if self.open_cells else -math.inf
        return max(self.value * (1.0 + CLOSED_WITHIN), self.borderline_value, largest_open_bound)

    @property
    def closed(self) -> bool:
        """Whether the search is finished: nothing better exists."""
        return not self.open_cells

    @property
    def impossible(self) -> bool:
        """Whether the set is proven infeasible."""
        return self.bound == -math.inf

    def search_part(self, deadline: float) -> int:
        """Visit up to ``next_cells`` open cells, and double that number for the next part.

        Return how many cells were visited. At the deadline the part stops early, and the number is not doubled.
        """
        visited = 0
        while self.open_cells and visited < self.next_cells:
            if visited % DEADLINE_EVERY == 0 and time.monotonic() >= deadline:
                return visited
            negative_bound, _, low, high = heapq.heappop(self.open_cells)
            if not self._may_improve(-negative_bound):
                self.open_cells.clear()
                break
            visited += 1
            resident, split_row = self._split(low, high)
            high_of_lower, low_of_upper = high.copy(), low.copy()
            high_of_lower[resident] = low_of_upper[resident] = split_row
            self._examine(low.copy(), high_of_lower, -negative_bound)
            self._examine(low_of_upper, high.copy(), -negative_bound)
        if self.open_cells and not self._may_improve(-self.open_cells[0][0]):
            self.open_cells.clear()
        self.next_cells *= 2
        return visited

    def _may_improve(self, bound: float) -> bool:
        return self.value == -math.inf or bound > self.value * (1.0 + CLOSED_WITHIN)

    def _examine(self, low: Ints, high: Ints, parent_bound: float) -> None:
        """Bound a cell, test the plan behind the bound, and keep the cell open if its bound exceeds the incumbent."""
        if (low >= high).any():
            return
        chosen = np.empty(len(low), dtype=np.int64)
        bound = min(
            parent_bound, overestimate(self.gpu, self.configurations, np.array(self.members), low, high, chosen)
        )
        if bound == -math.inf:
            return
        throughput_rps, slack = throughput_of(self.gpu, self.configurations, chosen)
        if slack >= 0.0 and throughput_rps > self.value:
            self.value, self.chosen = throughput_rps, tuple(chosen.tolist())
        if (high - low).max() == 1:
            if -MARGIN <= slack < 0.0:
                self.borderline_value = max(self.borderline_value, throughput_rps * (1.0 + MARGIN))
        elif self._may_improve(bound):
            self._cell_count += 1
            heapq.heappush(self.open_cells, (-bound, self._cell_count, low, high))

    def _split(self, low: Ints, high: Ints) -> tuple[int, int]:
        """Return the resident whose impact varies most, and the row that splits its interval halfway in impact.

        If no impact varies, the longest interval is split in the middle.
        """
        impacts = self.impacts
        impact_ranges = np.where(high - low > 1, impacts[high - 1] - impacts[low], -1.0)
        if impact_ranges.max() <= 0.0:
            resident = int(np.argmax(high - low))
            return resident, int(low[resident] + high[resident]) // 2
        resident = int(np.argmax(impact_ranges))
        middle_impact = (impacts[low[resident]] + impacts[high[resident] - 1]) / 2.0
        split_row = int(
            low[resident] + np.searchsorted(impacts[low[resident] : high[resident]], middle_impact, side="right")
        )
        return resident, min(max(split_row, int(low[resident]) + 1), int(high[resident]) - 1)


def class_configurations(
    view: View, rates: Sequence[Rates], classes: Sequence[Sequence[int]]
) -> tuple[Configurations, Floats]:
    """Return the configurations that are feasible alone on a GPU, once for each class of identical workloads.

    The second array is the impact of each configuration: approximately the fraction by which it slows each neighbour.
    The configurations of a class are sorted by ascending impact, and cells are split along the impact.
    """
    tables, used_models = view.tables, np.unique(view.model)
    slowdown_per_demand = np.array(
        [tables.alpha_l2[used_models].mean(), tables.alpha_dram[used_models].mean(), -tables.throttle_per_w]
    )
    configurations_by_class, impacts = [], []
    for members in classes:
        servable = servable_configurations(view, members[0], rates[members[0]])
        impact = servable.demand(tables) @ slowdown_per_demand
        order = np.argsort(impact, kind="stable")
        configurations_by_class.append(servable.only(order))
        impacts.append(impact[order])
    return Configurations.joined(configurations_by_class), np.concatenate(impacts)


GpuSets = dict[tuple[int, ...], OneGpu]
"""Search of each set of workloads that may fit on a GPU type, by the classes of its members."""


def gpu_sets(
    gpu: Tables,
    configurations: Configurations,
    impact: Floats,
    class_sizes: Sequence[int],
    most_sets: int,
    deadline: float,
) -> GpuSets | None:
    """List the sets that may fit on a GPU type.

    Return ``None`` if there are more than ``most_sets``, or if ``time.monotonic()`` reaches the deadline.
    ``class_sizes`` is the number of workloads of each class.
    """
    sets: GpuSets = {}
    new_sets: list[tuple[int, ...]] = [()]
    for _ in range(min(gpu.most_residents, sum(class_sizes))):
        previous_sets, new_sets = new_sets, []
        for members in previous_sets:
            for new_class in range(members[-1] if members else 0, len(class_sizes)):
                candidate = (*members, new_class)
                if candidate.count(new_class) > class_sizes[new_class] or not _parts_fit(candidate, sets):
                    continue
                if len(sets) == most_sets or time.monotonic() >= deadline:
                    return None
                search = OneGpu.of(gpu, configurations, impact, candidate)
                if not search.impossible:
                    sets[candidate] = search
                    new_sets.append(candidate)
    return sets


def _parts_fit(candidate: tuple[int, ...], sets: GpuSets) -> bool:
    """Return whether every set with one member less than the candidate may fit."""
    return len(candidate) == 1 or all(candidate[:i] + candidate[i + 1 :] in sets for i in range(len(candidate)))
