"""State of a dive for ``split``: the GPUs fixed so far, and the parts of workloads that they leave uncovered."""

from dataclasses import replace

import numpy as np

from formulations.colgen.integer_passes import ALMOST_INTEGER
from formulations.colgen.restricted_master import Relaxation, RestrictedMaster
from formulations.colgen.solution import ColumnGeneration
from formulations.colgen.split.problem import SplitProblem
from instances.one_gpu import Pattern

NEGLIGIBLE = 1e-9
"""Uncovered part of a workload that is neglected."""

NEW_PART = 0.9
"""Least fraction of a pattern's coverage that the other GPUs fixed in the same step must leave uncovered."""

ROUNDS = 3
"""Largest number of pricing rounds in a step."""

REGIONS = 40
"""Largest number of boxes that one call of pricing halves."""

DISTURBANCE = (0.5, 1.5)
"""Least and largest random factor on a dual."""


class Uncovered:
    """State of a dive: the GPUs that are fixed, and the parts of the workloads that they leave uncovered.

    Each step solves a restricted master of the uncovered parts.

    Parameters
    ----------
    generation
        Column generation; its master receives the patterns found.
    random
        Disturbs the duals and the weights, so that repeated dives differ; ``None`` for no disturbance.
    """

    def __init__(self, problem: SplitProblem, generation: ColumnGeneration, random: np.random.Generator | None) -> None:
        self._problem, self._generation, self._random = problem, generation, random
        self._left, self._free = problem.copies.copy(), problem.count.copy()
        self._chosen: list[Pattern] = []
        self._master, self._weight = self._residual(), np.zeros(0)

    def relax(self) -> float:
        """Alternate the restricted master of the uncovered parts with pricing; return the sum of its last weights."""
        self._master = self._residual()
        for pattern in self._generation.master.patterns:
            self._add(pattern)
        relaxation = self._master.relax()
        for _ in range(ROUNDS):
            if not self._price(self._disturbed(relaxation)):
                break
            relaxation = self._master.relax()
        self._weight = relaxation.weight
        return float(self._weight.sum())

    def fix(self, tried_at_least: int) -> bool:
        """Fix patterns; return whether one was fixed and parts remain uncovered.

        Patterns are tried by falling weight, times a random factor if there is ``random``. After ``tried_at_least``
        patterns, the first one whose weight is not almost 1 ends the step. A pattern is fixed as often as the whole
        part of its weight says, and at least once, unless it overlaps much with the patterns fixed in this step.
        """
        weight, random = self._weight, self._random
        order = np.argsort(-weight if random is None else -weight * random.random(len(weight)), kind="stable")
        left_after, chosen_before = self._left.copy(), len(self._chosen)
        for number, column in enumerate(c for c in order.tolist() if weight[c] > NEGLIGIBLE):
            pattern = self._master.patterns[column]
            amounts = np.minimum(self._problem.amounts(pattern), self._left)
            if number >= tried_at_least and weight[column] < ALMOST_INTEGER:
                break
            for _ in range(max(1, int(weight[column] + 1.0 - ALMOST_INTEGER))):
                if (
                    self._free[pattern.pool] >= 1.0
                    and np.minimum(amounts, left_after).sum() >= NEW_PART * amounts.sum()
                ):
                    self._chosen.append(pattern)
                    self._free[pattern.pool] -= 1.0
                    left_after = np.maximum(0.0, left_after - amounts)
        left_after[left_after < NEGLIGIBLE] = 0.0
        self._left = left_after
        return bool(left_after.any()) and len(self._chosen) > chosen_before

    def solution(self) -> dict[int, int] | None:
        """Return how often each column is fixed; ``None`` if under ``cost`` the fixed GPUs leave a part uncovered."""
        return None if self._left.any() and self._problem.minimised else self._generation.master.counts(self._chosen)

    def _disturbed(self, relaxation: Relaxation) -> Relaxation:
        if self._random is None:
            return relaxation
        factor = self._random.uniform(*DISTURBANCE, len(relaxation.workload_dual))
        return replace(relaxation, workload_dual=relaxation.workload_dual * factor)

    def _residual(self) -> RestrictedMaster:
        """Return a restricted master of the uncovered parts that has no patterns yet."""
        covering, minimised = self._problem.covering, self._problem.minimised
        least = np.minimum(covering.least, self._left) if minimised else covering.least
        most = covering.most if minimised else self._left
        rows = replace(covering, least=least, most=most, pool_count=self._free)
        return RestrictedMaster(rows, self._generation.run.threads)

    def _add(self, pattern: Pattern) -> bool:
        """Add a pattern to the master of the uncovered parts if it covers one; return whether it is new there."""
        amounts = np.minimum(self._problem.amounts(pattern), self._left)
        cost = self._problem.cost_of_amounts(pattern.pool, amounts)
        return bool(amounts.any()) and self._master.add(pattern, cost, amounts)

    def _price(self, relaxation: Relaxation) -> int:
        """Price patterns and add them to both masters; return the number of new ones in that of the uncovered parts."""
        added = 0
        limits = self._problem.diving_tolerance, REGIONS, self._generation.run.deadline
        for priced in self._problem.price_patterns(relaxation, *limits, self._left):
            self._generation.add(priced.patterns)
            added += sum(self._add(pattern) for pattern in priced.patterns)
        return added
