"""Curves of the page: plans and bounds over time, and results against the size of instances."""

import pytest

from instances.suites import suite
from reports.page.curves import progress, reference, scaling
from tests.reports.page.runs_made_here import BOUND, GAME, TWELVE, case_of, row_of


def point(t_s, value=None, bound=None, feasible=True):
    return {
        "t_s": t_s,
        "value": value,
        "feasible": feasible if value is not None else None,
        "bound": bound,
        "bound_certified": bound is not None,
    }


PLAN = {"gpus": []}


def test_the_best_plan_is_the_reference_for_all_rows():
    rows = [row_of(name, GAME, plan=PLAN, feasible=True, value=value) for name, value in (("a", 1.0), ("b", 1.5))]
    assert reference(case_of(GAME, *rows)) == (1.5, "the best known plan")
    assert reference(case_of(GAME, row_of("a", GAME))) is None


def test_without_a_feasible_plan_the_best_bound_is_the_reference():
    row = row_of("a", TWELVE, plan=PLAN, plan_class="spatial", feasible=False, value=24.48, violations=1, **BOUND)
    assert reference(case_of(TWELVE, row)) == (pytest.approx(18.36), "the best certified bound")
    assert reference(case_of(TWELVE, row_of("a", TWELVE, **BOUND))) == (16.0, "the best certified bound")


def test_curves_have_improving_plans_and_rising_bounds():
    trajectory = [
        point(0.5, 30.60),
        point(0.2, 36.72),
        point(0.6, 12.24, feasible=False),
        point(0.3, bound=12.0),
        point(0.7, 33.66),
        point(0.8, bound=16.0),
    ]
    row = row_of("a", TWELVE, feasible=True, value=24.48, decision_s=2.0, trajectory=trajectory)
    curves = progress(row, case_of(TWELVE, row), 18.36)
    assert curves["plans"] == [(0.2, 100.0), (0.5, 66.667), (2.0, 33.333)]
    assert curves["bounds"] == [(0.3, -33.333), (0.8, 0.0)]  # rounded up to the costs of whole GPUs, 12.24 and 18.36


def test_under_a_maximised_objective_a_smaller_value_is_worse():
    row = row_of("a", GAME, feasible=True, value=1.5, decision_s=1e-5)
    assert progress(row, case_of(GAME, row), 2.0)["plans"] == [(1e-05, 25.0)]


@pytest.mark.parametrize("best", [5e-324, -1.7e308])
def test_distances_are_limited_to_a_billion_percent(best):
    rows = [row_of("a", TWELVE, feasible=True, value=value, decision_s=1.0) for value in (best, 1.7e308)]
    ((_, worse_pct),) = progress(rows[1], case_of(TWELVE, *rows), best)["plans"]
    assert worse_pct == 1e9


def test_scaling_has_medians_and_extremes_by_size():
    mixes = suite("igniter-scaling").build()[:3]
    cases = [
        case_of(mix, *(row_of("a", mix, seed=s, decision_s=(s + 1.0) * len(mix.workloads)) for s in range(3)))
        for mix in mixes
    ]
    (curve,) = scaling(cases)["s"]
    assert [(p["workloads"], p["runs"], p["decision_s"]) for p in curve["points"]] == [
        (len(mix.workloads), 3, tuple(k * len(mix.workloads) for k in (1.0, 2.0, 3.0))) for mix in mixes
    ]
    assert curve["points"][0]["behind_pct"] is None
    assert scaling(cases[:2]) == {}
