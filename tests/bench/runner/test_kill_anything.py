"""Any process of a bench is killed at random moments: the ledger stays whole, and the rest is run in the end."""

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


def kill_at_random(runs: int, folder: Path, dice: random.Random, bench_kills: int) -> Counter[str]:
    """Have ``runs`` run to their end while workers, forkserver, watchdog and scorer are killed now and then.

    The bench is killed ``bench_kills`` times.

    Returns how many of each were killed, after checking that no row was lost or changed by it, and that no process
    survived the bench.
    """
    killed: Counter[str] = Counter()
    noted: set[Path] = set()
    before: dict[str, Row] = {}
    worker_due = helper_due = lonely = 0  # the first two in runs that have begun, so that a fast host kills as often
    while True:
        seen: set[int] = set()
        with (folder / "errors").open("wb") as errors:
            bench = subprocess.Popen([sys.executable, "-W", "error", SCRIPT, str(runs), folder], stderr=errors)
        # Once there is something to kill, and so soon that runs are left for every life.
        first, lives = len(starts(folder)), dice.uniform(0.0, 0.8 * runs / bench_kills)
        while bench.poll() is None and len(starts(folder)) == first:
            time.sleep(0.01)
        while bench.poll() is None:
            time.sleep(dice.uniform(0.0, 0.08))
            seen |= _descendants(bench.pid)
            if killed["bench"] < bench_kills and len(starts(folder)) - first > lives:
                bench.kill()
                killed["bench"] += 1
                break
            begun = starts(folder)
            process = begun[-1][0]
            if len(begun) >= worker_due and alive(process):
                worker_due = len(begun) + dice.randint(0, 12)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed["worker"] += 1
            others = helpers(bench.pid) if len(begun) >= helper_due else []
            if others:
                lonely = lonely + 1 if len(others) == 1 else 0
            if others and lonely < 3:  # a bench gives up if its forkserver is killed in each of five starts
                helper_due = len(begun) + dice.choice([0, 10, 20, 30])
                process, what = dice.choice(others)
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
                    killed[what] += 1
        code = bench.wait()
        new = {*folder.glob("pids/*/*")} - noted
        noted |= new
        assert survivors(seen | {int(file.name) for file in new}) == []
        stored = rows(folder)
        assert {key: stored.get(key) for key in before} == before
        before = stored
        if code != -signal.SIGKILL:
            assert (code, (folder / "errors").read_text()) == (0, "")
            return killed


def helpers(bench: int) -> list[tuple[int, str]]:
    """Return the forkserver of a bench, and its watchdog, scorer and youngest workers, which are its helpers."""
    found = []
    for process in _descendants(bench):
        with suppress(OSError):
            if b"multiprocessing.forkserver" in Path(f"/proc/{process}/cmdline").read_bytes():
                parent = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
                found.append((process, "forkserver" if parent == bench else "helper"))
    return found


def starts(folder: Path) -> list[tuple[int, int]]:
    """(process, seed) of every run that began."""
    log = folder / "log"
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(pid), int(seed)) for pid, seed in map(str.split, lines)]


def rows(folder: Path) -> dict[str, Row]:
    """Return what is in the ledger, which must be whole, by key."""
    path = folder / "ledger.sqlite"
    if not path.exists():
        return {}
    with Ledger(path, create=True) as ledger:  # as the next bench opens it
        found = ledger.rows()
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    database.close()
    return {row.key: row for row in found}


def check(runs: int, folder: Path, bench_kills: int, seed: int) -> Counter[str]:
    killed = kill_at_random(runs, folder, random.Random(seed), bench_kills)
    ends = Counter(row.termination for row in rows(folder).values())
    assert sorted(row.seed for row in rows(folder).values()) == list(range(runs))
    assert set(ends) <= {Termination.FINISHED, Termination.CRASHED}
    assert ends[Termination.CRASHED] <= killed.total() - bench_kills
    assert killed["bench"] == bench_kills
    # A killed worker's run has its row. Of a killed bench two may have been running and two waiting for the judge.
    # With a forkserver go two runs.
    assert runs <= len(starts(folder)) <= runs + 4 * bench_kills + 2 * (killed["forkserver"] + killed["helper"])
    tried = len(list(folder.glob("pids/*/*")))
    told = f"{runs} runs, killed {dict(killed)}, rows {dict(ends)}, starts {len(starts(folder))}"
    print(f"{told}, processes that tried to survive {tried}", file=sys.__stderr__)
    return killed


def test_a_few_runs_are_killed(tmp_path: Path) -> None:
    check(20, tmp_path, bench_kills=1, seed=1)


@pytest.mark.soak
def test_a_thousand_runs_are_killed(tmp_path: Path) -> None:
    killed = check(1000, tmp_path, bench_kills=40, seed=2)
    assert killed.total() >= 200, killed
    assert min(killed[what] for what in ("bench", "forkserver", "helper", "worker")) >= 10, killed
    assert len(list(tmp_path.glob("pids/*/*"))) >= 200
