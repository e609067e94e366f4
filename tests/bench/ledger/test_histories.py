"""Random faults while rows are stored: every row that was reported as stored is in the ledger afterwards."""

import os
import signal
import sqlite3
import tempfile
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from random import Random

import pytest

from bench.ledger import ledger_file
from bench.ledger.ledger_file import DamagedLedgerError, LostLedgerError, UnwritableLedgerError
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.ledger.writer import Writer
from instances import InputError, Instance
from tests.bench.ledger.faulty_disk import BUSY, FULL, IO_ERROR, KILL, Faults, faulty_disk
from tests.soak import first

MakeRow = Callable[..., Row]

CODES = (IO_ERROR, FULL, BUSY, KILL)
SESSIONS = 3  # processes one after the other that write to one ledger
ROWS = 4
"""Number of rows that a session tries to store."""


def session(path: Path, rows: list[Row], instance: Instance, faults: Faults) -> set[str]:
    """Store rows in a child process with a faulty disk; return the keys that it reported as stored."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        code = 1
        try:
            ledger_file.BUSY_TIMEOUT_S = 0.02
            with faulty_disk(faults):
                try:
                    with Ledger(path, create=True) as ledger:
                        for row in rows:
                            try:
                                ledger.add(row, instance)
                            except InputError:
                                continue
                            os.write(writing, row.key.encode())
                except InputError:
                    pass
            code = 0
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as reported:
        keys = reported.read().decode()
    _, status = os.waitpid(child, 0)
    assert status == (signal.SIGKILL if os.WIFSIGNALED(status) and faults.code == KILL else 0)
    return {keys[start : start + 64] for start in range(0, len(keys), 64)}


def check(path: Path, reported: set[str], rows: dict[str, Row]) -> None:
    """Check that the file is not damaged, and has all rows reported as stored, with their values, and no others."""
    if not path.exists():
        assert reported == set()
        return
    with closing(sqlite3.connect(path)) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        tables = {name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if "runs" not in tables:  # the first session failed before it created the tables
        assert reported == set()
        return
    with Ledger(path) as ledger:
        stored = {row.key: row for row in ledger.rows()}
    assert reported <= stored.keys()
    assert all(rows[key] == row for key, row in stored.items())


def history(path: Path, seed: int, make_row: MakeRow, instance: Instance) -> None:
    """Run a few sessions, each with one fault, and check the ledger after each."""
    random = Random(seed)
    reported: set[str] = set()
    rows: dict[str, Row] = {}
    for number in range(SESSIONS):
        session_rows = [
            make_row(
                key=f"{seed * 1000 + number * ROWS + row_number:064x}",
                instance_hash=instance.fingerprint,
                log_tail="x" * random.choice((0, 100, 20_000)),
            )
            for row_number in range(ROWS)
        ]
        rows |= {row.key: row for row in session_rows}
        code = random.choice(CODES)
        # A lasting lock would only be waited for.
        faults = Faults(at=random.randrange(150), code=code, lasting=code != BUSY and random.random() < 0.3)
        reported |= session(path, session_rows, instance, faults)
        check(path, reported, rows)


@pytest.mark.parametrize("seeds", first(1, (range(6), range(6, 60))), ids=str)
def test_rows_reported_as_stored_are_there_after_faults(
    tmp_path: Path, make_row: MakeRow, instance: Instance, seeds: range, subtests: pytest.Subtests
) -> None:
    for seed in seeds:
        with subtests.test(seed=seed):
            history(tmp_path / f"{seed}.sqlite", seed, make_row, instance)


def store_rows_with_vandals(path: Path, seed: int, make_row: MakeRow, instance: Instance) -> None:
    """Store rows while the file is removed, replaced, damaged or locked; check that ``ledger.path`` has all of them."""
    random = Random(seed)
    reported: dict[str, Row] = {}
    reading, _ = os.pipe()
    with Ledger(path, create=True) as ledger, ExitStack() as locks:
        writer = Writer(ledger, lambda _: None)
        for number in range(8):
            row = make_row(key=f"{number:064x}", instance_hash=instance.fingerprint, log_tail="x" * 9000)
            writer.add(row, instance, lambda stored_row: reported.update({stored_row.key: stored_row}))
            match random.choice(("nothing", "remove", "remove all", "replace", "damage", "lock", "free")):
                case "remove":
                    ledger.path.unlink(missing_ok=True)
                case "remove all":
                    for file in path.parent.glob(f"{ledger.path.name}*"):
                        file.unlink()
                case "replace":
                    other = path.with_name("other")
                    Ledger(other, create=True).close()
                    other.replace(ledger.path)
                case "damage":
                    with suppress(FileNotFoundError), ledger.path.open("r+b") as file:
                        file.seek(random.randrange(2) * 4096)
                        file.write(b"?" * 5000)
                case "lock":
                    locks.close()
                    database = locks.enter_context(
                        closing(sqlite3.connect(ledger.path, timeout=0, isolation_level=None))
                    )
                    with suppress(sqlite3.DatabaseError):  # the file may be damaged
                        database.execute("BEGIN IMMEDIATE")
                case "free":
                    locks.close()
        writer.settle(reading)
        assert len(reported) == 8
    with Ledger(ledger.path) as rescued:
        stored = {row.key: row for row in rescued.rows()}
    assert reported.items() <= stored.items()


@pytest.mark.parametrize("seed", range(20))
def test_rows_survive_removed_replaced_damaged_and_locked_files(
    seed: int, tmp_path: Path, make_row: MakeRow, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_TIMEOUT_S", 0.05)
    store_rows_with_vandals(tmp_path / "ledger.sqlite", seed, make_row, instance)


@pytest.mark.parametrize(("code", "problem"), [(FULL, "database or disk is full"), (IO_ERROR, "disk I/O error")])
@pytest.mark.parametrize("whole_disk", [False, True])
def test_rows_survive_a_disk_that_fails(
    tmp_path: Path,
    make_row: MakeRow,
    instance: Instance,
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    problem: str,
    whole_disk: bool,
) -> None:
    elsewhere, path = tmp_path / "tmp", tmp_path / "disk/ledger.sqlite"
    elsewhere.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(elsewhere))
    rows = [make_row(key=f"{number:064x}", instance_hash=instance.fingerprint) for number in range(4)]
    reported: list[Row] = []
    reading, writing = os.pipe()
    faults = Faults(
        code=code, lasting=True, beginning=str(path.parent if whole_disk else path) + "-" * (not whole_disk)
    )
    with faulty_disk(faults), Ledger(path, create=True) as ledger:
        writer = Writer(ledger, lambda _: None)
        for number, row in enumerate(rows):
            faults.at = faults.counted if number == 2 else faults.at
            writer.add(row, instance, reported.append)
        writer.settle(reading)
    os.close(reading)
    os.close(writing)
    folder = elsewhere if whole_disk else path.parent
    assert ledger.path == folder / f"ledger.sqlite.rescued-{os.getpid()}"
    assert ledger.notice is not None
    assert f"{problem} while runs were stored; their rows are in {ledger.path}" in ledger.notice
    assert reported == rows
    with Ledger(ledger.path) as rescued:
        assert rescued.rows() == rows


def test_if_no_file_can_be_written_the_error_says_so(
    tmp_path: Path, make_row: MakeRow, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    faults = Faults(code=FULL, lasting=True)
    with faulty_disk(faults), Ledger(tmp_path / "ledger.sqlite", create=True) as ledger:
        faults.at = faults.counted
        with pytest.raises(InputError, match=r"full while runs were stored, and their rows cannot be written beside"):
            Writer(ledger, lambda _: None).add(make_row(instance_hash=instance.fingerprint), instance, lambda _: None)
    assert list(tmp_path.glob("*rescued-*[0-9]")) == []


@pytest.mark.parametrize("fault", [LostLedgerError, DamagedLedgerError, UnwritableLedgerError])
def test_rows_are_moved_to_a_new_file_only_once(
    tmp_path: Path, make_row: MakeRow, instance: Instance, monkeypatch: pytest.MonkeyPatch, fault: type[InputError]
) -> None:
    tried: list[Path] = []

    def add(self: Ledger, row: Row, instance: Instance) -> bool:
        tried.append(self.path)
        assert len(tried) < 5
        raise fault(str(self.path), "has failed")

    monkeypatch.setattr(Ledger, "add", add)
    path = tmp_path / "ledger.sqlite"
    with Ledger(path, create=True) as ledger:
        writer = Writer(ledger, lambda _: None)
        with pytest.raises(InputError, match="has failed") as raised:
            writer.add(make_row(), instance, lambda _: None)
    assert raised.value.where == str(path)
    assert tried == [path, ledger.path]


@pytest.mark.soak
def test_rows_survive_500_sequences_of_file_faults(
    tmp_path: Path, make_row: MakeRow, instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_TIMEOUT_S", 0.05)
    for seed in range(1000, 1500):
        (tmp_path / str(seed)).mkdir()
        store_rows_with_vandals(tmp_path / str(seed) / "ledger.sqlite", seed, make_row, instance)


@pytest.mark.soak
def test_rows_reported_as_stored_are_there_after_2000_sequences_of_faults(
    tmp_path: Path, make_row: MakeRow, instance: Instance
) -> None:
    for seed in range(1000, 3000):
        history(tmp_path / f"{seed}.sqlite", seed, make_row, instance)
