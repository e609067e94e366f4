"""Hostile surroundings: a full disk, unwritable folders, a locked ledger, and a clock that goes backwards."""

import resource
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Timer

import pytest
from conftest import TaskFactory

from bench.cli.app import main
from bench.ledger.row import Termination
from bench.ledger.store import Ledger
from bench.runner import runner as runner
from bench.runner.runner import run_tasks

# A full disk


def test_rows_stored_before_the_disk_was_full_are_not_lost(make_task: TaskFactory, path: Path) -> None:
    tasks = [make_task("Honest", seed=seed) for seed in range(6)]
    with Ledger(path, create=True) as ledger:
        (first,) = run_tasks(tasks[:1], ledger)
        (pages,) = ledger.file.database.execute("PRAGMA page_count").fetchone()
        ledger.file.database.execute(f"PRAGMA max_page_count = {pages + 1}")
        rows = run_tasks(tasks, ledger, 2)
        assert sorted(row.seed for row in rows) == [0, 1, 2, 3, 4, 5]
        assert ledger.notice is not None
        assert "cannot be used as a ledger: database or disk is full while runs were stored" in ledger.notice
    with Ledger(path, create=True) as ledger:
        stored = ledger.rows()
        assert stored[0] == first
        assert len(stored) < len(tasks)
        rows = run_tasks(tasks, ledger, 2)
        assert [row for row in rows if row in stored] == stored
        assert sorted(row.seed for row in ledger.rows()) == [0, 1, 2, 3, 4, 5]


def test_if_files_cannot_grow_the_error_is_one_line(tmp_path: Path) -> None:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (2**16, 2**16))

    command = [sys.executable, "-c", "import sys; from bench.cli import main; sys.exit(main())", "run"]
    options = ["--instances", "igniter-12", "--schedulers", "igniter,ffd+,ffd++,gpu-lets+,gslice+", "--jobs", "1"]
    done = subprocess.run(
        [*command, *options], cwd=tmp_path, preexec_fn=limit, capture_output=True, text=True, check=False
    )
    last = done.stderr.splitlines()[-1]
    assert (done.returncode, done.stdout) == (2, "")
    assert last.startswith("error: results/ledger.sqlite: cannot be used as a ledger: "), done.stderr
    assert "Traceback" not in done.stderr
    with Ledger(tmp_path / "results/ledger.sqlite", create=True) as ledger:
        assert all(row.termination is Termination.FINISHED for row in ledger.rows())


# Folders that cannot be written


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder that even root cannot write into")
@pytest.mark.parametrize(
    ("options", "where"),
    [(["--ledger", "/proc/x/l.sqlite"], "/proc/x/l.sqlite"), (["--plans", "/proc/x"], "--plans /proc/x")],
)
def test_an_unwritable_folder_is_refused_before_any_run(
    options: list[str], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--instances", "smoke", "--schedulers", "igniter", *options]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {where}: cannot be ")
    assert printed.err.count("\n") == 1
    assert not list(tmp_path.rglob("*.sqlite"))


# A second bench


def test_a_bench_waits_for_a_ledger_that_is_locked_for_a_second(
    make_task: TaskFactory, path: Path, other: sqlite3.Connection
) -> None:
    with Ledger(path, create=True) as ledger:
        release = Timer(1.0, other.execute, ["COMMIT"])
        release.start()
        (row,) = run_tasks([make_task("Honest")], ledger)
        release.join()
        assert ledger.rows() == [row]


# The clock


def test_a_clock_that_goes_backwards_does_not_change_measured_times(
    make_task: TaskFactory, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Backwards(datetime):
        now_is = datetime(2030, 1, 1, tzinfo=UTC)

        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            cls.now_is -= timedelta(hours=1)
            return cls.now_is

    monkeypatch.setattr(runner, "datetime", Backwards)
    with Ledger(path, create=True) as ledger:
        rows = run_tasks([make_task("Honest", seed=seed) for seed in range(3)], ledger, 1)
        assert ledger.rows() == rows
    assert [row.started_at for row in rows] == sorted((row.started_at for row in rows), reverse=True)
    for row in rows:
        assert row.decision_s is not None
        assert 0.0 <= row.decision_s <= row.wall_s < 60.0
