"""Leaderboards: one for each suite and objective, with ranks and means."""

import pytest

from bench.ledger.store import Ledger
from instances.suites import suite
from reports.page.instance_results import read_results
from reports.page.leaderboard import leaderboards
from tests.reports.page.runs_made_here import TWELVE, case_of, row_of


@pytest.fixture(scope="module")
def boards(ledger_file):
    with Ledger(ledger_file) as ledger:
        return {(board.suite, board.objective): board for board in leaderboards(read_results(ledger))}


def cells(board):
    return {
        line.name: dict(zip([h.text for h in board.heads], [c.text for c in line.cells], strict=True))
        for line in board.lines
    }


def test_there_is_a_leaderboard_for_every_suite_and_objective(boards):
    assert set(boards) == {
        ("igniter-12", "cost"),
        ("igniter-scaling", "cost"),
        ("gpulet-game", "scale"),
        ("gpulet-1023", "scenarios"),
        ("own instances", "cost"),
    }


def test_feasible_plans_come_first(boards):
    board = boards["igniter-12", "cost"]
    assert [(line.name, line.rank) for line in board.lines] == [
        ("ffd++", 1),
        ("igniter", 1),
        ("cpsat", None),
        ("ffd+", None),
    ]
    assert [dict(line.outcomes) for line in board.lines][2:] == [{"crashed": 1}, {"breaks constraints": 1}]
    assert cells(board)["igniter"]["Value"] == "18.36 $/h"
    assert cells(board)["igniter"]["Gap to bound"] == "0.0 %"
    assert cells(board)["ffd+"]["Gap to bound"] == "-"


def test_replays_are_not_on_leaderboards(boards):
    assert not any(line.scheduler == "replay" for board in boards.values() for line in board.lines)


def test_the_leaderboard_of_a_scenario_set_has_counts(boards):
    assert list(cells(boards["gpulet-1023", "scenarios"])["sbp"].values()) == ["1,023", "900", "890", "1 ms"]


def test_values_are_means_over_runs():
    rows = [
        row_of("a", TWELVE, seed=0, plan={"gpus": []}, feasible=True, value=20.0, decision_s=1.0),
        row_of("a", TWELVE, seed=1, plan={"gpus": []}, feasible=True, value=10.0, decision_s=3.0),
        row_of("b", TWELVE, plan={"gpus": []}, feasible=False, violations=1, value=5.0),
    ]
    (board,) = leaderboards([case_of(TWELVE, *rows)])
    cells_of = cells(board)
    assert cells_of["a"] == {
        "Value": "10.00 $/h",
        "GPUs": "-",
        "Feasible": "2 of 2",
        "Gap to bound": "-",
        "Behind best": "25.0 %",
        "Decision": "2.00 s",
        "Not in time (1 % allowed)": "-",
        "Holds": "unchecked × 2",
    }
    assert cells_of["b"]["Feasible"] == "0 of 1"


def feasible(scheduler, instance, value=10.0, **given):
    return row_of(scheduler, instance, plan={"gpus": []}, feasible=True, value=value, **given)


def ranks(*cases):
    (board,) = leaderboards(cases)
    return {line.name: line.rank for line in board.lines}


def test_a_scheduler_that_solves_more_instances_comes_first():
    mixes = suite("igniter-scaling").build()[:3]
    cases = [
        case_of(mix, feasible("all", mix, 11.0), *([feasible("one", mix)] if number == 0 else []))
        for number, mix in enumerate(mixes)
    ]
    assert ranks(*cases) == {"all": 1, "one": 2}
    (board,) = leaderboards(cases)
    assert [cells(board)[name]["Instances"] for name in ("all", "one")] == ["3 of 3", "1 of 3"]


def test_equal_schedulers_share_a_rank_and_those_without_results_have_none():
    rows = [feasible(name, TWELVE) for name in ("a", "b")] + [feasible("c", TWELVE, 12.0), row_of("d", TWELVE)]
    wrong = feasible("e", TWELVE, truth="figures off by up to 20 %")
    assert ranks(case_of(TWELVE, *rows, wrong)) == {"a": 1, "b": 1, "c": 3, "d": None, "e": None}


def test_runs_at_other_rates_have_no_ranks():
    rows = [feasible(name, TWELVE) for name in ("a", "b")]
    assert ranks(case_of(TWELVE, *rows, suite="igniter-12 at other rates")) == {"a": None, "b": None}
