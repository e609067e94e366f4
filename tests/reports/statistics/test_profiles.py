"""Performance profiles: a toy by hand, and what holds for all of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from reports.statistics.profiles import performance_profile, performance_ratios

INF = np.inf
COSTS = arrays(
    float, array_shapes(min_dims=2, max_dims=2, max_side=6), elements=st.sampled_from([0.0, 0.5, 1, 2, 3, 8, INF])
)

TOY = [[1.0, 2.0], [4.0, 2.0], [3.0, 3.0], [INF, 5.0], [INF, INF]]
"""Seconds of two solvers on five problems: each wins once, they tie once, one or both fail."""


def test_by_hand():
    ratios = performance_ratios(TOY)
    assert ratios.tolist() == [[1, 2], [2, 1], [1, 1], [INF, 1], [INF, INF]]
    first, second = (performance_profile(ratios[:, solver]) for solver in range(2))
    assert [part.tolist() for part in first] == [[1.0, 2.0], [0.4, 0.6]]
    assert [part.tolist() for part in second] == [[1.0, 2.0], [0.6, 0.8]]


def test_one_solver_alone_is_the_best_wherever_it_solves():
    tau, rho = performance_profile(performance_ratios([[3.0], [INF], [0.0], [7.0]])[:, 0])
    assert (tau.tolist(), rho.tolist()) == ([1.0], [0.75])


def test_nothing_solved_is_an_empty_profile():
    tau, rho = performance_profile([INF, INF])
    assert tau.size == rho.size == 0


@pytest.mark.parametrize("wrong", [-1.0, np.nan])
def test_costs_are_numbers_of_at_least_0(wrong):
    with pytest.raises(ValueError, match="at least 0"):
        performance_ratios([[1.0, wrong]])


@given(COSTS)
def test_profiles_rise_from_who_is_best_to_who_solves(costs):
    ratios = performance_ratios(costs)
    assert (ratios >= 1.0).all()
    solved = np.isfinite(costs)
    assert (ratios.min(axis=1)[solved.any(axis=1)] == 1.0).all()
    best_anywhere = 0.0
    for solver in range(costs.shape[1]):
        tau, rho = performance_profile(ratios[:, solver])
        assert (np.diff(tau) > 0.0).all()
        assert (np.diff(rho) > 0.0).all()
        if tau.size and np.isfinite(ratios[:, solver]).sum() == solved[:, solver].sum():
            assert rho[-1] == pytest.approx(solved[:, solver].mean())
        best_anywhere += rho[0] if tau.size and tau[0] == 1.0 else 0.0
    assert best_anywhere >= solved.any(axis=1).mean() - 1e-12


@given(COSTS, st.randoms(use_true_random=False))
def test_neither_the_order_of_problems_nor_of_solvers_nor_the_unit_matters(costs, random):
    problems, solvers = list(range(costs.shape[0])), list(range(costs.shape[1]))
    random.shuffle(problems)
    random.shuffle(solvers)
    expected = performance_ratios(costs)[np.ix_(problems, solvers)]
    assert np.array_equal(performance_ratios(1024.0 * costs[np.ix_(problems, solvers)]), expected)
