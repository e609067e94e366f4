"""Table of deviations from the papers: the parameters that it names exist and have the defaults that it states."""

import re
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from bench.ledger.labels import in_words

TABLE = Path(__file__).parents[1] / "docs" / "deviations.md"
HEAD = ["algorithm", "in print", "here", "parameter and default", "what it changes"]
NONE = "–"

ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith("|---")
]
DEVIATIONS = [row for row in ROWS if row != HEAD]
SCHEDULERS = {point.name: point for point in entry_points(group="bench.schedulers")}
WITH_PARAMETER = [row for row in DEVIATIONS if row[3] != NONE]
SWITCHES = {"true": "yes", "false": "no"}
"""Words of the table for the values of switches."""

STATED = re.compile(r"`([^`]+)\.(\w+)=([\w.-]+)`")
"""Scheduler, parameter and default in the table."""

OWN = {
    *("colgen", "cpsat", "mig", "minlp", "pwl"),
    *("equal-shares", "local-search", "random", "ruin-recreate", "time-slicing", "whole-gpu"),
    "ts+repair",
}
"""Schedulers that no paper describes. Each parameter of the others needs a row in the table."""


def parameters(scheduler: str) -> dict[str, str]:
    """Return the defaults of a scheduler's parameters in the words of the table."""
    written = {field.name: str(in_words(field.default)) for field in fields(SCHEDULERS[scheduler].load()) if field.init}
    return {name: SWITCHES.get(default, default) for name, default in written.items()}


def test_every_row_has_every_column() -> None:
    assert all(len(row) == len(HEAD) and all(row) for row in ROWS)
    assert ROWS.count(HEAD) == 4
    assert len(WITH_PARAMETER) >= 10


def test_every_row_states_its_effect_or_why_there_is_none() -> None:
    assert [row[:2] for row in DEVIATIONS if row[4] == NONE] == []


def test_every_effect_of_training_is_that_of_a_whole_training() -> None:
    """A whole training has 250 episodes; an effect after fewer would be stated as "100 of 250 episodes"."""
    assert "of 250 episodes" not in TABLE.read_text(encoding="utf-8")


def test_a_parameter_of_the_table_has_the_default_that_the_table_states(subtests: pytest.Subtests) -> None:
    for row in WITH_PARAMETER:
        for entry in row[3].split(", "):
            with subtests.test(entry=entry):
                stated = STATED.fullmatch(entry)
                assert stated is not None
                scheduler, name, default = stated.groups()
                assert f"`{scheduler}`" in row[0]
                assert parameters(scheduler).get(name) == default


def test_every_parameter_of_a_papers_scheduler_has_a_row(subtests: pytest.Subtests) -> None:
    stated = {match.groups() for row in WITH_PARAMETER for match in STATED.finditer(row[3])}
    for scheduler in sorted(SCHEDULERS.keys() - OWN):
        with subtests.test(scheduler=scheduler):
            missing = {(scheduler, name, default) for name, default in parameters(scheduler).items()} - stated

            assert missing == set()


def test_own_schedulers_exist_and_have_no_row() -> None:
    assert SCHEDULERS.keys() >= OWN
    assert not OWN & {match[1] for row in WITH_PARAMETER for match in STATED.finditer(row[3])}


def test_the_algorithms_of_the_table_are_schedulers() -> None:
    named = {name for row in DEVIATIONS for name in re.findall(r"`([^`]+)`", row[0])} - {"inss"}
    assert named <= SCHEDULERS.keys()
    assert {"elastic-partitioning", "sbp", "igniter", "ts", "mediator", "horus"} <= named
