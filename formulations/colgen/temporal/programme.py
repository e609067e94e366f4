"""Restricted master over contents of GPUs: a linear program with fractional numbers of GPUs."""

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from instances.arrays import Floats


@dataclass(frozen=True, slots=True)
class ProgrammeSolution:
    """Solution of the restricted master.

    Attributes
    ----------
    value
        Value of the minimised objective.
    workload
        Dual of each workload's row, shape (workloads,).
    pool
        Dual of each pool's row, shape (GPU types,).
    """

    value: float
    workload: Floats
    pool: Floats


class Programme:
    """Restricted master: rows are workloads and pools of GPUs, columns are contents; a minimisation.

    Parameters
    ----------
    least, most
        Least and largest served fraction of each workload, shape (workloads,).
    pool_count
        GPUs of each type, ``inf`` without a limit.
    threads
        Threads of the solver.
    """

    def __init__(self, least: Floats, most: Floats, pool_count: Floats, threads: int) -> None:

        # HiGHS keeps its thread pool between solvers and cannot solve with another number of threads.
        highspy.Highs.resetGlobalScheduler(True)
        self._solver = highspy.Highs()
        for name, value in (("output_flag", False), ("threads", threads), ("solver", "simplex")):
            self._solver.setOptionValue(name, value)
        empty: Any = np.array([], dtype=np.int32)
        for low, high in zip(least, most, strict=True):
            self._solver.addRow(float(low), float(high), 0, empty, np.array([]))
        for count in pool_count:
            self._solver.addRow(-np.inf, float(count), 0, empty, np.array([]))
        self._workloads = len(least)

    def add(self, cost: float, served: Floats, pool: int | None = None) -> None:
        """Add a column: its cost, the fraction of each workload that it serves, and the pool of its GPU."""
        rows = np.flatnonzero(served)
        index, part = rows.astype(np.int32), served[rows].astype(np.float64)
        if pool is not None:
            index = np.append(index, np.int32(self._workloads + pool))
            part = np.append(part, 1.0)
        self._solver.addCol(float(cost), 0.0, np.inf, len(index), index, part)

    def solve(self) -> ProgrammeSolution:
        """Solve the linear program, warm-started from the last basis."""
        if self._solver.run() == highspy.HighsStatus.kError:
            raise RuntimeError("HiGHS cannot solve the restricted master over contents")
        dual = np.array(self._solver.getSolution().row_dual)
        value = float(self._solver.getInfo().objective_function_value)
        return ProgrammeSolution(value, dual[: self._workloads], dual[self._workloads :])
