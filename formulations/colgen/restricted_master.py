"""Restricted master: the number of GPUs of each known pattern."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from formulations.colgen.clock import (
    ENTRIES_PER_NODE,
    RELAXATION_NODES,
    branch_and_bound_limits,
    spend_nodes,
    wall_time_left_s,
)
from formulations.highs import new_highs, reset_threads
from instances.arrays import Flags, Floats, Ints
from instances.one_gpu import Pattern

MUCH = 1e-6
"""Relative decrease of a pattern's cost above which the relaxation is solved again."""


@dataclass(frozen=True, slots=True)
class Priced:
    """Result of one pricing call.

    Attributes
    ----------
    bound
        Upper bound on the worth of every pattern; infinite if some were neither searched nor bounded.
    patterns
        Patterns found that are worth more than the threshold; under ``capacity``, more than the gain, if that is lower.
        In temporal pricing, relaxed patterns of high worth.
    nodes
        Number of nodes visited by spatial and capacity pricing, or of regions by split pricing; 0 in temporal pricing.
    cut_short
        Whether a limit stopped the search of spatial or capacity pricing; false in split and temporal pricing.
    """

    bound: float
    patterns: list[Pattern]
    nodes: int = 0
    cut_short: bool = False


@dataclass(frozen=True, slots=True)
class Relaxation:
    """Solution of the linear relaxation of the restricted master.

    Attributes
    ----------
    value
        Value of the minimised objective.
    workload_dual
        Dual of each coverage row, shape (classes,).
    pool_dual
        Dual of each pool row, shape (GPU types,). It is at most 0, and 0 for types without a limit, unless ``restrict``
        demands some GPUs of the type.
    weight
        Weight of each column, in the order of addition.
    """

    value: float
    workload_dual: Floats
    pool_dual: Floats
    weight: Floats


@dataclass(frozen=True, slots=True)
class Covering:
    """Rows of the master: demands for coverage and the size of the pools.

    Attributes
    ----------
    least, most
        Least and largest number of workloads of each class that patterns cover, shape (classes,).
    pool_count
        GPUs of each type, ``inf`` without a limit, shape (GPU types,).
    artificial_cost
        Cost of leaving a workload uncovered; far above any real cost.
    serves, exchanges
        Results of ``workload_classes.easier`` and ``nearest`` for the classes: a slot of a demanding class may cover an
        easier one. ``None`` if none is easier.
    surplus_cost
        Cost of covering a class once more than ``most``, shape (classes,); ``None`` forbids it.
    """

    least: Floats
    most: Floats
    pool_count: Floats
    artificial_cost: float
    serves: Flags | None = None
    exchanges: Ints | None = None
    surplus_cost: Floats | None = None


class LinearMaster:
    """Linear program over contents of GPUs: rows are coverage demands and pools of GPUs; a minimisation.

    Parameters
    ----------
    least, most
        Least and largest coverage of each row, shape (coverage rows,).
    pool_count
        GPUs of each type, ``inf`` without a limit, shape (GPU types,).
    """

    def __init__(self, least: Floats, most: Floats, pool_count: Floats, threads: int) -> None:
        reset_threads()
        self._threads = threads
        self._solver = new_highs(threads, solver="simplex")
        self._coverage_rows = len(least)
        for low, high in [*zip(least, most, strict=True), *((-np.inf, count) for count in pool_count)]:
            self._solver.addRow(float(low), float(high), 0, np.array([], dtype=np.int32), np.array([]))

    @staticmethod
    def _count_work(solver: Any) -> None:
        """Count the simplex iterations of the last solve as work."""
        entries = solver.getNumRow() + solver.getNumCol()
        iterations = max(0, int(solver.getInfo().simplex_iteration_count))
        spend_nodes(RELAXATION_NODES + iterations * entries / ENTRIES_PER_NODE)

    def add_column(self, cost: float, amounts: Floats, pool: int | None = None) -> None:
        """Add a column: its cost, its amount in each coverage row, and the pool of its GPU."""
        rows = np.flatnonzero(amounts)
        index, value = rows.astype(np.int32), amounts[rows].astype(np.float64)
        if pool is not None:
            index, value = np.append(index, np.int32(self._coverage_rows + pool)), np.append(value, 1.0)
        self._solver.addCol(float(cost), 0.0, np.inf, len(index), index, value)

    def integer_amounts(
        self, first: int, limit_s: float, seed: int, tolerance: float = 1e-6
    ) -> tuple[Floats | None, float]:
        """Solve with integer amounts of all columns from ``first`` on, within about ``limit_s``.

        The search ends once the relative gap is at most ``tolerance``.

        Returns
        -------
        amounts : array or None
            Amount of every column, or ``None`` if no solution was found.
        bound : float
            Lower bound on the value, within the solver's tolerances.
        """
        solver = self._integer_solver(
            first, seed, mip_rel_gap=tolerance, **branch_and_bound_limits(limit_s, self.columns)
        )
        solver.run()
        self._count_work(solver)
        info = solver.getInfo()
        feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
        return (np.array(solver.getSolution().col_value) if feasible else None), float(info.mip_dual_bound)

    def _integer_solver(self, first: int, seed: int, **options: float) -> Any:
        """Return a solver with these options, for integer amounts of all columns from ``first`` on."""
        solver = new_highs(self._threads, random_seed=seed, **options)
        solver.passModel(self._solver.getModel())
        columns = np.arange(first, solver.getNumCol(), dtype=np.int32)
        solver.changeColsIntegrality(len(columns), columns, np.full(len(columns), highspy.HighsVarType.kInteger))
        return solver

    @property
    def columns(self) -> int:
        """Number of columns."""
        return int(self._solver.getNumCol())

    def relax(self) -> Relaxation:
        """Solve the linear program, warm-started from the last basis, or stop at the deadline of the run."""
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + wall_time_left_s())
        if self._solver.run() == highspy.HighsStatus.kError:
            raise RuntimeError("HiGHS cannot solve the restricted master")
        solution = self._solver.getSolution()
        dual = np.array(solution.row_dual)
        return Relaxation(
            float(self._solver.getInfo().objective_function_value),
            dual[: self._coverage_rows],
            dual[self._coverage_rows :],
            np.array(solution.col_value),
        )


