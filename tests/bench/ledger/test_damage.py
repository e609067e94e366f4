"""Damaged ledgers: the error is one line that names the remedy."""

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Call

from bench.cli.app import main
from bench.ledger.row import Row
from bench.ledger.sql import digest
from bench.ledger.store import Ledger
from instances import InputError, Instance

MakeRow = Callable[..., Row]

ROWS = 60


@pytest.fixture
def rows(make_row: MakeRow, instance: Instance) -> list[Row]:
    """Return short and long rows; some take several pages of the file."""
    plan = {"version": 1, "gpus": [{"type": "v100", "gpulets": []}]}
    return [
        make_row(
            key=f"{number:064x}",
            instance_hash=instance.fingerprint,
            seed=-number * 1000,
            value=float(number),
            log_tail="x\u00fc" * (number * number * 5),
            plan=plan if number % 2 else None,
        )
        for number in range(ROWS)
    ]


@pytest.fixture
def path(tmp_path: Path, rows: list[Row], instance: Instance) -> Path:
    path = tmp_path / "ledger.sqlite"
    with Ledger(path, create=True) as ledger:
        for row in rows:
            ledger.add(row, instance)
        ledger.add_chunk("ab" * 32, {"first": 0, "accepted": [True], "served": [True], "decision_s": [0.5]})
    return path


def stored_rows(path: Path) -> list[Row]:
    with Ledger(path) as ledger:
        return ledger.rows()


def test_a_changed_value_is_detected(path: Path, rows: list[Row]) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE runs SET value = 6.5 WHERE key = ?", [rows[7].key])
    database.commit()
    database.close()
    with pytest.raises(InputError, match=r"run 000000000000: is damaged.*DELETE FROM runs"):
        stored_rows(path)
    database = sqlite3.connect(path)
    database.execute(f"DELETE FROM runs WHERE key LIKE '{rows[7].key}%'")
    database.commit()
    database.close()
    assert stored_rows(path) == [row for row in rows if row != rows[7]]


@pytest.mark.parametrize(
    ("name", "value"), [("seed", "x"), ("statistics", "[]"), ("statistics", "{"), ("status", "no"), ("value", b"1")]
)
def test_an_impossible_value_is_detected_even_with_a_valid_digest(
    path: Path, rows: list[Row], name: str, value: str
) -> None:
    database = sqlite3.connect(path)
    database.execute(f"UPDATE runs SET {name} = ? WHERE key = ?", [value, rows[3].key])
    database.row_factory = sqlite3.Row
    forged = dict(database.execute("SELECT * FROM runs WHERE key = ?", [rows[3].key]).fetchone())
    database.execute("UPDATE runs SET digest = ? WHERE key = ?", [digest(forged), rows[3].key])
    database.commit()
    database.close()
    with pytest.raises(InputError, match=rf"run 000000000000: {name}: is damaged"):
        stored_rows(path)


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_truncated_ledger_is_refused(path: Path, part: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(InputError, match=r"\.recover"):
        stored_rows(path)


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"\r" * 9000, bytes(range(256)) * 64])
def test_a_file_that_is_no_ledger_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match="is no ledger"):
        Ledger(path)


def test_an_error_that_quotes_damaged_text_is_one_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"runsruns", b"r\xf3\nsruns", 1))
    with pytest.raises(InputError, match=r"\.recover") as refused:
        stored_rows(path)
    assert "\n" not in str(refused.value)


def test_damaged_row_is_not_shown(path: Path, rows: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE runs SET value = -1 WHERE key = ?", [rows[7].key])  # would be the best row
    database.commit()
    database.close()
    assert main(["show", "--ledger", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "run 000000000000: is damaged" in printed.err


@pytest.mark.parametrize("command", ["export {}", "show --ledger {}", "report {} -o site", "compare {} {}"])
@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ("log_tail = CAST(x'6162ff1b' AS TEXT)", "is damaged: a text is not UTF-8; delete it"),
        ("log_tail = 'x'", "is damaged, or was changed outside the bench; delete it"),
    ],
)
def test_every_command_that_reads_names_the_damaged_run_in_one_line(
    call: Call, path: Path, rows: list[Row], command: str, change: str, problem: str
) -> None:
    database = sqlite3.connect(path)
    database.execute(f"UPDATE runs SET {change} WHERE key = ?", [rows[7].key])
    database.commit()
    database.close()
    done = call(command.replace("{}", str(path)))
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    assert f"run {rows[7].key[:12]}: {problem}" in done.err
    assert all(character.isprintable() or character == "\n" for character in done.err)
