"""A damaged ledger is found out, and what is whole in it comes back unchanged."""

import random
import shutil
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench.cli.app import main
from bench.ledger.row import Row, columns
from bench.ledger.salvage import salvage
from bench.ledger.sql import DIGEST, REACH, digest, row_to_sql
from bench.ledger.store import Ledger
from instances import InputError, Instance

MakeRow = Callable[..., Row]

ROWS = 60


@pytest.fixture
def rows(make_row: MakeRow, instance: Instance) -> list[Row]:
    """Rows short and long: some take several pages of the file."""
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


def stored(path: Path) -> list[Row]:
    with Ledger(path) as ledger:
        return ledger.rows()


def test_all_of_a_whole_ledger_is_saved_in_its_order(path: Path, rows: list[Row], instance: Instance) -> None:
    new = path.with_name("new.sqlite")
    found = salvage(path, new)
    assert (found.runs, found.instances, found.chunks) == (ROWS, 1, 1)
    assert (found.damaged, found.lost_instances) == ([], [])
    with Ledger(new) as ledger:
        assert ledger.rows() == rows
        assert ledger.instance(instance.fingerprint) == instance
        assert ledger.chunks("ab" * 32) == [{"first": 0, "accepted": [True], "served": [True], "decision_s": [0.5]}]
    assert sorted(path.parent.iterdir()) == [path, new]


def test_what_only_the_write_ahead_log_has_is_saved(path: Path, rows: list[Row], instance: Instance) -> None:
    added = replace(rows[0], key="cd" * 32)
    copied = path.with_name("copied.sqlite")
    with Ledger(path, create=True) as ledger:
        ledger.add(added, instance)
        for end in ("", "-wal"):  # as a machine that loses power leaves them
            shutil.copy(f"{path}{end}", f"{copied}{end}")
    salvage(copied, path.with_name("new.sqlite"))
    assert stored(path.with_name("new.sqlite")) == [*rows, added]


def test_value_that_was_changed_is_found_out(path: Path, rows: list[Row]) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE runs SET value = 6.5 WHERE key = ?", [rows[7].key])
    database.commit()
    database.close()
    with pytest.raises(InputError, match=r"run 000000000000: is damaged.*bench salvage"):
        stored(path)
    found = salvage(path, path.with_name("new.sqlite"))
    assert (found.runs, found.damaged) == (ROWS - 1, [rows[7].key])
    assert stored(path.with_name("new.sqlite")) == [row for row in rows if row != rows[7]]


@pytest.mark.parametrize(
    ("name", "value"), [("seed", "x"), ("statistics", "[]"), ("statistics", "{"), ("status", "no"), ("value", b"1")]
)
def test_value_that_no_run_has_is_found_out_without_a_digest(
    path: Path, rows: list[Row], name: str, value: str
) -> None:
    database = sqlite3.connect(path)
    database.execute(f"UPDATE runs SET {name} = ?, digest = NULL WHERE key = ?", [value, rows[3].key])
    database.commit()
    database.close()
    with pytest.raises(InputError, match=rf"run 000000000000: {name}: is damaged"):
        stored(path)


@pytest.mark.parametrize("part", [0.3, 0.9])
def test_truncated_ledger_is_refused_and_its_whole_rows_are_saved(path: Path, rows: list[Row], part: float) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: int(part * len(content))])
    with pytest.raises(InputError, match="bench salvage"):
        stored(path)
    found = salvage(path, path.with_name("new.sqlite"))
    assert 0 < found.runs < ROWS
    assert all(row in rows for row in stored(path.with_name("new.sqlite")))


