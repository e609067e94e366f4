"""InSS's decision times, fragments and usage of GPUs."""

import pytest
from matplotlib.colors import to_hex

from reports.figures import figure
from reports.figures.inss_fig19 import points
from reports.palette import ALARM
from reports.scheduler_bars import allocated_pct, fragments_pct


@pytest.fixture(scope="module")
def run_row(make_row, stated):
    def make(name, position, **given):
        need = figure(name).needs[position]
        own = {"value": 1.0, "feasible": True, "decision_s": 0.25, "gpus_used": 3, "fragments_pct": 20.0}
        instance = given.pop("instance", need.instances)
        return make_row(need.schedulers[0], instance, parameters=stated(need), **(own | given))

    return make


def test_fragments_are_summed_over_the_gpus_in_use(make_row):
    row = make_row(gpus_used=3, fragments_pct=20.0)
    assert (allocated_pct(row), fragments_pct(row)) == (240.0, 60.0)
    nothing = make_row(gpus_used=None, fragments_pct=None)
    assert (allocated_pct(nothing), fragments_pct(nothing)) == (None, None)


@pytest.mark.parametrize(
    ("name", "heights"), [("inss-fig3", [250.0]), ("inss-fig4", [60.0]), ("inss-fig15", [240.0, 60.0])]
)
def test_a_bar_of_each_part(name, heights, run_row, draw):
    (ax,) = draw(name, [run_row(name, 3)]).axes
    assert [bar.get_height() for bar in ax.patches] == heights
    assert [text.get_text() for text in ax.get_xticklabels()] == ["igniter"]


def test_the_variant_that_leaves_shares_free_is_drawn(run_row, draw):
    rows = [run_row("inss-fig15", 3), run_row("inss-fig15", 3, gpus_used=4, fragments_pct=0.0)]
    rows[1].parameters["igniter"]["spend_spare"] = True
    (ax,) = draw("inss-fig15", rows).axes
    assert [bar.get_height() for bar in ax.patches] == [240.0, 60.0]


def test_plans_that_break_constraints_are_named_in_red(run_row, draw):
    rows = [run_row("inss-fig18", 1, feasible=False, violations=98), run_row("inss-fig18", 2)]
    page = draw("inss-fig18", rows)
    (ax,) = page.axes
    colours = [to_hex(text.get_color()).upper() for text in ax.get_xticklabels()]
    assert colours == [ALARM, "#000000"]
    note = " ".join(page.get_supxlabel().split())
    assert "plans that break constraints, so many of them: gslice+ 98." in note
    assert "Not run: elastic-partitioning, local-search." in note


def test_who_has_no_plan_is_named(run_row, draw):
    missing = run_row("inss-fig18", 0, status="unknown", gpus_used=None, fragments_pct=None, value=None, feasible=None)
    page = draw("inss-fig18", [missing, run_row("inss-fig18", 2)])
    assert "Without a result: elastic-partitioning (unknown) on 64gpu-capacity." in " ".join(
        page.get_supxlabel().split()
    )


def test_medians_over_instances_of_a_size(run_row, draw):
    times = {"exact-5-s0": 0.001, "exact-5-s1": 0.009, "exact-5-s2": 0.002, "exact-40-s0": 0.1}
    rows = [
        run_row("inss-fig19", 1, instance=instance, decision_s=seconds, gpus_used=2 if "-5-" in instance else 13)
        for instance, seconds in times.items()
    ]
    assert points(rows) == [(2, pytest.approx(2.0)), (13, pytest.approx(100.0))]
    (ax,) = draw("inss-fig19", rows).axes
    (line,) = (line for line in ax.lines if line.get_label() == "gslice+")
    assert line.get_xydata().round(6).tolist() == [[2.0, 2.0], [13.0, 100.0]]
    assert ax.get_xscale() == ax.get_yscale() == "log"
