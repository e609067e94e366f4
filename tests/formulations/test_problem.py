"""First fit, from whose plan exact searches start."""

import math

from formulations.problem import Problem, first_fit
from instances.configurations import rates_of
from instances.generate import generate


def test_first_fit_leaves_out_workloads_that_it_cannot_place_in_time() -> None:
    instance = generate("igniter-mix", 5, 0)
    problem = Problem(instance, [rates_of(instance, w) for w in range(len(instance.workloads))])
    price = [1.0] * len(problem.offers)
    assert problem.serves_all(first_fit(problem, problem.largest_first(), price, math.inf))
    assert first_fit(problem, problem.largest_first(), price, 0.0) == []