class RestrictedMaster(LinearMaster):
    """Restricted master over patterns; its rows are classes of workloads and pools of GPUs."""

    def __init__(self, cover: Covering, threads: int) -> None:
        super().__init__(cover.least, cover.most, cover.pool_count, threads)
        self.cover = cover
        self._pool_least = np.zeros(len(cover.pool_count))
        self.patterns: list[Pattern] = []
        self.costs: list[float] = []
        self.amounts: list[Floats] = []  # number of workloads of each class that a pattern covers
        self._known: dict[Pattern, int] = {}
        # An artificial column for each class that must be covered keeps every restricted master feasible.
        required = np.flatnonzero(cover.least > 0.0)
        for row in required:
            index = np.array([row], dtype=np.int32)
            self._solver.addCol(cover.artificial_cost, 0.0, float(cover.least[row]), 1, index, np.ones(1))
        self._artificial = len(required)
        if cover.surplus_cost is not None:
            for unit, cost in zip(np.eye(len(cover.surplus_cost)), cover.surplus_cost, strict=True):
                self.add_column(cost, -unit)
        first_exchange = self.columns
        if cover.exchanges is not None:
            for pair in cover.exchanges:
                self._solver.addCol(0.0, 0.0, np.inf, 2, pair.astype(np.int32), np.array([-1.0, 1.0]))
        self._first_pattern = self.columns
        self._exchanges = np.arange(first_exchange, self._first_pattern, dtype=np.int32)

    def add(self, pattern: Pattern, cost: float, amounts: Floats) -> bool:
        """Add a pattern, or lower the cost of a known one; return whether it was new or became much cheaper.

        ``amounts`` is the number of workloads of each class that it covers, shape (classes,).
        """
        column = self._known.get(pattern)
        if column is not None:
            before = self.costs[column]
            if cost < before:
                self.costs[column], self.patterns[column] = cost, pattern
                self._solver.changeColCost(self._first_pattern + column, cost)
            return cost < before - MUCH * abs(before)
        self._known[pattern] = len(self.patterns)
        self.patterns.append(pattern)
        self.costs.append(cost)
        self.amounts.append(amounts)
        self.add_column(cost, amounts, pattern.pool)
        return True

    def chosen(self, counts: Mapping[int, int]) -> list[Pattern]:
        """Return the patterns of a solution, each as often as it occurs."""
        return [self.patterns[c] for c in sorted(counts) for _ in range(counts[c])]

    def counts(self, patterns: Iterable[Pattern]) -> dict[int, int]:
        """Return the number of occurrences of each pattern by index; all patterns must have been added."""
        return dict(Counter(self._known[pattern] for pattern in patterns))

    def relax(self) -> Relaxation:
        """Solve the linear relaxation; its weights are those of the patterns."""
        relaxation = super().relax()
        self._count_work(self._solver)
        # Duals with an infeasible sign stem from rounding and would make a bound invalid.
        workload_dual, pool_dual = relaxation.workload_dual, relaxation.pool_dual
        workload_dual = np.where(np.isinf(self.cover.most), np.maximum(workload_dual, 0.0), workload_dual)
        workload_dual = np.where(np.isinf(self.cover.least), np.minimum(workload_dual, 0.0), workload_dual)
        return Relaxation(
            relaxation.value,
            workload_dual,
            np.where(self._pool_least > 0.0, pool_dual, np.minimum(pool_dual, 0.0)),
            relaxation.weight[self._first_pattern :],
        )

    def solved(self) -> bool:
        """Return whether the last relaxation was solved; ``fix`` may make it infeasible, and the time may be over."""
        return bool(self._solver.getModelStatus() == highspy.HighsModelStatus.kOptimal)

    def complete(self) -> bool:
        """Return whether the last relaxation covers every workload."""
        return bool(np.all(np.array(self._solver.getSolution().col_value)[: self._artificial] < 1e-6))

    def restrict(self, banned: Iterable[int], pool_least: Floats, pool_most: Floats) -> None:
        """Forbid the ``banned`` patterns and bound the number of GPUs of each type (branching)."""
        columns = np.arange(self._first_pattern, self._first_pattern + len(self.patterns), dtype=np.int32)
        most = np.full(len(columns), np.inf)
        most[list(banned)] = 0.0
        self._solver.changeColsBounds(len(columns), columns, np.zeros(len(columns)), most)
        self._pool_least = pool_least
        for pool, (least, count) in enumerate(zip(pool_least, pool_most, strict=True)):
            least_row = float(least) if least > 0.0 else -np.inf
            self._solver.changeRowBounds(self._coverage_rows + pool, least_row, float(count))

    def forbid_exchanges(self) -> None:
        """Let every slot cover its own class alone, for branching: its rules read the classes off the patterns."""
        count, nothing = len(self._exchanges), np.zeros(len(self._exchanges))
        self._solver.changeColsBounds(count, self._exchanges, nothing, nothing)

    def fix(self, column: int, count: float) -> None:
        """Demand at least ``count`` GPUs of a pattern, until ``release`` (diving)."""
        self._solver.changeColBounds(self._first_pattern + column, count, np.inf)

    def release(self, column: int) -> None:
        """Undo ``fix``."""
        self._solver.changeColBounds(self._first_pattern + column, 0.0, np.inf)

    def integer(
        self, limit_s: float, seed: int, start: dict[int, int] | None, stop_at: float
    ) -> tuple[dict[int, int] | None, bool]:
        """Solve the restricted master with integer numbers of GPUs, within about ``limit_s``.

        Parameters
        ----------
        start
            A known solution: number of GPUs by pattern.
        stop_at
            A value that no solution beats; the solver stops there.

        Returns
        -------
        counts : dict or None
            GPUs of each pattern used, or ``None`` if no solution covers every required workload.
        proven : bool
            Whether the solution is optimal for the known patterns, or they cannot cover every required workload.
        """
        options = {"mip_rel_gap": 0.0, **branch_and_bound_limits(limit_s), "objective_target": float(stop_at)}
        solver = self._integer_solver(self._first_pattern, seed, **options)
        index, nothing = np.arange(self.columns, dtype=np.int32), np.zeros(self._artificial)
        solver.changeColsBounds(self._artificial, index[: self._artificial], nothing, nothing)
        if start:
            value = np.zeros(self.columns)
            for column, count in start.items():
                value[self._first_pattern + column] = count
            if self.cover.surplus_cost is not None:
                covered = sum((count * self.amounts[column] for column, count in start.items()), start=0.0)
                value[self._artificial : self._first_pattern] = np.maximum(0.0, covered - self.cover.most)
            solver.setSolution(self.columns, index, value)
        solver.run()
        self._count_work(solver)
        status = solver.getModelStatus()
        proven = status in (highspy.HighsModelStatus.kOptimal, highspy.HighsModelStatus.kInfeasible)
        if solver.getInfo().primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
            return None, proven
        return whole_counts(np.array(solver.getSolution().col_value)[self._first_pattern :]), proven


