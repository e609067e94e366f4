"""Bars of the numbers of schedulable scenarios."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from bench.scenarios import pack
from instances.suites import SCENARIO_SUITES
from reports.charts.scenario_bars import missed_note, scenario_set_rows
from reports.need import NothingToDrawError
from reports.papers import figure
from reports.papers.gpulet_scenarios import HALVES_IN_PAPER
from tests.reports.stated import stated


@pytest.fixture(scope="module")
def set_row(make_row):
    """Return a function that makes the row of a run on a need's scenario set, from its verdicts on the scenarios."""

    def make(need, accepted, served, **given):
        scenarios = SCENARIO_SUITES[need.instances].build()
        counts = {
            "count": len(scenarios),
            "decided": len(accepted),
            "accepted": sum(accepted),
            "served": sum(served),
            "accepted_bits": pack(accepted),
            "served_bits": pack(served),
        }
        values = {"instance_hash": scenarios.fingerprint, "parameters": stated(need), "scenarios": counts}
        return make_row(need.schedulers[0], **(values | given))

    return make


def every(number, of):
    return [index % number == 0 for index in range(of)]


def widths(ax):
    return sorted(round(bar.get_width()) for bar in ax.patches)


def test_each_variant_has_a_bar_of_plans_and_one_of_feasible_plans(set_row, draw):
    whole, halves, *_ = figure("gpulet-fig5").needs
    page = draw(
        "gpulet-fig5",
        [set_row(whole, every(2, 19682), every(2, 19682)), set_row(halves, every(1, 19682), every(4, 19682))],
    )
    (ax,) = page.axes
    assert widths(ax) == [4921, 9841, 9841, 19682]
    assert [text.get_text() for text in ax.get_yticklabels()] == ["sbp", "sbp, halves"]
    assert ax.get_xlabel() == "Scenarios, of 19,682"
    assert {"9,841\n9,841", "19,682\n4,921"} <= {text.get_text() for text in ax.texts}
    stars = [tuple(map(int, line.get_xydata()[0])) for line in ax.lines if line.get_marker() == "*"]
    assert stars == [(HALVES_IN_PAPER["sbp"], 0), (HALVES_IN_PAPER["sbp, halves"], 1)] == [(5772, 0), (19682, 1)]


def test_the_latest_row_of_each_variant_is_drawn(set_row):
    whole, halves, *_ = figure("gpulet-fig5").needs
    needs = {"whole": whole, "halves": halves}
    rows = [set_row(whole, every(3, 19682), every(3, 19682)), set_row(whole, every(5, 19682), every(5, 19682))]
    drawn = scenario_set_rows(figure("gpulet-fig5"), [*rows, set_row(halves, [], [], instance_hash="another")], needs)
    assert drawn == {"whole": rows[1]}


def test_without_the_whole_set_a_sample_is_drawn_without_the_papers_counts(set_row, draw):
    whole, halves, *_ = figure("gpulet-fig5").needs
    sample = {"instance_hash": SCENARIO_SUITES["gpulet-1790"].build().fingerprint}
    rows = [set_row(need, every(2, 1790), every(4, 1790), **sample) for need in (whole, halves)]
    rows = [replace(row, scenarios={**row.scenarios, "count": 1790}) for row in rows]
    page = draw("gpulet-fig5", rows)
    assert widths(page.axes[0]) == [448, 448, 895, 895]
    assert not [line for line in page.axes[0].lines if line.get_marker() == "*"]
    assert "Only 1,790 of the 19,682 scenarios" in page.get_supxlabel()
    needs = {"whole": whole, "halves": halves}
    assert scenario_set_rows(figure("gpulet-fig5"), [*rows, set_row(halves, [], [])], needs).keys() == {"halves"}


def test_unfinished_sets_and_missing_runs_are_named(set_row, draw):
    whole, *_ = figure("gpulet-arxiv-fig4").needs
    row = set_row(whole, every(2, 100), every(2, 100), termination="wall_limit")
    note = " ".join(draw("gpulet-arxiv-fig4", [row]).get_supxlabel().split())
    assert "Not run: sbp, halves." in note
    assert "sbp ended (wall limit) after 100 scenarios." in note


def test_missed_scenarios_are_counted_one_by_one(set_row, draw):
    ideal, elastic, _ = figure("gpulet-arxiv-fig15").needs
    # Of 1,023 scenarios, ideal schedules the even ones (512), elastic the multiples of three (341), both 171.
    rows = [set_row(ideal, every(2, 1023), every(2, 1023)), set_row(elastic, every(3, 1023), every(3, 1023))]
    note = " ".join(draw("gpulet-arxiv-fig15", rows).get_supxlabel().split())
    assert "gpulet+int misses 341 of the scenarios of ideal; in the paper 18." in note
    assert missed_note({"a": rows[0]}, "a", "b", 1) == []


def test_without_runs_the_error_has_the_command():
    need = figure("gpulet-fig16").needs[1]
    with pytest.raises(NothingToDrawError, match=r"--param elastic-partitioning.variant=atc22 --param elastic"):
        scenario_set_rows(
            figure("gpulet-fig16"), [SimpleNamespace(instance_hash="x", scheduler="y")], {"gpulet+int": need}
        )
