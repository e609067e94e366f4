"""Random kills of any process of a bench: no row is lost or changed, and in the end all runs have rows."""

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest
from processes import alive, survivors

from bench.ledger.row import Row, Termination
from bench.ledger.store import Ledger
from bench.runner.watchdog import _descendants

SCRIPT = Path(__file__).parents[1] / "killable_bench.py"


def kill_at_random(runs: int, folder: Path, random_: random.Random, bench_kills: int) -> Counter[str]:
    """Execute ``runs`` runs while workers, forkserver, watchdog and scorer are killed at random.

    The bench itself is killed ``bench_kills`` times and started again.

    After each end of the bench, check that no row was lost or changed, and that no process survived. Return the
    numbers of kills by kind of process.
    """
    killed: Counter[str] = Counter()
    seen_files: set[Path] = set()
    before: dict[str, Row] = {}
    worker_due = helper_due = forkserver_alone = (
        0  # due after so many starts of runs, not seconds: as many kills on a fast host
    )
    while True:
        processes: set[int] = set()
        with (folder / "errors").open("wb") as errors:
            bench = subprocess.Popen([sys.executable, "-W", "error", SCRIPT, str(runs), folder], stderr=errors)
        # The bench is killed after at least one start, and early enough that runs are left for all later benches.
        first, starts_until_kill = len(starts(folder)), random_.uniform(0.0, 0.8 * runs / bench_kills)
        while bench.poll() is None and len(starts(folder)) == first:
            time.sleep(0.01)
        while bench.poll() is None:
            time.sleep(random_.uniform(0.0, 0.08))
            processes |= _descendants(bench.pid)
            if killed["bench"] < bench_kills and len(starts(folder)) - first > starts_until_kill:
                bench.kill()
                killed["bench"] += 1
                break
            begun = starts(folder)
            process = begun[-1][0]
            if len(begun) >= worker_due and alive(process):
                worker_due = len(begun) + random_.randint(0, 12)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed["worker"] += 1
            candidates = helpers(bench.pid) if len(begun) >= helper_due else []
            if candidates:
                forkserver_alone = forkserver_alone + 1 if len(candidates) == 1 else 0
            if (
                candidates and forkserver_alone < 3
            ):  # do not kill a lone forkserver again and again: a bench gives up after five starts
                helper_due = len(begun) + random_.choice([0, 10, 20, 30])
                process, kind = random_.choice(candidates)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed[kind] += 1
        code = bench.wait()
        new_files = {*folder.glob("pids/*/*")} - seen_files
        seen_files |= new_files
        assert survivors(processes | {int(file.name) for file in new_files}) == []
        stored = rows(folder)
        assert {key: stored.get(key) for key in before} == before
        before = stored
        if code != -signal.SIGKILL:
            assert (code, (folder / "errors").read_text()) == (0, "")
            return killed


def helpers(bench: int) -> list[tuple[int, str]]:
    """Return (process, kind) of a bench's forkserver and of its children: watchdog, scorer and youngest workers."""
    processes = []
    for process in _descendants(bench):
        with suppress(OSError):
            if b"multiprocessing.forkserver" in Path(f"/proc/{process}/cmdline").read_bytes():
                parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
                processes.append((process, "forkserver" if parent == bench else "helper"))
    return processes


def starts(folder: Path) -> list[tuple[int, int]]:
    """Return (process, seed) of every run that began."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(pid), int(seed)) for pid, seed in map(str.split, lines)]


def rows(folder: Path) -> dict[str, Row]:
    """Return the rows of the ledger by key; check that the file is not damaged."""
    path = folder / "ledger.sqlite"
    if not path.exists():
        return {}
    with Ledger(path, create=True) as ledger:  # as the next bench opens it
        stored_rows = ledger.rows()
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
    return {row.key: row for row in stored_rows}


def check(runs: int, folder: Path, bench_kills: int, seed: int) -> Counter[str]:
    killed = kill_at_random(runs, folder, random.Random(seed), bench_kills)
    ends = Counter(row.termination for row in rows(folder).values())
    assert sorted(row.seed for row in rows(folder).values()) == list(range(runs))
    assert set(ends) <= {Termination.FINISHED, Termination.CRASHED}
    assert ends[Termination.CRASHED] <= killed.total() - bench_kills
    assert killed["bench"] == bench_kills
    # The run of a killed worker has a row. A killed bench repeats up to two running and two unjudged runs, and a killed
    # forkserver or helper two runs.
    assert runs <= len(starts(folder)) <= runs + 4 * bench_kills + 2 * (killed["forkserver"] + killed["helper"])
    survivor_count = len(list(folder.glob("pids/*/*")))
    summary = f"{runs} runs, killed {dict(killed)}, rows {dict(ends)}, starts {len(starts(folder))}"
    print(f"{summary}, processes that tried to survive {survivor_count}", file=sys.__stderr__)
    return killed


def test_a_few_runs_are_killed(tmp_path: Path) -> None:
    check(20, tmp_path, bench_kills=1, seed=1)


@pytest.mark.soak
def test_a_thousand_runs_are_killed(tmp_path: Path) -> None:
    killed = check(1000, tmp_path, bench_kills=40, seed=2)
    assert killed.total() >= 200, killed
    assert min(killed[kind] for kind in ("bench", "forkserver", "helper", "worker")) >= 10, killed
    assert len(list(tmp_path.glob("pids/*/*"))) >= 200
