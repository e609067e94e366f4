"""Tests of the rows that answer a need: the latest of each run; and of what is said of the rest."""

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
    """Return the runs of a ledger with certain rows."""
    return lambda rows: Runs(hand_made(rows).ledger)


def test_the_latest_row_of_a_run_counts(runs: Any, rows_for: Any) -> None:
    (row,) = rows_for(NEED)
    later = replace(row, key="later", value=11.0)
    found = runs([row, later])
    assert found.row(NEED) is later
    assert list(found.used) == ["later"]
    assert found.missing == []


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
def test_a_run_made_otherwise_is_another(runs: Any, rows_for: Any, change: dict[str, Any]) -> None:
    found = runs([replace(*rows_for(NEED), **change)])
    with pytest.raises(MissingDataError, match="no runs"):
        found.row(NEED)
    assert found.missing == [NEED]
    assert found.used == {}


def test_a_time_limit_counts_where_the_need_has_one(runs: Any, rows_for: Any) -> None:
    found = runs(rows_for(NEED))
    assert found.row(NEED).time_limit_s == 10.0
    with pytest.raises(MissingDataError):
        found.row(replace(NEED, time_limit_s=120.0))


def test_every_need_that_lacks_a_run_is_told_once(runs: Any, rows_for: Any) -> None:
    constant = replace(NEED, trial=Trial(arrivals=Arrivals(Process.CONSTANT)))
    longer = replace(NEED, time_limit_s=120.0)
    found = runs(rows_for(NEED))
    for _ in range(2):
        with pytest.raises(MissingDataError):
            found.rows_of_each([constant, NEED, longer])
    assert found.missing == [constant, longer]


def test_a_climb_is_there_when_it_has_ended(runs: Any, rows_for: Any) -> None:
    rows = rows_for(replace(CLIMB, climb=True))
    one = runs(rows).climbs(CLIMB)["gpulet-scen4"]
    assert (one.largest_passed, len(one.rows)) == (1.0, 3)
    unended = runs(rows[:2])
    with pytest.raises(MissingDataError):
        unended.climbs(CLIMB)
    assert unended.missing == [replace(CLIMB, climb=True)]
    assert unended.missing[0].command.startswith("bench max-rate --instances gpulet-scen4 ")


def test_needs_are_merged_where_only_the_scheduler_differs() -> None:
    one, two, three = (Need("igniter-3", (name,)) for name in ("igniter", "ffd+", "igniter"))
    assert merged([one, NEED, two, three]) == [Need("igniter-3", ("igniter", "ffd+")), NEED]