@pytest.mark.parametrize("seed", range(10))
def test_of_a_ledger_with_a_destroyed_page_all_others_are_saved(path: Path, rows: list[Row], seed: int) -> None:
    content = bytearray(path.read_bytes())
    dice = random.Random(seed)
    page = 4096 * dice.randrange(len(content) // 4096) if seed else 0  # the first holds the header and the schema
    content[page : page + 4096] = dice.randbytes(4096)
    path.write_bytes(content)
    found = salvage(path, path.with_name("new.sqlite"))
    whole = stored(path.with_name("new.sqlite"))
    assert found.runs == len(whole) >= ROWS - 40
    assert [row for row in rows if row in whole] == whole


@pytest.mark.parametrize("opened_since", [False, True])
def test_rows_of_version_3_are_saved_though_the_file_does_not_say_their_columns(
    path: Path, rows: list[Row], opened_since: bool
) -> None:
    names = ", ".join(f'"{column.name}"' for column in columns()) + f", {DIGEST}"
    database = sqlite3.connect(path)
    database.execute("ALTER TABLE runs RENAME TO newer")
    database.execute(f"CREATE TABLE runs ({names}, PRIMARY KEY (key))")
    database.execute(f"INSERT INTO runs SELECT {names} FROM newer")
    for row in rows:
        values = row_to_sql(row) | {REACH: None}
        database.execute(f"UPDATE runs SET {DIGEST} = ? WHERE key = ?", [digest(values), row.key])
    database.execute("DROP TABLE newer")
    database.execute("DROP TABLE chunks")
    if opened_since:
        database.execute(f"ALTER TABLE runs ADD COLUMN {REACH} JSON")
    database.commit()
    database.execute("VACUUM")
    database.execute("PRAGMA journal_mode = DELETE")
    database.close()
    content = bytearray(path.read_bytes())
    content[100:4096] = bytes(3996)
    path.write_bytes(content)
    found = salvage(path, path.with_name("new.sqlite"))
    assert (found.runs, found.damaged) == (ROWS, [])
    assert stored(path.with_name("new.sqlite")) == rows


def test_rows_of_a_bench_that_wrote_fewer_columns_are_saved(path: Path, rows: list[Row]) -> None:
    database = sqlite3.connect(path)
    for column in ("over_capacity_pct", "digest"):
        database.execute(f"ALTER TABLE runs DROP COLUMN {column}")
    database.execute("PRAGMA user_version = 1")
    database.close()
    assert salvage(path, path.with_name("new.sqlite")).runs == ROWS
    assert stored(path.with_name("new.sqlite")) == rows


def test_instance_that_is_lost_is_told(path: Path, instance: Instance) -> None:
    database = sqlite3.connect(path)
    database.execute("DELETE FROM instances")
    database.commit()
    database.execute("VACUUM")
    database.close()
    assert salvage(path, path.with_name("new.sqlite")).lost_instances == [instance.fingerprint]


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"\r" * 9000, bytes(range(256)) * 64])
def test_what_is_no_ledger_is_refused_and_leaves_nothing(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(InputError, match="nothing of a ledger"):
        salvage(path, tmp_path / "new.sqlite")
    assert list(tmp_path.iterdir()) == [path]


def test_damage_that_sqlite_quotes_is_told_in_one_line(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"runsruns", b"r\xf3\nsruns", 1))
    with pytest.raises(InputError, match=r"bench salvage") as refused:
        stored(path)
    assert "\n" not in str(refused.value)


def test_damaged_row_is_not_shown(path: Path, rows: list[Row], capsys: pytest.CaptureFixture[str]) -> None:
    database = sqlite3.connect(path)
    database.execute("UPDATE runs SET value = -1 WHERE key = ?", [rows[7].key])  # the best of all
    database.commit()
    database.close()
    assert main(["show", "--ledger", str(path)]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "run 000000000000: is damaged" in printed.err


def test_where_nothing_can_be_written_the_file_that_was_asked_for_is_named(path: Path) -> None:
    target = path / "new.sqlite"  # in what is no folder
    with pytest.raises(InputError, match="cannot be used as a ledger") as refused:
        salvage(path, target)
    assert refused.value.where == str(target)


def test_command(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new = path.with_name("new.sqlite")
    assert main(["salvage", str(path), "-o", str(new)]) == 0
    assert capsys.readouterr().out.splitlines()[0] == f"{ROWS} runs and 1 instances are whole, written to {new}"
    assert main(["salvage", str(path), "-o", str(new)]) == 2
    assert capsys.readouterr().err == f"error: {new}: exists already; name a new file\n"
    assert main(["salvage", str(path.with_name("absent")), "-o", "x.sqlite"]) == 2
