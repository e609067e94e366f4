"""Restricted master with few rows: the dual of a class is a function of its features.

The rows of the restricted master are replaced by sums of them, weighted by features. This relaxes the master: its duals
are ``features @ y``. So many classes share few dual variables, and column generation needs few iterations. Any duals
give a valid bound; the best duals of this form are close to the master's own if the features tell what makes a workload
hard to place.
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
        Feature of each class, at least 0, shape (classes, features).
    least, pool_count, artificial_cost, threads
        See ``Covering`` and ``RestrictedMaster``.
    """

    def __init__(
        self,
        master: RestrictedMaster,
        features: Floats,
        least: Floats,
        pool_count: Floats,
        artificial_cost: float,
        threads: int,
    ) -> None:
        rows = features.shape[1]
        super().__init__(least @ features, np.full(rows, np.inf), pool_count, threads)
        self._master, self._features = master, features
        self._artificial = rows
        self._known = 0
        for unit in np.eye(rows):
            self.add_column(artificial_cost, unit)

    def relax(self) -> Relaxation:
        """Solve the aggregated linear program with all patterns of the master; the duals are those of the classes."""
        master = self._master
        for column in range(self._known, len(master.patterns)):
            amounts = master.amounts[column] @ self._features
            self.add_column(master.costs[column], amounts, master.patterns[column].pool)
        self._known = len(master.patterns)
        relaxation = super().relax()
        return Relaxation(
            relaxation.value,
            self._features @ np.maximum(relaxation.workload_dual, 0.0),
            np.minimum(relaxation.pool_dual, 0.0),
            relaxation.weight[self._artificial :],
        )
