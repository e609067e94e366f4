"""iGniter's Fig. 18: shares by workload and scheduler."""

import pytest
from matplotlib.colors import to_hex

from reports.charts.palette import ALARM, ALARM_HATCH, pale, scheduler_look
from reports.charts.plan_bars import shares_pct
from reports.placement import Piece

NAME = "igniter-fig18"


def test_there_is_a_bar_per_workload_and_scheduler(make_row, make_plan, two_gpus, draw):
    other = make_plan([(40, ("W12", 8))], [(26, ("W8", 6)), (10, ("W6", 4))])
    ax = draw(NAME, [make_row(plan=two_gpus), make_row("ffd+", plan=other)]).axes[0]
    heights = {}
    for bar in ax.patches:
        if bar.get_height():
            heights[round(bar.get_x() + bar.get_width() / 2, 2)] = bar.get_height()
    assert heights == {4.8: 15.0, 5.2: 25.0, 6.8: 75.0, 7.2: 65.0, 10.8: 92.5, 11.2: 100.0}
    assert len(ax.patches) == 24


def test_axes_have_workloads_models_and_the_unit(make_row, two_gpus, draw):
    page = draw(NAME, [make_row(plan=two_gpus)])
    (ax,) = page.axes
    assert ax.get_ylabel() == "Share of a GPU (%)"
    assert ax.get_ylim() == (0.0, 100.0)
    assert [text.get_text() for text in ax.get_xticklabels()] == [f"W{number}" for number in range(1, 13)]
    (below,) = ax.child_axes
    assert [text.get_text() for text in below.get_xticklabels()] == ["alexnet", "resnet50", "vgg19", "ssd"]
    assert below.get_xlabel() == "Workload and its DNN model"


def test_violations_are_pale_and_hatched_with_a_red_edge(make_row, two_gpus, draw):
    details = [{"kind": "latency", "gpu": 1, "workload": "W8"}]
    page = draw(NAME, [make_row(plan=two_gpus, violations=1, violation_details=details)])
    (bar,) = (bar for bar in page.axes[0].patches if bar.get_hatch() == ALARM_HATCH)
    assert bar.get_height() == 75.0
    assert to_hex(bar.get_edgecolor()).upper() == ALARM
    assert to_hex(bar.get_facecolor()).upper() == pale(scheduler_look("igniter").colour)
    assert [text.get_text() for text in page.legends[0].get_texts()] == ["igniter", "violation"]


def test_shares_of_a_split_workload_add_up_and_turns_are_divided():
    def piece(share_pct, workload, turns=1):
        return Piece(0, 0.0, share_pct, 0, turns, workload, "ssd", 1, False)

    shares = shares_pct([piece(50.0, "a"), piece(25.0, "a"), piece(40.0, "a", 2), piece(40.0, "b", 2)])
    assert shares == {"a": pytest.approx(95.0), "b": pytest.approx(20.0)}
