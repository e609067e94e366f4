"""The linear programme over contents of GPUs: how many GPUs of each, as fractions."""

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np

from instances.arrays import Floats


@dataclass(frozen=True, slots=True)
class ProgrammeSolution:
    """Solution of the programme.

    Attributes
    ----------
    value
        Of the minimised objective.
    workload
        Dual of each workload's row, shape (workloads,).
    pool
        Dual of each pool's row, shape (GPU types,).
    """

    value: float
    workload: Floats
    pool: Floats


class Programme:
    """Rows are workloads and pools of GPUs, columns contents; the objective is minimised.

    Parameters
    ----------
    least, most
        Of the served fractions of each workload, shape (workloads,).
    pool_count
        GPUs of each type, ``inf`` for as many as needed.
    threads
        Of the solver.
    """

    def __init__(self, least: Floats, most: Floats, pool_count: Floats, threads: int) -> None:

        # HiGHS's pool of threads outlives a solver, and refuses to solve with another number of them.
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
        """Add a column: what it costs, the fraction of each workload that it serves, and the pool it takes a GPU of."""
        rows = np.flatnonzero(served)
        index, part = rows.astype(np.int32), served[rows].astype(np.float64)
        if pool is not None:
            index = np.append(index, np.int32(self._workloads + pool))
            part = np.append(part, 1.0)
        self._solver.addCol(float(cost), 0.0, np.inf, len(index), index, part)

    def solve(self) -> ProgrammeSolution:
        """Solve, warm from the last basis."""
        if self._solver.run() == highspy.HighsStatus.kError:
            raise RuntimeError("HiGHS cannot solve the programme over contents")
        dual = np.array(self._solver.getSolution().row_dual)
        value = float(self._solver.getInfo().objective_function_value)
        return ProgrammeSolution(value, dual[: self._workloads], dual[self._workloads :])
