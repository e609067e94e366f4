"""Bars of the largest scales, relative to a reference scheduler."""

import pytest

from reports.charts.rate_bars import MEAN, relative_scales
from reports.papers import figure
from tests.reports.stated import stated


@pytest.fixture(scope="module")
def scale_row(make_row):
    def make(need, instance, value, **given):
        values = {"value": value, "feasible": True, "decision_s": 0.5, "parameters": stated(need)}
        return make_row(need.schedulers[0], instance, **(values | given))

    return make


def test_relative_scales_and_their_mean_are_of_instances_with_a_reference(make_row):
    rows = {
        "best": [
            make_row("b", "gpulet-game", value=4.0, feasible=True),
            make_row("b", "gpulet-equal", value=5.0, feasible=True),
        ],
        "other": [
            make_row("o", "gpulet-game", value=3.0, feasible=True),
            make_row("o", "gpulet-equal", value=2.5, feasible=True),
            make_row("o", "gpulet-traffic", value=9.0, feasible=True),
        ],
        "none": [make_row("n", "gpulet-game", value=3.0, feasible=False)],
    }
    assert relative_scales(rows, "best") == {
        "best": {"gpulet-game": 1.0, "gpulet-equal": 1.0, MEAN: 1.0},
        "other": {"gpulet-game": 0.75, "gpulet-equal": 0.5, MEAN: 0.625},
    }
    assert relative_scales(rows, "none") == {}


def test_bars_are_by_instance_with_the_papers_mean(scale_row, draw):
    ideal, elastic = figure("gpulet-fig17").needs
    rows = [scale_row(ideal, "gpulet-scen1", 8.0), scale_row(elastic, "gpulet-scen1", 6.0)]
    (ax,) = draw("gpulet-fig17", rows).axes
    assert [text.get_text() for text in ax.get_xticklabels()][-1] == MEAN
    heights = sorted(bar.get_height() for bar in ax.patches)
    assert heights == [0.75, 0.75, 1.0, 1.0]  # the instance and the mean
    (star,) = (line for line in ax.lines if line.get_marker() == "*")
    assert star.get_ydata() == [0.926]


def test_the_rows_of_other_variants_are_not_mixed_in(scale_row, draw):
    ideal, elastic = figure("gpulet-fig17").needs
    other = {name: values | {"second_pass": True} for name, values in stated(elastic).items()}
    rows = [
        scale_row(ideal, "gpulet-scen1", 8.0),
        scale_row(elastic, "gpulet-scen1", 6.0),
        scale_row(elastic, "gpulet-scen1", 7.0, parameters=other),
    ]
    (ax,) = draw("gpulet-fig17", rows).axes
    assert sorted({bar.get_height() for bar in ax.patches}) == [0.75, 1.0]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["scen1", MEAN]  # instances without runs are left out


def test_runs_at_their_time_limit_and_infeasible_plans_are_named(scale_row, draw):
    ideal, elastic = figure("gpulet-arxiv-fig16").needs
    rows = [
        scale_row(ideal, "gpulet-equal", 8.0, decision_s=10.02),
        scale_row(elastic, "gpulet-equal", 6.0, feasible=False, violations=2),
    ]
    note = " ".join(draw("gpulet-arxiv-fig16", rows).get_supxlabel().split())
    assert "Stopped by the time limit: ideal on gpulet-equal." in note
    assert "Without a result: elastic-partitioning (violations) on gpulet-equal." in note
