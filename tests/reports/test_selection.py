"""Selection of the rows that a figure draws, and notes on missing ones."""

import re
from dataclasses import replace

import pytest

from bench.evaluation import Trial
from bench.simulation.arrivals import Arrivals
from reports.figure import Figure
from reports.need import Need, NothingToDrawError
from reports.papers import figure
from reports.selection import figure_rows, instances_of, missing_notes, nothing_to_draw, plans_and_notes, rows_by_label

NEEDS = (
    Need("igniter-scaling", ("igniter", "ffd+"), quick="igniter-mix-10-s0,64gpu-cost"),
    Need("igniter-12", ("cpsat",)),
)


def a_figure(*needs: Need) -> Figure:
    return replace(figure("igniter-fig20"), name="name", needs=needs)


def test_needs_name_suites_and_instances():
    sizes = {name: len(instance.workloads) for name, instance in instances_of(NEEDS).items()}
    assert sizes == {
        "igniter-12": 12,
        "64gpu-cost": 160,
        **{f"igniter-mix-{size}-s0": size for size in (10, 20, 50, 100, 200, 500, 1000)},
    }


def test_the_latest_row_of_each_run_is_drawn_in_the_order_of_the_needs(make_row):
    rows = [
        make_row("other"),
        make_row("cpsat", value=1.0),
        make_row("ffd+", "igniter-mix-1000-s0"),
        make_row("ffd+", "igniter-mix-50-s0", seed=1),
        make_row("ffd+", "igniter-mix-50-s0"),
        make_row("cpsat", value=2.0),
        make_row("igniter"),
        make_row("igniter", "64gpu-pool"),
    ]
    drawn = figure_rows(a_figure(*NEEDS), rows)
    assert [(row.scheduler, row.instance, row.seed, row.value) for row in drawn] == [
        ("igniter", "igniter-12", 0, None),
        ("ffd+", "igniter-mix-50-s0", 0, None),
        ("ffd+", "igniter-mix-50-s0", 1, None),
        ("ffd+", "igniter-mix-1000-s0", 0, None),
        ("cpsat", "igniter-12", 0, 2.0),
        ("other", "igniter-12", 0, None),
    ]


def test_the_first_seed_with_a_plan_is_drawn(make_row, two_gpus):
    rows = [make_row(seed=2, plan=two_gpus), make_row(seed=0), make_row(seed=1, plan=two_gpus)]
    plans, notes = plans_and_notes(a_figure(Need("igniter-12", ("igniter",))), rows)
    assert {scheduler: row.seed for scheduler, row in plans.items()} == {"igniter": 1}
    assert notes == []


def test_missing_results_are_grouped_by_scheduler_and_cause(make_row):
    rows = [
        make_row("ffd+", "igniter-mix-10-s0", termination="wall_limit", status="unknown"),
        make_row("ffd+", "igniter-mix-20-s0", termination="wall_limit", status="unknown"),
        make_row("ffd+", "igniter-mix-20-s0", seed=1, termination="wall_limit", status="unknown"),
        make_row("cpsat", status="infeasible"),
    ]
    notes = [
        "Not run: igniter.",
        "Without a result: ffd+ (wall limit) on igniter-mix-10-s0, igniter-mix-20-s0;"
        " cpsat (infeasible) on igniter-12.",
    ]
    assert missing_notes(a_figure(*NEEDS), [*rows, make_row("ffd+")], rows) == notes
    assert missing_notes(a_figure(NEEDS[1]), rows, []) == []
    with pytest.raises(NothingToDrawError, match=re.escape(f"name: no run has a result to draw. {' '.join(notes)}")):
        missing_notes(a_figure(*NEEDS), rows, rows)


def test_rows_of_other_trials_are_not_drawn(make_row):
    rows = [
        make_row("ffd+", "igniter-mix-10-s0", value=1.0, headroom=1.0, simulation={"arrivals": "poisson"}),
        make_row("ffd+", "igniter-mix-10-s0", value=2.0, headroom=1.1, simulation={"arrivals": "poisson"}),
        make_row("ffd+", "igniter-mix-10-s0", value=3.0, truth="hybrid", simulation={"arrivals": "poisson"}),
        make_row("ffd+", "igniter-mix-10-s0", value=4.0, simulation={"arrivals": "gamma:3"}),
    ]
    assert [row.value for row in figure_rows(a_figure(*NEEDS), rows)] == [1.0]
    with_headroom = a_figure(*NEEDS, Need("igniter-scaling", ("ffd+",), trial=Trial(1.1, arrivals=Arrivals())))
    assert [row.value for row in figure_rows(with_headroom, rows)] == [1.0, 2.0]


def test_variants_of_a_scheduler_have_their_rows_by_label(make_row):
    needs = {
        "on": Need("igniter-12", ("a",), parameters=("a.fast=true",)),
        "off": Need("igniter-12", ("a",), parameters=("a.fast=false",)),
    }
    rows = [make_row("a", value=value, parameters={"a": {"fast": value > 2.0}}) for value in (1.0, 2.0, 3.0)]
    by_label = rows_by_label([*rows, make_row("a", "igniter-mix-10-s0", parameters={"a": {"fast": True}})], needs)
    assert {key: row.value for key, row in by_label.items()} == {("on", "igniter-12"): 3.0, ("off", "igniter-12"): 2.0}


def test_of_many_commands_the_error_has_the_first_four():
    many = tuple(Need("igniter-12", (f"s{number}",)) for number in range(6))
    message = str(nothing_to_draw(a_figure(*many)))
    assert "`bench figures name`" in message
    assert message.endswith("--schedulers s3 --seeds 0` and 2 more like these")
    assert "more like" not in str(nothing_to_draw(a_figure(*many[:4])))
