"""Ledgers removed, replaced, damaged or locked while runs are stored: all rows are in the file that the bench names."""

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Call, TaskFactory
from processes import alive, until

from bench.cli.views.progress import Progress
from bench.ledger import ledger_file
from bench.ledger.row import Row, Termination
from bench.ledger.store import Ledger
from bench.runner.listener import Listener
from bench.runner.runner import run_tasks
from bench.task import Task

SPY = '''
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from bench.api import Outcome, Status
from instances import Objective


@dataclass(frozen=True)
class Spy:
    """Says which files, arguments and variables a worker has."""

    name: ClassVar[str] = "spy"
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST})

    def schedule(self, instance, run):
        found = [*sys.argv, *map(repr, os.environ.items()), Path("/proc/self/cmdline").read_text()]
        for descriptor in os.listdir("/proc/self/fd"):
            with suppress(OSError):
                found.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        return Outcome(Status.UNKNOWN, reason=repr(found))
'''


class Once(Listener):
    """Calls a function after the first finished run."""

    def __init__(self, do: Callable[[], object]) -> None:
        self._do = do
        self.done = False

    def finished(self, task: Task, row: Row) -> None:
        if not self.done:
            self.done = True
            self._do()


def remove(path: Path) -> None:
    path.unlink()


def remove_all(path: Path) -> None:
    for file in path.parent.glob("ledger.sqlite*"):
        file.unlink()


def remove_log(path: Path) -> None:
    Path(f"{path}-wal").unlink()


def replace(path: Path) -> None:
    other = path.with_name("other.sqlite")
    Ledger(other, create=True).close()
    other.replace(path)


def damage(path: Path) -> None:
    Path(f"{path}-wal").write_bytes(b"")
    path.write_bytes(b"no database" * 1000)


def remove_folder(path: Path) -> None:
    shutil.rmtree(path.parent)


@pytest.mark.parametrize("do", [remove, remove_all, remove_log, replace])
@pytest.mark.parametrize("runs", [1, 3])
def test_rows_are_in_the_file_that_the_notice_names(
    make_task: TaskFactory, path: Path, do: Callable[[Path], None], runs: int
) -> None:
    tasks = [make_task("Honest", seed=seed) for seed in range(runs)]
    with Ledger(path, create=True) as ledger:
        rows = run_tasks(tasks, ledger, 1, Once(lambda: do(path)))
    beside = path.with_name(f"ledger.sqlite.rescued-{os.getpid()}")
    assert ledger.notice is not None
    assert ledger.notice.endswith(f"while runs were stored; their rows are in {beside}")
    assert ledger.path == beside
    with Ledger(beside) as rescued:
        assert rescued.rows() == rows


@pytest.mark.parametrize("runs", [1, 3])
def test_rows_are_complete_after_damage(make_task: TaskFactory, path: Path, runs: int) -> None:
    tasks = [make_task("Honest", seed=seed) for seed in range(runs)]
    with Ledger(path, create=True) as ledger:
        rows = run_tasks(tasks, ledger, 1, Once(lambda: damage(path)))
    with Ledger(ledger.path) as whole:  # the old or a new file: SQLite may have rewritten all pages
        assert whole.rows() == rows


def test_rows_of_earlier_commands_are_rescued_as_well(make_task: TaskFactory, tmp_path: Path) -> None:
    path = tmp_path / "results/ledger.sqlite"
    tasks = [make_task("Honest", seed=seed) for seed in range(3)]
    with Ledger(path, create=True) as ledger:
        run_tasks(tasks[:1], ledger)
    with Ledger(path) as ledger:
        rows = run_tasks(tasks, ledger, 1, Once(lambda: remove_folder(path)))
        assert ledger.rows() == rows


def test_deadlines_are_watched_while_the_ledger_is_locked(
    make_task: TaskFactory, path: Path, other: sqlite3.Connection, tmp_path: Path
) -> None:
    killed = False

    def release() -> None:
        nonlocal killed
        killed = until(lambda: any(tmp_path.glob("[0-9]*")) and not alive(int(next(tmp_path.glob("[0-9]*")).name)))
        other.execute("COMMIT")

    endless = make_task("Endless:holds-the-lock", time_limit_s=1.0, parameters={"pids": tmp_path})
    with Ledger(path, create=True) as ledger:
        releasing = threading.Thread(target=release)
        releasing.start()
        rows = run_tasks([make_task("Honest"), endless], ledger, 2)
        releasing.join()
        assert killed
        assert [row.termination for row in rows] == [Termination.FINISHED, Termination.WALL_LIMIT]
        assert sorted(row.key for row in ledger.rows()) == sorted(row.key for row in rows)
        assert ledger.notice is None


def test_rows_are_stored_beside_a_ledger_that_stays_locked(
    make_task: TaskFactory, path: Path, other: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_file, "BUSY_TIMEOUT_S", 0.3)
    with Ledger(path, create=True) as ledger:
        rows = run_tasks([make_task("Honest", seed=seed) for seed in range(3)], ledger, 2)
        assert ledger.notice is not None
        assert "stayed locked by another process" in ledger.notice
        assert {row.key: row for row in ledger.rows()} == {row.key: row for row in rows}
    other.execute("COMMIT")
    with Ledger(path) as ledger:
        assert ledger.rows() == []


def test_command_names_the_file_and_ends_with_code_1(call: Call, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    original = Progress.finished

    def finished(self: Progress, task: Task, row: Row) -> None:
        original(self, task, row)
        path.unlink()

    monkeypatch.setattr(Progress, "finished", finished)
    done = call("run --instances igniter-3 --schedulers igniter --simulate off --ledger ledger.sqlite")
    (beside,) = path.parent.glob("ledger.sqlite.rescued-*[0-9]")
    assert done.code == 1
    assert done.err.splitlines()[-2:] == [
        f"1 run, 0 already in the ledger ({beside.name})",
        "failed: ledger.sqlite was removed or replaced while runs were stored; their rows are in " + beside.name,
    ]
    with Ledger(beside) as ledger:
        assert [row.scheduler for row in ledger.rows()] == ["igniter"]


def test_workers_do_not_know_the_ledgers_path(call: Call, path: Path) -> None:
    Path("spy.py").write_text(SPY)
    done = call("run --instances igniter-3 --schedulers ./spy.py:Spy --ledger ledger.sqlite")
    assert done.code == 0, done.err
    with Ledger(path) as ledger:
        (row,) = ledger.rows()
    assert row.reason != ""
    assert "ledger" not in row.reason
