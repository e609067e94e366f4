"""Primal and dual integrals: against values worked out by hand, and between their limits."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reports.statistics.gaps import bound_gap_over_time, gap_at, gap_integral, gap_over_time


def point(t_s, value, feasible=True):
    return {"t_s": t_s, "value": value, "feasible": feasible, "bound": None, "bound_certified": None}


def test_the_integral_sums_gaps_over_time(make_row):
    # No plan until 1 s, then 12 where 6 is possible, 8 from 3 s on, 6 at 5 s: 1 * 1 + 2 * 1/2 + 2 * 1/4 = 2.5.
    history = [point(0.5, 3.0, feasible=False), point(1.0, 12.0), point(2.0, 20.0), point(3.0, 8.0)]
    row = make_row(objective="cost", value=6.0, feasible=True, decision_s=5.0, trajectory=history)
    steps = gap_over_time(row, 6.0)
    assert steps == [(0.0, 1.0), (1.0, 0.5), (3.0, 0.25), (5.0, 0.0)]
    assert gap_integral(steps, 10.0) == pytest.approx(2.5)
    assert gap_integral(steps, 2.0) == pytest.approx(1.5)
    assert [gap_at(steps, t_s) for t_s in (0.0, 0.9, 1.0, 4.9, 9.0)] == [1.0, 1.0, 0.5, 0.25, 0.0]


def test_without_a_feasible_plan_the_integral_is_the_horizon(make_row):
    failed = make_row(trajectory=[point(1.0, 3.0, feasible=False)], termination="crashed", value=None)
    assert gap_integral(gap_over_time(failed, 6.0), 10.0) == 10.0


def test_a_run_without_progress_reports_counts_from_its_end(make_row):
    row = make_row(objective="throughput", value=80.0, feasible=True, decision_s=0.5, trajectory=[])
    assert gap_integral(gap_over_time(row, 100.0), 10.0) == pytest.approx(0.5 + 0.2 * 9.5)


def test_the_dual_integral_counts_certified_bounds(make_row):
    # No bound until 1 s, then 3 where 6 is possible, 4.5 at the end after 3 s: 1 * 1 + 2 * 1/2 + 7 * 1/4 = 3.75.
    history = [point(0.5, None), point(0.7, None), point(1.0, None)]
    history = [
        {**each, "bound": b, "bound_certified": c}
        for each, (b, c) in zip(history, ((5.0, False), (None, None), (3.0, True)), strict=True)
    ]
    row = make_row(objective="cost", decision_s=3.0, bound=4.5, bound_certified=True, trajectory=history)
    steps = bound_gap_over_time(row, 6.0)
    assert steps == [(0.0, 1.0), (1.0, 0.5), (3.0, 0.25)]
    assert gap_integral(steps, 10.0) == pytest.approx(3.75)
    assert bound_gap_over_time(make_row(objective="cost", trajectory=[]), 6.0) == [(0.0, 1.0)]


@pytest.mark.parametrize(("objective", "bound"), [("cost", 7.0), ("throughput", 5.0), ("cost", 6.0)])
def test_a_bound_beyond_the_best_plan_has_no_gap(make_row, objective, bound):
    row = make_row(objective=objective, decision_s=2.0, bound=bound, bound_certified=True, trajectory=[])
    assert bound_gap_over_time(row, 6.0) == [(0.0, 1.0), (2.0, 0.0)]


@given(st.lists(st.tuples(st.floats(0.0, 20.0), st.floats(6.0, 100.0)), max_size=8), st.floats(0.1, 15.0), st.data())
def test_the_integral_lies_between_0_and_the_horizon_in_any_order(make_row, plans, horizon_s, data):
    def integral(points):
        row = make_row(objective="cost", value=None, trajectory=[point(*plan) for plan in points])
        return gap_integral(gap_over_time(row, 6.0), horizon_s)

    value = integral(plans)
    assert 0.0 <= value <= horizon_s * (1 + 1e-12)
    assert integral(data.draw(st.permutations(plans))) == value
    assert integral([*plans, (0.0, 6.0)]) == 0.0
