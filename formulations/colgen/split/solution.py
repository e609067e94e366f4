"""Runs for ``split``: patterns of spatial plans, the bound, then repeated dives to integer solutions."""

from collections.abc import Callable
from functools import partial

import numpy as np

from bench.api import Run
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.diving import dive
from formulations.colgen.solution import Solution
from formulations.colgen.split.problem import SplitProblem
from formulations.colgen.split.uncovered import Uncovered
from instances import Instance

PATIENCE = 20
"""Number of dives without a better plan after which the run ends."""


def split_solution(instance: Instance, run: Run, integer_fraction: float) -> Solution:
    """Return the run of an instance for which ``split_obstacle`` names no reason; see ``ColGen`` for the fraction."""
    problem = SplitProblem(instance)
    dive_once: Callable[[Solution], None] = partial(_dive, problem, None)
    to_whole_gpus = (Solution.round, dive_once, Solution.round)
    passes = (*to_whole_gpus, Solution.relax, *to_whole_gpus, partial(_dive_repeatedly, problem))
    return Solution(ColumnGeneration(problem, run), passes, integer_fraction)


def _dive(problem: SplitProblem, random: np.random.Generator | None, solution: Solution) -> None:
    """Fix GPUs one after another, and price for the remaining parts of workloads."""
    if not solution.proven():
        solution.accept(dive(Uncovered(problem, solution.generation, random), solution.run))


def _dive_repeatedly(problem: SplitProblem, solution: Solution) -> None:
    """Repeat randomised dives; each one also uses the patterns of all earlier dives."""
    random, idle = np.random.default_rng(solution.run.seed), 0
    while idle < PATIENCE and not solution.proven() and solution.run.remaining_s > 0.0:
        before = solution.value
        _dive(problem, random, solution)
        solution.round()
        idle = 0 if solution.value < before else idle + 1
