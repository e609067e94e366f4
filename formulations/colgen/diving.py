"""Diving: the GPUs of largest weight are fixed step by step, and the rest is priced and solved again."""

import math
from typing import Protocol

import numpy as np

from bench.api import Run
from formulations.colgen.clock import now
from formulations.colgen.column_generation import ColumnGeneration, Solution
from instances.arrays import Floats

DIVING_PART = 0.05
"""Fraction of the open GPUs that one step of diving fixes."""

SURE = 0.999
"""Weights at or above this count as integers."""


class Undecided(Protocol):
    """What a dive still has to decide."""

    def relax(self) -> float:
        """Price patterns for the rest and solve its relaxation; return the sum of the weights that are open."""

    def fix(self, least: int) -> bool:
        """Fix at least so many of the open GPUs of largest weight, if they go together; return whether any remain."""

    def solution(self) -> dict[int, int] | None:
        """Return the number of GPUs of each pattern, or ``None`` if those that are fixed make no solution."""


def dive(rest: Undecided, run: Run) -> dict[int, int] | None:
    """Fix GPUs until none are left; return the number of GPUs of each pattern.

    Each step fixes as many as let the dive finish in half of the time left. The result is ``None`` if the time or the
    pool was exhausted.
    """
    while run.remaining_s > 0.0:
        began = now()
        open_gpus = rest.relax()
        step_s = now() - began
        # Without a deadline, this is 0.
        in_time = math.ceil(open_gpus * step_s / max(run.remaining_s / 2.0, step_s)) if open_gpus > 0.0 else 0
        if not rest.fix(max(1, in_time)):
            return rest.solution()
    return None


def dive_by_weight(solution: Solution) -> None:
    """Fix the largest weights of the restricted master step by step, and price for the rest."""
    rest = OpenWeights(solution.generation)
    try:
        solution.accept(dive(rest, solution.run))
    finally:
        rest.release()


class OpenWeights:
    """Undecided of a dive in which fixed GPUs are lower limits on the weights of the restricted master."""

    def __init__(self, generation: ColumnGeneration) -> None:
        self._generation, self._master = generation, generation.master
        self._fixed: dict[int, float] = {}
        self._weight, self._open, self._solved = np.zeros(0), np.zeros(0), False

    def relax(self) -> float:
        """Price patterns at the master's duals, solve it again, and fix weights that are integers."""
        generation, problem = self._generation, self._generation.problem
        relaxation = self._master.relax()
        if problem.diving_tolerance is not None:
            limits = problem.diving_tolerance, problem.node_limits[0], generation.run.deadline
            for priced in problem.price_patterns(relaxation, *limits):
                generation.add(priced.patterns)
            relaxation = self._master.relax()
        self._weight = relaxation.weight
        whole = self._weight - np.array([self._fixed.get(column, 0.0) for column in range(len(self._weight))])
        self._open = whole - np.floor(whole + 1.0 - SURE)
        self._solved = self._master.solved()
        if not self._solved:  # the fixed parts of a workload exceed the whole
            self._open = np.zeros(0)
            return 0.0
        for column in np.flatnonzero(whole >= SURE).tolist():
            self._fix(column, math.floor(whole[column] + 1.0 - SURE))
        return float(self._open.sum())

    def fix(self, least: int) -> bool:
        """Fix the columns of the largest parts of a GPU, of which no two hold workloads of one class."""
        if self._open.max(initial=0.0) < 1.0 - SURE:
            return False
        at_once = max(least, math.ceil(self._open.sum() * DIVING_PART))
        for column in apart(self._generation, self._open, at_once):
            self._fix(column, 1.0)
        return True

    def _fix(self, column: int, count: float) -> None:
        self._fixed[column] = self._fixed.get(column, 0.0) + count
        self._master.fix(column, self._fixed[column])

    def solution(self) -> dict[int, int] | None:
        """Return the weights of the last relaxation; ``None`` if they do not cover every workload."""
        if not (self._solved and self._master.complete()):
            return None
        return {c: round(w) for c, w in enumerate(self._weight.tolist()) if round(w) > 0}

    def release(self) -> None:
        """Undo all fixing."""
        for column in self._fixed:
            self._master.release(column)


def apart(generation: ColumnGeneration, part: Floats, most: int) -> list[int]:
    """Return at most ``most`` columns of the largest parts, of which no two hold workloads of one class."""
    chosen: list[int] = []
    held: set[int] = set()
    for column in np.argsort(-part, kind="stable").tolist():
        residents = generation.master.patterns[column].residents
        classes = {int(generation.problem.class_of[slot.workload]) for slot in residents}
        if len(chosen) == most or part[column] < 1.0 - SURE:
            break
        if held.isdisjoint(classes):
            chosen.append(column)
            held |= classes
    return chosen
