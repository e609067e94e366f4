"""Column generation for the most valuable service on a fixed pool.

The requests of workloads differ in value. A workload may be served in part, or not at all.
"""

from functools import partial

from bench.api import Run
from formulations.colgen.branching import branch_and_price
from formulations.colgen.full_rates import full_rate
from formulations.colgen.solution import ColumnGeneration, Pass, Solution
from formulations.colgen.spatial.problem import SpatialProblem, served_by_none
from instances import Instance, Objective
from instances.arrays import Floats
from instances.configurations import rates_of

HASTY_NODE_LIMITS = (2_000, 20_000)
"""First and last node limit of a pricing call where budgets depend on the share.

With higher limits pricing takes minutes, mostly to compare sets of residents of nearly the same value.
"""


def valued_solution(
    instance: Instance,
    value: Floats,
    whole: frozenset[int],
    run: Run,
    passes: tuple[Pass, ...],
    integer_fraction: float,
) -> Solution:
    """Return the run for the most value per second; see ``ColGen.most_valuable``.

    ``whole`` has the positions of the workloads that are served at their full rate or not at all, unless no GPU alone
    serves them.

    Raises
    ------
    TimeoutError
        If the time is over before pricing begins.
    """
    assert instance.objective is Objective.GOODPUT
    divisible = served_by_none(instance)
    rates = [
        full_rate(rates_of(instance, w)) if w in whole - divisible else rates_of(instance, w)
        for w in range(len(instance.workloads))
    ]
    problem = SpatialProblem(instance, run.deadline, divisible, rates, value=value)
    if instance.slo_rule.by_share:
        problem.node_limits = HASTY_NODE_LIMITS
    return Solution(ColumnGeneration(problem, run), (*passes, partial(branch_and_price, problem)), integer_fraction)
