"""Rows for the needs of the document: the latest row of each run, and the list of missing runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from bench.evaluation import Trial
from bench.ledger.row import Row
from bench.simulation.arrivals import Arrivals, Process
from reports.need import Need
from reports.runs import MissingDataError, Runs, merged

NEED = Need("igniter-3", ("igniter",), parameters=("igniter.spend_spare=true",))
CLIMB = Need("gpulet-scen4", ("sbp",))


@pytest.fixture
def runs(hand_made: Any) -> Callable[[list[Row]], Runs]:
    """Return a function that makes ``Runs`` of a ledger with these rows."""
    return lambda rows: Runs(hand_made(rows).ledger)


def test_the_latest_row_of_a_run_is_used(runs: Any, rows_for: Any) -> None:
    (row,) = rows_for(NEED)
    later = replace(row, key="later", value=11.0)
    runs_of_rows = runs([row, later])
    assert runs_of_rows.row(NEED) is later
    assert list(runs_of_rows.used) == ["later"]
    assert runs_of_rows.missing == []


@pytest.mark.parametrize(
    "change",
    [
        {"parameters": {"igniter": {"spend_spare": False}}},
        {"seed": 1},
        {"headroom": 1.1},
        {"truth": "hybrid"},
        {"instance_hash": "of another instance"},
    ],
    ids=str,
)
def test_a_run_with_other_settings_does_not_satisfy_the_need(runs: Any, rows_for: Any, change: dict[str, Any]) -> None:
    runs_of_rows = runs([replace(*rows_for(NEED), **change)])
    with pytest.raises(MissingDataError, match="no runs"):
        runs_of_rows.row(NEED)
    assert runs_of_rows.missing == [NEED]
    assert runs_of_rows.used == {}


def test_a_time_limit_matters_only_if_the_need_has_one(runs: Any, rows_for: Any) -> None:
    runs_of_rows = runs(rows_for(NEED))
    assert runs_of_rows.row(NEED).time_limit_s == 10.0
    with pytest.raises(MissingDataError):
        runs_of_rows.row(replace(NEED, time_limit_s=120.0))


def test_every_missing_need_is_listed_once(runs: Any, rows_for: Any) -> None:
    constant = replace(NEED, trial=Trial(arrivals=Arrivals(Process.CONSTANT)))
    longer = replace(NEED, time_limit_s=120.0)
    runs_of_rows = runs(rows_for(NEED))
    for _ in range(2):
        with pytest.raises(MissingDataError):
            runs_of_rows.rows_of_each([constant, NEED, longer])
    assert runs_of_rows.missing == [constant, longer]


def test_an_unfinished_climb_is_missing(runs: Any, rows_for: Any) -> None:
    rows = rows_for(replace(CLIMB, climb=True))
    climb = runs(rows).climbs(CLIMB)["gpulet-scen4"]
    assert (climb.largest_passed, len(climb.rows)) == (1.0, 3)
    unended = runs(rows[:2])
    with pytest.raises(MissingDataError):
        unended.climbs(CLIMB)
    assert unended.missing == [replace(CLIMB, climb=True)]
    assert unended.missing[0].command.startswith("bench max-rate --instances gpulet-scen4 ")


def test_needs_are_merged_where_only_the_scheduler_differs() -> None:
    igniter, ffd, igniter_again = (Need("igniter-3", (name,)) for name in ("igniter", "ffd+", "igniter"))
    assert merged([igniter, NEED, ffd, igniter_again]) == [Need("igniter-3", ("igniter", "ffd+")), NEED]
