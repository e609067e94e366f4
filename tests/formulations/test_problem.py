"""First fit, where exact searches start."""

import math

from formulations.problem import Problem, first_fit
from instances.configurations import rates_of
from instances.generate import generate


def test_who_is_not_placed_in_time_is_left_out() -> None:
    instance = generate("igniter-mix", 5, 0)
    problem = Problem(instance, [rates_of(instance, w) for w in range(len(instance.workloads))])
    price = [1.0] * len(problem.offers)
    assert problem.serves_all(first_fit(problem, problem.largest_first(), price, math.inf))
    assert first_fit(problem, problem.largest_first(), price, 0.0) == []
