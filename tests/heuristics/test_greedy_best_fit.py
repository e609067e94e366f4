"""Greedy best fit with interference."""

from dataclasses import replace

import pytest

from bench.api import Run
from bench.judging.judge import judge
from heuristics.gpulet.best_fit import GreedyBestFit
from instances import Instance, Objective
from instances.suites import suite


@pytest.mark.parametrize("pair", suite("gpulet-pairs").build(), ids=lambda pair: pair.name)
def test_the_rate_that_a_neighbour_loses_is_served_elsewhere(pair: Instance) -> None:
    """At three times the rates each pair needs both of its GPUs, and the second model slows the first."""
    problem = replace(pair.scaled(3.0), objective=Objective.COST)

    plan = GreedyBestFit(interference=True).schedule(problem, Run()).plan

    assert plan is not None
    assert judge(plan, problem).feasible
