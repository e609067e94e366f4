"""Ledgers with forged rows that have valid digests: a command that cannot read a row refuses the ledger in one line."""

import json
import shutil
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bench.cli.app import main
from bench.ledger.row import columns
from bench.ledger.sql import DIGEST, REACH, digest
from bench.ledger.store import Ledger
from tests.fuzz.malformed import trees
from tests.reports.page.runs_made_here import runs_of_every_kind

EXAMPLES, EXAMPLES_IN_SOAK_TEST = 4, 1_000
"""Number of forged rows: in an ordinary run of the tests, and in the soak test."""

JSON = [column.name for column in columns() if column.type is object] + [REACH]
"""Columns that contain JSON, which the test changes."""

READING_COMMANDS = (
    ("show", "--ledger", "FILE"),
    ("show", "--ledger", "FILE", "KEY"),
    ("report", "FILE", "-o", "site"),
    ("export", "FILE", "-o", "runs.csv"),
    ("compare", "FILE", "FILE"),
    ("figures", "igniter-fig14", "--from", "FILE", "--out", "figures"),
)

OUTPUTS = ("site", "runs.csv", "figures")
"""Files and folders that the commands write."""


def remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, list[dict[str, object]]]:
    """Return the content of a ledger without errors, and its rows as they are stored."""
    path = tmp_path_factory.mktemp("good") / "l.sqlite"
    with Ledger(path, create=True) as ledger:
        for row, instance in runs_of_every_kind():
            ledger.add(row, instance)
    database = sqlite3.connect(path)
    database.row_factory = sqlite3.Row
    stored = [dict(row) for row in database.execute("SELECT * FROM runs")]
    database.execute("PRAGMA journal_mode = DELETE")
    database.close()
    return path.read_bytes(), stored


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield the current folder of the commands; no temporary file may remain in it."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # plans are long
@pytest.mark.parametrize("examples", [EXAMPLES, pytest.param(EXAMPLES_IN_SOAK_TEST, marks=pytest.mark.soak)])
def test_forged_rows_are_refused_in_one_line(
    good: tuple[bytes, list[dict[str, object]]], work: Path, capfd: pytest.CaptureFixture[str], examples: int
) -> None:
    content, stored = good
    exit_codes: Counter[tuple[str, int]] = Counter()
    changes = st.sampled_from(
        [(row, column) for row in stored for column in JSON if isinstance(row[column], str)]
    ).flatmap(lambda place: st.tuples(st.just(place), trees(json.loads(str(place[0][place[1]])))))

    @settings(max_examples=examples, derandomize=examples == EXAMPLES, suppress_health_check=list(HealthCheck))
    @given(changes)
    def check(change: tuple[tuple[dict[str, object], str], object]) -> None:
        (row, column), value = change
        forged = row | {column: json.dumps(value)}
        (work / "l.sqlite").write_bytes(content)
        database = sqlite3.connect(work / "l.sqlite")
        update = f'UPDATE runs SET "{column}" = ?, {DIGEST} = ? WHERE key = ?'
        database.execute(update, [forged[column], digest(forged), row["key"]])
        database.commit()
        database.close()
        for command in READING_COMMANDS:
            placeholders = {"FILE": "l.sqlite", "KEY": str(row["key"])[:20]}
            before = set(work.iterdir())
            capfd.readouterr()
            code = main([placeholders.get(part, part) for part in command])
            printed = capfd.readouterr()
            exit_codes[command[0], code] += 1
            assert code in (0, 1, 2), printed.err
            if code == 2:
                assert printed.out == ""
                assert printed.err.startswith("error: ")
                assert printed.err.count("\n") == 1, printed.err
                assert set(work.iterdir()) == before
            for output in OUTPUTS:
                remove(work / output)

    check()
    print(dict(sorted(exit_codes.items())), file=sys.__stderr__)
    assert exit_codes["report", 2] > 0
