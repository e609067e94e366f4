"""Improvement of placements: ruin and recreate to place more items, and exchanges between GPUs for throughput."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np

from heuristics.baselines.insertion import write_least_shares
from heuristics.baselines.placement import Placement, order_waiting, tiny_problem
from instances import Objective, PlacedGpu
from instances.arrays import Ints
from instances.compiled import compiled
from instances.configurations import Configurations
from instances.spare_shares import spend_spare_shares
from instances.tables import Tables

EMPTIED = 2
"""Largest number of GPUs emptied in a round."""

THINNED = 3
"""Largest number of GPUs that lose about half of their residents in a round."""

BLINK = 0.05
"""Probability of skipping a possible place, so that repeated removals are not always repaired in the same way."""

NOISE = 0.5
"""Standard deviation of the logarithmic noise on the sizes that order the waiting items."""


@dataclass
class Repacking:
    """Ruin-and-recreate search that minimises the waiting items (Schrimpf et al., J. Comput. Phys. 159, 2000).

    Attributes
    ----------
    deadline
        ``time.monotonic()`` value at which the search stops.
    rounds
        Remaining rounds.
    cost_limit
        Largest price per hour of the GPUs in use.
    """

    placement: Placement
    random: np.random.Generator
    deadline: float
    rounds: int
    cost_limit: float = inf

    def run(self, improved: Callable[[], None] = lambda: None) -> None:
        """Search until no item waits, or the time or the rounds are used up.

        ``improved`` is called whenever ``unplaced_amount`` reaches a new minimum.
        """
        least_unplaced = unplaced_amount(self.placement)
        while least_unplaced > 0.0 and self.rounds > 0 and time.monotonic() < self.deadline:
            self.rounds -= 1
            repacked = self._repacked(self.placement)
            new_unplaced = unplaced_amount(repacked)
            if new_unplaced > least_unplaced:
                continue
            self.placement = repacked
            if new_unplaced < least_unplaced:
                least_unplaced = new_unplaced
                improved()

    def _repacked(self, placement: Placement) -> Placement:
        """Return a copy in which the residents of a few GPUs of one type are removed and placed again."""
        repacked, random = placement.copied(), self.random
        gpus_in_use = np.array([np.count_nonzero(fleet.residents) for fleet in repacked.fleets])
        if gpus_in_use.any():
            one_type = len(gpus_in_use) == 1
            type_index = 0 if one_type else int(random.choice(len(gpus_in_use), p=gpus_in_use / gpus_in_use.sum()))
            emptied = 1 + int(random.random() * EMPTIED)
            repacked.take_out(type_index, random, emptied, int(random.random() * (THINNED + 1)))
        order_waiting(repacked, random, NOISE)
        types = [0] if len(gpus_in_use) == 1 else random.permutation(len(gpus_in_use)).tolist()
        repacked.insert(types, random, blink=BLINK, cost_limit=self.cost_limit)
        return repacked


def unplaced_amount(placement: Placement) -> float:
    """Return the unserved requests per second under ``goodput``, otherwise the total size of the waiting items.

    The size of an item is a fraction of a GPU (``PlacementProblem.size``).
    """
    problem = placement.problem
    if problem.instance.objective is not Objective.GOODPUT:
        return float(problem.size[placement.waiting].sum())
    unserved = np.array(problem.rate_rps)
    for fleet, configurations in zip(placement.fleets, problem.configurations, strict=True):
        row = fleet.row[np.arange(fleet.row.shape[1]) < fleet.residents[:, None]]
        unserved[configurations.item[row]] -= configurations.rate_rps[row]
    # Differences of equal rates may leave a rounding error
    return float(np.maximum(unserved, 0.0).sum())


NODE_LIMIT = 300
"""Node limit of the search that distributes the spare shares of one GPU, during the rounds."""

FINAL_NODE_LIMIT = 200_000
"""Node limit of the search that distributes the spare shares of one GPU, once more at the end."""

MOVES = 20
"""Number of moves tried in a round."""


@compiled
def _capacity_rps(tables: Tables, configurations: Configurations, rows: Ints, units: Ints, node_limit: int) -> float:
    """Return the largest throughput of residents on one GPU, with shares in ``units``; -1 if they do not fit."""
    count = len(rows)
    if count == 0:
        return 0.0
    if not write_least_shares(tables, configurations, rows, units, count):
        return -1.0
    model, batch, budget_ms = configurations.model[rows], configurations.batch[rows], configurations.budget_ms[rows]
    throughput_rps, _ = spend_spare_shares(tables, model, batch, budget_ms, units[:count], node_limit)
    return throughput_rps


@dataclass
class Exchange:
    """Search for throughput on a given pool; every workload stays served.

    A round tries ``MOVES`` moves. A move draws a workload and a GPU at random. If the workload is on that GPU, its
    batch changes. Otherwise the workload moves to that GPU or swaps with a resident; batches stay or are drawn anew.
    The spare shares of the affected GPUs are distributed for the largest throughput. A move is kept unless throughput
    falls.

    Attributes
    ----------
    placement
        Complete placement to start from; not changed.
    deadline
        ``time.monotonic()`` value at which the search stops.
    rounds
        Remaining rounds.
    """

    placement: Placement
    random: np.random.Generator
    deadline: float
    rounds: int
    # Of each GPU: its type, the configurations (rows) and shares of its residents, and its throughput
    _type: list[int] = field(default_factory=list)
    _rows: list[Ints] = field(default_factory=list)
    _units: list[Ints] = field(default_factory=list)
    _throughput_rps: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        for type_index, fleet in enumerate(self.placement.fleets):
            for g, count in enumerate(fleet.residents.tolist()):
                self._type.append(type_index)
                self._rows.append(fleet.row[g, :count].copy())
                throughput_rps, units = self._with_spare_spent(type_index, self._rows[-1], NODE_LIMIT)
                self._throughput_rps.append(throughput_rps)
                self._units.append(units)

    def run(self) -> Iterator[tuple[PlacedGpu, ...]]:
        """Yield the GPUs at the start and after every round that raised their throughput."""
        yield self._gpus()
        while self.rounds > 0 and time.monotonic() < self.deadline:
            self.rounds -= 1
            if sum(self._try_move() for _ in range(MOVES)):
                yield self._gpus()
        for gpu, rows in enumerate(self._rows):
            if time.monotonic() < self.deadline:
                self._throughput_rps[gpu], self._units[gpu] = self._with_spare_spent(
                    self._type[gpu], rows, FINAL_NODE_LIMIT
                )
        yield self._gpus()

    def _try_move(self) -> bool:
        """Try one move; return whether it raised the throughput."""
        source, target = self._draw(len(self._rows)), self._draw(len(self._rows))
        count = len(self._rows[source])
        if not count:
            return False
        s = self._draw(count)
        if source == target:
            changed_rows = self._rows[source].copy()
            changed_rows[s] = self._any_row(source, int(changed_rows[s]), target)
            return self._keep_if_no_worse([(source, changed_rows)])
        source_rows, target_rows = np.delete(self._rows[source], s), self._rows[target]
        moved_row, swapped_row = int(self._rows[source][s]), None
        if len(target_rows) and self.random.random() < 0.5:
            t = self._draw(len(target_rows))
            swapped_row, target_rows = int(target_rows[t]), np.delete(target_rows, t)
            source_rows = np.append(source_rows, self._row_on(target, swapped_row, source))
        target_rows = np.append(target_rows, self._row_on(source, moved_row, target))
        return self._keep_if_no_worse([(target, target_rows), (source, source_rows)])

    def _draw(self, count: int) -> int:
        return int(self.random.random() * count)

    def _row_on(self, source: int, row: int, target: int) -> int:
        """Return a row of the same item for ``target``, -1 if there is none.

        If the GPU types are equal, it is ``row`` itself in half of the cases; otherwise it is drawn at random.
        """
        if self._type[source] == self._type[target] and self.random.random() < 0.5:
            return row
        return self._any_row(source, row, target)

    def _any_row(self, source: int, row: int, target: int) -> int:
        """Return the row of a random configuration of the same item for ``target``, -1 if there is none."""
        item = self.placement.problem.configurations[self._type[source]].item[row]
        first, end = self.placement.problem.configurations[self._type[target]].first[item : item + 2].tolist()
        return first + self._draw(end - first) if first < end else -1

    def _keep_if_no_worse(self, changes: Sequence[tuple[int, Ints]]) -> bool:
        """Apply the changes unless throughput falls; return whether it rises."""
        old_rps, new_rps, results = 0.0, 0.0, []
        for gpu, rows in changes:
            type_index = self._type[gpu]
            configurations = self.placement.problem.configurations[type_index]
            share_units = self.placement.problem.views[type_index].tables.share_units
            if np.any(rows < 0) or configurations.units[rows].sum() > share_units:
                return False
            results.append(self._with_spare_spent(type_index, rows, NODE_LIMIT))
            if results[-1][0] < 0.0:
                return False
            old_rps, new_rps = old_rps + self._throughput_rps[gpu], new_rps + results[-1][0]
        if new_rps < old_rps:
            return False
        for (gpu, rows), (throughput_rps, units) in zip(changes, results, strict=True):
            self._rows[gpu], self._throughput_rps[gpu], self._units[gpu] = rows, throughput_rps, units
        return new_rps > old_rps

    def _with_spare_spent(self, type_index: int, rows: Ints, node_limit: int) -> tuple[float, Ints]:
        """Return the throughput of residents on a GPU of type ``type_index``, and the shares that attain it."""
        units = np.zeros(len(rows), dtype=np.int64)
        problem = self.placement.problem
        tables, configurations = problem.views[type_index].tables, problem.configurations[type_index]
        return _capacity_rps(tables, configurations, rows, units, node_limit), units

    def _gpus(self) -> tuple[PlacedGpu, ...]:
        return tuple(
            self.placement.problem.placed(type_index, rows, units)
            for type_index, rows, units in zip(self._type, self._rows, self._units, strict=True)
            if len(rows)
        )


def warm_exchange() -> None:
    """Run the kernel once, so that it is loaded before time is measured."""
    problem, zero = tiny_problem(), np.zeros(1, dtype=np.int64)
    _capacity_rps(problem.views[0].tables, problem.configurations[0], zero, zero.copy(), 1)
