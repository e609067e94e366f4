"""The table of all runs, and the command behind each."""

from dataclasses import replace

from reports.page.runs import command
from tests.reports.page.runs_made_here import TWELVE, row_of


def test_the_command_states_what_can_change_the_run():
    row = row_of("colgen", TWELVE, seed=3, parameters={"colgen": {"plan_class": "split", "fraction": 0.5, "cut": None}})
    assert command(row) == (
        "bench run --instances igniter-12 --schedulers colgen --seeds 3 --param colgen.plan_class=split"
        " --param colgen.fraction=0.5 --time-limit 10 --memory-limit 8 --threads 1"
    )


def test_the_command_says_how_a_plan_was_tried():
    row = row_of("ffd+", TWELVE, headroom=1.2, truth="hybrid, figures off by up to 20 %")
    assert command(row).endswith("--threads 1 --headroom 1.2 --truth hybrid --error 0.2")


def test_a_shell_reads_names_as_they_are():
    row = replace(row_of("ffd+", TWELVE), instance="a b; rm -r *")
    assert "--instances 'a b; rm -r *' --schedulers" in command(row)
