"""The table of deviations: parameters that it names exist and have the defaults that it states."""

import re
from dataclasses import fields
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from bench.formatting import in_words

TABLE = Path(__file__).parents[1] / "docs" / "deviations.md"
HEAD = ["algorithm", "in print", "here", "parameter and default", "what it changes"]
NONE = "–"

ROWS = [
    [cell.strip() for cell in line.strip().strip("|").split("|")]
    for line in TABLE.read_text(encoding="utf-8").splitlines()
    if line.startswith("|") and not line.startswith("|---")
]
LINES = [row for row in ROWS if row != HEAD]
SCHEDULERS = {point.name: point for point in entry_points(group="bench.schedulers")}
PARAMETERS = [row for row in LINES if row[3] != NONE]
SWITCHES = {"true": "yes", "false": "no"}


def test_every_row_has_every_column() -> None:
    assert all(len(row) == len(HEAD) and all(row) for row in ROWS)
    assert ROWS.count(HEAD) == 4
    assert len(PARAMETERS) >= 10


@pytest.mark.parametrize("row", PARAMETERS, ids=[row[3].strip("`") for row in PARAMETERS])
def test_a_parameter_of_the_table_has_the_default_that_the_table_states(row: list[str]) -> None:
    stated = re.fullmatch(r"`([^`]+)\.(\w+)=([\w.-]+)`", row[3])
    assert stated is not None
    scheduler, name, default = stated.groups()
    assert f"`{scheduler}`" in row[0]
    found = {field.name: field.default for field in fields(SCHEDULERS[scheduler].load())}

    assert name in found
    written = in_words(found[name])
    assert SWITCHES.get(written, written) == default


def test_the_algorithms_of_the_table_are_schedulers() -> None:
    named = {name for row in LINES for name in re.findall(r"`([^`]+)`", row[0])} - {"inss"}
    assert named <= SCHEDULERS.keys()
    assert {"elastic-partitioning", "sbp", "igniter", "ts", "mediator", "horus"} <= named
