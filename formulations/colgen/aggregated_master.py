"""Restricted master with few rows: the dual of a class is a function of its features.

Its rows are sums of the restricted master's rows, weighted by features. This relaxes the master and limits its duals to
``features @ y``. So many classes share few dual variables, and column generation needs few iterations. Any duals give a
valid bound. The best duals of this form are close to the master's own if the features measure how hard a workload is to
place.
"""

import numpy as np

from formulations.colgen.restricted_master import LinearMaster, Relaxation, RestrictedMaster
from instances.arrays import Floats


class AggregatedMaster(LinearMaster):
    """Aggregation of a restricted master; it holds the same patterns.

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