def whole_counts(weight: Floats) -> dict[int, int]:
    """Return the rounded weight of each column whose weight is not rounded to 0."""
    counts = np.round(weight).astype(int)
    return {int(column): int(counts[column]) for column in np.flatnonzero(counts)}


class AggregatedMaster(LinearMaster):
    """Restricted master with few rows: the dual of a class is a function of its features.

    Its rows are sums of the restricted master's rows, weighted by features. This relaxes the master and limits its
    duals to the form ``features @ y``. So many classes share few dual variables, and column generation needs few
    iterations. Any duals give a valid bound. The best duals of this form are close to the master's own if the features
    measure how hard a workload is to place.

    Parameters
    ----------
    master
        The restricted master, which covers classes and forbids no surplus.
    features
        Features of each class, at least 0, shape (classes, features).

    Attributes
    ----------
    value
        Value of the last relaxation.
    """

    def __init__(self, master: RestrictedMaster, features: Floats, threads: int) -> None:
        cover, rows = master.cover, features.shape[1]
        super().__init__(cover.least @ features, np.full(rows, np.inf), cover.pool_count, threads)
        self._master, self._features = master, features
        self._artificial, self.value = rows, np.inf
        for unit in np.eye(rows):
            self.add_column(cover.artificial_cost, unit)

    def relax(self) -> Relaxation:
        """Solve the aggregated linear program with all patterns of the master; the duals are those of the classes."""
        master = self._master
        for column in range(self.columns - self._artificial, len(master.patterns)):
            amounts = master.amounts[column] @ self._features
            self.add_column(master.costs[column], amounts, master.patterns[column].pool)
        relaxation = super().relax()
        self.value = relaxation.value
        return Relaxation(
            relaxation.value,
            self._features @ np.maximum(relaxation.workload_dual, 0.0),
            np.minimum(relaxation.pool_dual, 0.0),
            relaxation.weight[self._artificial :],
        )
