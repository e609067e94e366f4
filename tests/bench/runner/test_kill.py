"""Killed benches: no process survives, no finished run is lost, and no finished run is repeated."""

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import alive, group, mapped, survivors, until

from bench.ledger.store import Ledger

SCRIPT = Path(__file__).parents[1] / "killable_bench.py"


class Bench:
    """Bench in its own process group, like a command in a terminal."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.folder = folder
        self.errors = folder / "errors"
        command = [sys.executable, "-W", "error", SCRIPT, kind, folder]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, process_group=0, stderr=errors)

    @property
    def starts(self) -> list[tuple[int, int]]:
        """Processes and seeds of all runs that began."""
        log = self.folder / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        return [(int(pid), int(seed)) for pid, seed in (line.split() for line in lines if line.count(" ") == 1)]

    @property
    def stored(self) -> list[int]:
        """Seeds of the rows in the ledger."""
        ledger = self.folder / "ledger.sqlite"
        if not ledger.exists():
            return []
        with Ledger(ledger, create=True) as opened:
            return sorted(row.seed for row in opened.rows())

    def wait_until_mid_run(self) -> None:
        """Wait until three runs are stored and two wait at the gate; two have not begun."""
        assert until(lambda: sorted(seed for _, seed in self.starts) == [0, 1, 2, 3, 4] and self.stored == [0, 1, 2])
        assert sum(alive(pid) for pid, _ in self.starts) >= 2


@pytest.fixture
def benches() -> Iterator[list[Bench]]:
    """Return a list for benches that a test starts; all of them are killed afterwards."""
    started: list[Bench] = []
    yield started
    for bench in started:
        bench.process.kill()
        bench.process.wait()


def check_resumed(benches: list[Bench], folder: Path) -> None:
    """Run the bench again to its end; check that each run has one row, and that stored runs did not begin again."""
    (folder / "gate").touch()
    bench = Bench("gated", folder)
    benches.append(bench)
    processes: set[int] = set()

    def ended() -> bool:
        processes.update(group(bench.process.pid))
        return bench.process.poll() is not None

    assert until(ended)
    assert bench.process.returncode == 0
    assert bench.stored == list(range(7))
    assert Counter(seed for _, seed in bench.starts) == {0: 1, 1: 1, 2: 1, 3: 2, 4: 2, 5: 1, 6: 1}
    with Ledger(folder / "ledger.sqlite") as ledger:
        assert {row.termination for row in ledger.rows()} == {"finished"}
    assert len(processes) >= 3  # the bench, its forkserver, its resource tracker
    assert survivors(processes) == []


def test_killed_bench_leaves_no_worker_and_resumes(benches: list[Bench], tmp_path: Path) -> None:
    bench = Bench("gated", tmp_path)
    benches.append(bench)
    bench.wait_until_mid_run()
    bench.process.kill()
    assert bench.process.wait(10) == -signal.SIGKILL
    assert survivors(pid for pid, _ in bench.starts) == []
    check_resumed(benches, tmp_path)


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_bench_can_be_resumed(benches: list[Bench], tmp_path: Path, signum: signal.Signals) -> None:
    bench = Bench("gated", tmp_path)
    benches.append(bench)
    bench.wait_until_mid_run()
    # A terminal or `timeout` also signals the whole group, with the forkserver.
    os.killpg(bench.process.pid, signum)
    assert bench.process.wait(30) == 130
    assert survivors(pid for pid, _ in bench.starts) == []
    assert bench.stored == [0, 1, 2]
    assert bench.errors.read_text() == ""
    if signum == signal.SIGINT:
        check_resumed(benches, tmp_path)


def test_bench_can_be_interrupted_while_it_starts(benches: list[Bench], tmp_path: Path) -> None:
    bench = Bench("gated", tmp_path)
    benches.append(bench)
    assert until(lambda: any("numpy" in mapped(pid) for pid in group(bench.process.pid) - {bench.process.pid}))
    # The forkserver is importing.
    os.killpg(bench.process.pid, signal.SIGINT)
    assert bench.process.wait(30) == 130
    assert bench.starts == []
    assert bench.errors.read_text() == ""  # no output of the forkserver either


@pytest.mark.parametrize(
    ("how", "count", "whole_group"),
    [
        ("stubborn", 4, False),
        ("stubborn", 4, True),
        pytest.param("orphans", 5, True, marks=pytest.mark.soak),
        ("bare", 5, False),  # only the forkserver finds processes without environment
        pytest.param("secret", 5, True, marks=pytest.mark.soak),
        pytest.param("daemon", 5, True, marks=pytest.mark.soak),
    ],
)
def test_resisting_processes_end_with_the_bench(
    benches: list[Bench], tmp_path: Path, how: str, count: int, whole_group: bool
) -> None:
    """They are workers that hold the interpreter lock, their children, and processes that left their worker."""
    bench = Bench(how, tmp_path)
    benches.append(bench)
    pids = tmp_path / "pids"
    assert until(lambda: pids.exists() and len(list(pids.iterdir())) == count)
    if whole_group:
        os.killpg(bench.process.pid, signal.SIGKILL)
    else:
        bench.process.kill()
    bench.process.wait(10)
    assert survivors(int(file.name) for file in pids.iterdir()) == []
