"""Performance profiles: a small example worked out by hand, and properties of all profiles."""

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

TIMES_S = [[1.0, 2.0], [4.0, 2.0], [3.0, 3.0], [INF, 5.0], [INF, INF]]
"""Times of two solvers on five problems: each wins once, they tie once, one fails once, and both fail once."""


def test_ratios_and_profiles_of_two_solvers():
    ratios = performance_ratios(TIMES_S)
    assert ratios.tolist() == [[1, 2], [2, 1], [1, 1], [INF, 1], [INF, INF]]
    first, second = (performance_profile(ratios[:, solver]) for solver in range(2))
    assert [values.tolist() for values in first] == [[1.0, 2.0], [0.4, 0.6]]
    assert [values.tolist() for values in second] == [[1.0, 2.0], [0.6, 0.8]]


def test_a_single_solver_is_the_best_on_every_problem_it_solves():
    tau, rho = performance_profile(performance_ratios([[3.0], [INF], [0.0], [7.0]])[:, 0])
    assert (tau.tolist(), rho.tolist()) == ([1.0], [0.75])


def test_a_solver_that_solves_nothing_has_an_empty_profile():
    tau, rho = performance_profile([INF, INF])
    assert tau.size == rho.size == 0


@pytest.mark.parametrize("wrong", [-1.0, np.nan])
def test_costs_below_0_or_nan_are_refused(wrong):
    with pytest.raises(ValueError, match="at least 0"):
        performance_ratios([[1.0, wrong]])


@given(COSTS)
def test_profiles_rise_from_the_share_won_to_the_share_solved(costs):
    ratios = performance_ratios(costs)
    assert (ratios >= 1.0).all()
    solved = np.isfinite(costs)
    assert (ratios.min(axis=1)[solved.any(axis=1)] == 1.0).all()
    shares_won = 0.0
    for solver in range(costs.shape[1]):
        tau, rho = performance_profile(ratios[:, solver])
        assert (np.diff(tau) > 0.0).all()
        assert (np.diff(rho) > 0.0).all()
        if tau.size and np.isfinite(ratios[:, solver]).sum() == solved[:, solver].sum():
            assert rho[-1] == pytest.approx(solved[:, solver].mean())
        shares_won += rho[0] if tau.size and tau[0] == 1.0 else 0.0
    assert shares_won >= solved.any(axis=1).mean() - 1e-12


@given(COSTS, st.randoms(use_true_random=False))
def test_ratios_ignore_orders_and_the_unit(costs, random):
    problems, solvers = list(range(costs.shape[0])), list(range(costs.shape[1]))
    random.shuffle(problems)
    random.shuffle(solvers)
    expected = performance_ratios(costs)[np.ix_(problems, solvers)]
    assert np.array_equal(performance_ratios(1024.0 * costs[np.ix_(problems, solvers)]), expected)
