"""First duals of column generation: the bound at them holds, and for an overloaded GPU it is not trivial."""

import time

import numpy as np
import pytest

from bench.api import Run, Status
from bench.judging.judge import judge
from formulations.colgen import ColGen
from formulations.colgen.column_generation import most_served
from formulations.colgen.solution import ColumnGeneration
from formulations.colgen.spatial.problem import SpatialProblem
from instances import Objective
from instances.generate import generate


@pytest.mark.parametrize("seed", range(4))
def test_the_first_bound_on_the_goodput_of_an_overloaded_gpu_holds_and_is_not_trivial(seed: int) -> None:
    instance = generate("overload-mix", 6, seed, Objective.GOODPUT, gpus=1)
    outcome = ColGen().schedule(instance, Run(deadline=time.monotonic() + 300.0, work_limit=1_000_000))
    assert outcome.status is Status.OPTIMAL
    assert outcome.plan is not None

    first = ColumnGeneration(SpatialProblem(instance), Run()).bound

    assert judge(outcome.plan, instance).value <= first * (1.0 + 1e-9)
    assert first < most_served(instance) * (1.0 - 1e-3)

    value = np.array([1.0, 5.0, 1.0, 1.0, 5.0, 1.0])
    valued, valued_tenfold = (
        ColumnGeneration(SpatialProblem(instance, value=factor * value), Run()) for factor in (1.0, 10.0)
    )
    assert valued.bound < valued.problem.trivial_bound * (1.0 - 1e-3)
    assert valued_tenfold.bound == pytest.approx(10.0 * valued.bound)


def test_the_first_bound_on_the_goodput_of_an_idle_pool_is_the_sum_of_the_rates() -> None:
    instance = generate("igniter-mix", 4, 0, Objective.GOODPUT, gpus=4)

    assert ColumnGeneration(SpatialProblem(instance), Run()).bound == pytest.approx(most_served(instance))
