"""Who is best at what."""

import pytest

from bench.ledger.reach import Reach
from bench.ledger.store import Ledger
from reports.page.case import Case, read_cases
from reports.page.leaderboard import leaderboards
from tests.reports.page.runs_made_here import TWELVE, row_of


@pytest.fixture(scope="module")
def boards(ledger_file):
    with Ledger(ledger_file) as ledger:
        return {(board.suite, board.objective): board for board in leaderboards(read_cases(ledger))}


def cells(board):
    return {
        line.name: dict(zip([h.text for h in board.heads], [c.text for c in line.cells], strict=True))
        for line in board.lines
    }


def test_there_is_one_for_every_suite_and_objective(boards):
    assert set(boards) == {
        ("igniter-12", "cost"),
        ("igniter-scaling", "cost"),
        ("gpulet-game", "scale"),
        ("gpulet-1023", "scenarios"),
        ("own instances", "cost"),
    }


def test_plans_that_hold_come_first(boards):
    board = boards["igniter-12", "cost"]
    assert [(line.name, line.ranked) for line in board.lines] == [
        ("ffd++", True),
        ("igniter", True),
        ("cpsat", False),
        ("ffd+", False),
    ]
    assert [dict(line.outcomes) for line in board.lines][2:] == [{"crashed": 1}, {"breaks constraints": 1}]
    assert cells(board)["igniter"]["Value"] == "18.36 $/h"
    assert cells(board)["igniter"]["Gap to bound"] == "0.0 %"
    assert cells(board)["ffd+"]["Gap to bound"] == "-"


def test_replays_compete_with_nobody(boards):
    assert not any(line.scheduler == "replay" for board in boards.values() for line in board.lines)


def test_scenario_sets_are_counted(boards):
    assert list(cells(boards["gpulet-1023", "scenarios"])["sbp"].values()) == ["1,023", "900", "890", "1 ms"]


def test_figures_are_means_over_runs():
    rows = [
        row_of("a", TWELVE, seed=0, plan={"gpus": []}, feasible=True, value=20.0, decision_s=1.0),
        row_of("a", TWELVE, seed=1, plan={"gpus": []}, feasible=True, value=10.0, decision_s=3.0),
        row_of("b", TWELVE, plan={"gpus": []}, feasible=False, violations=1, value=5.0),
    ]
    (board,) = leaderboards(
        [Case("x", "00", "s", TWELVE, rows, [], {row.key: Reach.of(row.plan) for row in rows if row.plan})]
    )
    found = cells(board)
    assert found["a"] == {
        "Value": "10.00 $/h",
        "GPUs": "-",
        "Feasible": "2 of 2",
        "Gap to bound": "-",
        "Behind best": "25.0 %",
        "Decision": "2.00 s",
        "Not in time": "-",
    }
    assert found["b"]["Feasible"] == "0 of 1"
