"""The table of all runs: the command that repeats a run, and the run that proved the bound of a gap."""

from dataclasses import replace

import pytest

from heuristics.igniter.igniter import IGniter
from reports.page.runs import COLUMNS, command
from tests.reports.page.runs_made_here import BOUND, TWELVE, case_of, replay_of, row_of, run_of


def command_of(row, **case):
    return command(row, case_of(TWELVE, row, **case))


def test_the_command_has_all_settings_of_the_run():
    row = row_of("colgen", TWELVE, seed=3, parameters={"colgen": {"plan_class": "split", "fraction": 0.5, "cut": None}})
    assert command_of(row) == (
        "bench run --instances igniter-12 --schedulers colgen --seeds 3 --param colgen.plan_class=split"
        " --param colgen.fraction=0.5 --time-limit 10 --memory-limit 8 --threads 1"
    )


def test_the_command_has_the_conditions_of_the_trial():
    row = row_of("ffd+", TWELVE, headroom=1.2, truth="hybrid, figures off by up to 20 %", plan_class="spatial")
    assert command_of(row, arrivals={row.key: "constant"}).endswith(
        "--threads 1 --headroom 1.2 --arrivals constant --truth hybrid --error 0.2"
    )
    assert " --simulate off " in command_of(row)


def test_a_run_of_a_search_for_rates_has_no_command():
    assert command_of(row_of("ffd+", TWELVE), suite="igniter-12 at other rates") is None


def test_the_command_of_a_replay_begins_with_its_plan():
    row = replay_of(run_of(IGniter(), TWELVE))
    settings = row.parameters["replay"] | {"seconds": 3.0, "arrivals": "gamma:3", "half": True, "dropping": False}
    assert command_of(replace(row, parameters={"replay": settings})) == (
        "bench show abababababab --ledger l.sqlite --plan -o plan.json && bench replay plan.json --backend cpu --seed 0"
        " --seconds 3.0 --arrivals gamma:3 --half --no-drop"
    )


@pytest.mark.parametrize("dropping", [True, False])
def test_the_command_of_a_replay_has_dropping_only_if_it_differs_from_the_instance(dropping):
    problem = replace(TWELVE, dropping=dropping)
    row = replay_of(run_of(IGniter(), problem))
    for dropping_in_replay, words in ((dropping, ""), (not dropping, " --no-drop" if dropping else " --drop")):
        replayed = replace(row, parameters={"replay": row.parameters["replay"] | {"dropping": dropping_in_replay}})
        text = command(replayed, case_of(problem, replayed))
        assert text is not None
        assert (" --drop" in text, " --no-drop" in text) == (words == " --drop", words == " --no-drop")


def test_names_in_commands_are_quoted_for_a_shell():
    row = replace(row_of("ffd+", TWELVE), instance="a b; rm -r *")
    assert "--instances 'a b; rm -r *' --schedulers" in command_of(row)


def test_a_gap_names_the_run_that_proved_its_bound():
    proof = row_of("colgen", TWELVE, plan={"gpus": []}, plan_class="spatial", feasible=True, value=18.36, **BOUND)
    plan = row_of("igniter", TWELVE, plan={"gpus": []}, plan_class="spatial", feasible=True, value=21.42)
    broken = replace(plan, key="broken", feasible=False)
    case = case_of(TWELVE, proof, plan, broken)
    values = {name: [COLUMNS[name](case, row) for row in case.rows] for name in ("gap_bound", "gap_bound_key")}
    assert values == {"gap_bound": [18.36, 18.36, None], "gap_bound_key": [proof.key, proof.key, None]}
