"""Tables of a contest, and the figures drawn from them."""

import numpy as np
import pytest

from bench.ledger.row import Row
from reports.charts.palette import QUIET
from reports.need import NothingToDrawError
from reports.papers.rankings import CRITICAL_DIFFERENCE, TARGET, figure_table, notes_on


@pytest.fixture(scope="module")
def cost_row(make_row):
    def make(scheduler, instance, value, **given) -> Row:
        solved = {"value": value, "feasible": True} if value is not None else {"termination": "crashed"}
        blank = {"objective": "cost", "decision_s": 0.5, "trajectory": [], "parameters": {scheduler: {}}}
        key = f"{scheduler} {instance} {sorted(given.items())}"
        return make_row(scheduler, instance, **(blank | solved | {"key": key} | given))

    return make


SMALL = ("exact-5-s0", "exact-5-s1", "exact-10-s0")


@pytest.fixture(scope="module")
def rows(cost_row):
    """Igniter is best twice, ffd++ once; random fails once; colgen ran on one instance only."""
    costs = {"igniter": (6.0, 6.0, 12.0), "ffd++": (6.0, 8.0, 9.0), "random": (12.0, None, 18.0)}
    complete = [
        cost_row(scheduler, instance, value)
        for scheduler, of_instances in costs.items()
        for instance, value in zip(SMALL, of_instances, strict=True)
    ]
    return [*complete, cost_row("colgen", SMALL[2], 9.0)]


def test_the_largest_complete_table_is_chosen_and_the_rest_named(rows):
    table = figure_table(CRITICAL_DIFFERENCE, rows)
    assert list(table.runs) == ["random", "ffd++", "igniter"]
    assert [len(by_instance) for by_instance in table.runs.values()] == [3, 3, 3]
    assert list(table.best.values()) == [6.0, 6.0, 9.0]
    assert notes_on(table) == [
        "3 instances: exact-5-s0, exact-5-s1, exact-10-s0.",
        "Not run on all of these: colgen.",
        "Runs without a feasible plan, with a gap of 100 %: random 1.",
    ]


def test_gaps_factors_and_times_are_as_worked_out_by_hand(rows):
    table = figure_table(CRITICAL_DIFFERENCE, rows)
    assert table.gaps().tolist() == [[0.5, 0.0, 0.0], [1.0, 0.25, 0.0], [0.5, 0.0, 0.25]]
    assert table.factors() == pytest.approx(np.array([[2.0, 1.0, 1.0], [np.inf, 4 / 3, 1.0], [2.0, 1.0, 4 / 3]]))
    assert table.times_s(TARGET).tolist() == [[np.inf, 0.5, 0.5], [np.inf, np.inf, 0.5], [np.inf, 0.5, np.inf]]


def test_seeds_are_averaged_the_latest_run_counts_and_variants_are_contestants(cost_row):
    rows = [
        cost_row("random", SMALL[0], 12.0),
        cost_row("random", SMALL[0], 8.0),
        cost_row("random", SMALL[0], None, seed=1),
        cost_row("igniter", SMALL[0], 6.0, parameters={"igniter": {"spend_spare": True}}),
        cost_row("igniter", SMALL[0], 8.0, parameters={"igniter": {"spend_spare": False}}),
        cost_row("ffd++", SMALL[0], None, termination="skipped"),
    ]
    table = figure_table(CRITICAL_DIFFERENCE, rows)
    assert list(table.runs) == ["random", "igniter[spend_spare=false]", "igniter[spend_spare=true]"]
    assert table.gaps().tolist() == [[(0.25 + 1.0) / 2, 0.25, 0.0]]


def test_ranks_and_groups_without_a_difference_are_drawn(rows, draw):
    page = draw("critical-difference", rows)
    (ax,) = page.axes
    # Mean ranks of the gaps: random 3, ffd++ (1.5 + 2 + 1) / 3, igniter (1.5 + 1 + 2) / 3
    labels = [text.get_text().split() for text in ax.texts if len(text.get_text().split()) == 2]
    assert sorted(labels) == [["3.00", "random"], ["ffd++", "1.50"], ["igniter", "1.50"]]
    marks = sorted(line.get_xdata()[0] for line in ax.lines if line.get_marker() in "^op")
    assert marks == [1.5, 1.5, 3.0]
    (bar,) = (line for line in ax.lines if line.get_color() == "black" and line.get_linewidth() == 2.5)
    assert bar.get_xdata()[0] < 1.5
    assert bar.get_xdata()[1] > 3.0  # three schedulers on three instances: the critical difference is 1.91
    assert page.get_supxlabel().endswith("difference at 5 %: 1.91.")


@pytest.mark.parametrize("count", [1, 3])
def test_ranks_need_two_schedulers_and_two_instances(rows, count, draw):
    with pytest.raises(
        NothingToDrawError, match=r"critical-difference: .* at least two of each are needed: `bench run --instances"
    ):
        draw("critical-difference", rows[:count])


def test_profiles_start_at_the_share_won_and_end_at_the_share_solved(rows, draw):
    quality, speed = draw("performance-profiles", rows).axes
    steps = {line.get_color(): line for line in quality.lines if line.get_drawstyle() == "steps-post"}
    parts = sorted((line.get_ydata()[1], line.get_ydata()[-1]) for line in steps.values())
    assert parts == [pytest.approx((0.0 + 200 / 3, 200 / 3)), *[pytest.approx((200 / 3, 100.0))] * 2]
    assert speed.get_xscale() == "log"
    assert QUIET not in steps


def test_gaps_over_time_fall_with_plans_and_integrals_sum_them(rows, draw):
    page = draw("primal-integral", rows)
    over_time, integrals = page.axes
    lines = {line.get_label(): line for line in over_time.lines}
    assert lines["igniter"].get_ydata()[0] == 100.0
    assert lines["igniter"].get_ydata()[-1] == pytest.approx(100.0 * 0.25 / 3)
    assert lines["random"].get_ydata()[-1] == pytest.approx(100.0 * 2.0 / 3)
    assert len(over_time.collections) == 3  # one band for each scheduler
    # igniter: 0.5 s without a plan, then a gap of 1/4 on one of three instances for 9.5 s
    points = {round(line.get_ydata()[0]): line.get_xdata()[0] for line in integrals.lines if line.get_marker() in "^op"}
    assert points[2] == pytest.approx(0.5 + 9.5 * 0.25 / 3)
    assert "random 1" in page.get_supxlabel()
