"""Runs for plans with one slot per gpulet, each workload on one GPU."""

from collections.abc import Sequence
from functools import partial

from bench.api import Run
from formulations.colgen.capacity.problem import CapacityProblem
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.solution import Pass, Solution
from formulations.colgen.spatial.branching import branch_and_price
from formulations.colgen.spatial.problem import SpatialProblem, served_by_none
from formulations.colgen.spatial.repacking import repack, suits
from instances import Instance, Objective

OBJECTIVES = frozenset({Objective.COST, Objective.GOODPUT, Objective.CAPACITY})
"""Objectives of these runs."""

THROUGHPUT_PASSES: Sequence[Pass] = (
    Solution.round_at_first,
    Solution.dive,
    Solution.round,
    Solution.relax,
    Solution.round_at_first,
    Solution.dive,
    Solution.round,
    Solution.close,
)


def passes_for(problem: SpatialProblem) -> Sequence[Pass]:
    """Return the passes; for ``cost`` on bounded pools of several types, repacking replaces the first rounding."""
    if not problem.minimised:
        return THROUGHPUT_PASSES
    branch = partial(branch_and_price, problem)
    if not suits(problem):
        return (*THROUGHPUT_PASSES, branch)
    to_whole_gpus = (Solution.dive, partial(repack, problem), Solution.round)
    return (*to_whole_gpus, Solution.relax, *to_whole_gpus, Solution.close, branch)


def whole_solution(instance: Instance, run: Run, integer_fraction: float) -> Solution:
    """Return the run of an instance of one of the ``OBJECTIVES``; see ``ColGen`` for the fraction.

    Raises
    ------
    TimeoutError
        If the time is over before pricing begins.
    """
    if instance.objective is Objective.CAPACITY:
        return Solution(ColumnGeneration(CapacityProblem(instance), run), THROUGHPUT_PASSES, integer_fraction)
    problem = SpatialProblem(instance, run.deadline, served_by_none(instance))
    return Solution(ColumnGeneration(problem, run), passes_for(problem), integer_fraction)
