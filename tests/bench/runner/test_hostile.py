"""Hostile plugins, run by the installed command: each row says what happened, and nothing else is harmed."""

import json
import os
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from importlib import import_module
from pathlib import Path

import pytest
from hostile.base import Hostile
from processes import until, with_variable

BENCH = Path(sys.executable).with_name("bench")
FOLDER = Path(__file__).parents[1]
KINDS = ("times", "messages", "survivors", "resources", "claims")
ALL = {
    found.__name__: (kind, found)
    for kind in KINDS
    for found in vars(import_module(f"hostile.{kind}")).values()
    if isinstance(found, type) and issubclass(found, Hostile) and found is not Hostile
}
SAMPLE = (
    *("FrozenClock", "WrongFields", "DeepJson", "Daemon", "DiesInWarm"),
    *("PatchesModules", "NegativeZero", "HugeShare"),
)


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in ``folder``; no traceback is ever shown."""
    done = subprocess.run(
        [BENCH, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(FOLDER), "HOSTILE": str(folder)},
        capture_output=True,
        text=True,
        timeout=900,
        errors="surrogateescape",
    )
    assert "Traceback" not in done.stderr, done.stderr[-3000:]
    return done


def attack(folder: Path, names: tuple[str, ...]) -> None:
    """Run plugins and an honest scheduler in one bench, then check the rows and everything that reads them."""
    specs = [f"{FOLDER / 'hostile'}/{ALL[name][0]}.py:{name}" for name in names]
    given = ("--instances", "igniter-3", "--ledger", "l.sqlite", "--jobs", "2")
    limits = ("--time-limit", "2", "--memory-limit", "4")
    done = bench(folder, "run", *given, *limits, "--schedulers", ",".join([*specs, "igniter"]), "--format", "json")
    assert done.returncode == 1, done.stderr
    rows = {row["scheduler"]: row for row in json.loads(done.stdout)}
    assert rows.keys() == {*names, "igniter"}
    wrong = {
        name: (rows[name]["termination"], rows[name]["reason"])
        for name in names
        if rows[name]["termination"] not in ALL[name][1].ENDS[0].split()
        or not re.search(ALL[name][1].ENDS[1], rows[name]["reason"])
    }
    assert wrong == {}
    assert until(lambda: with_variable(f"HOSTILE={folder}") == [], 20)
    again = bench(folder, "run", *given, "--schedulers", "igniter", "--seeds", "1", "--format", "json")
    assert again.returncode == 0, again.stderr
    (later,) = json.loads(again.stdout)
    for row in (rows["igniter"], later):
        assert (row["termination"], row["feasible"], row["gpus_used"]) == ("finished", True, 1)
    with closing(sqlite3.connect(folder / "l.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (len(names) + 2,)
    for command in (
        ["show", "--ledger", "l.sqlite"],
        ["show", "igniter-3", "--ledger", "l.sqlite"],
        ["compare", "igniter", names[0], "--ledger", "l.sqlite"],
        ["export", "l.sqlite", "-o", "all.csv"],
        ["report", "l.sqlite", "-o", "site"],
    ):
        read = bench(folder, *command)
        assert read.returncode in ((0, 1) if command[0] == "compare" else (0,)), (command, read.stderr)


def test_sample_of_the_collection(tmp_path: Path) -> None:
    attack(tmp_path, SAMPLE)


@pytest.mark.parametrize(
    "line", ['{"type": "x"}', '{"type": "broken", "scheduler": "igniter", "error": ""}', "nonsense"]
)
def test_import_that_writes_into_the_pipe_costs_its_own_runs(tmp_path: Path, line: str) -> None:
    (tmp_path / "noisy.py").write_text(
        "import gc\nfrom bench.runner.worker import Report\n"
        "import os\nfrom hostile.base import Hostile\n"
        "for found in gc.get_objects():\n    if isinstance(found, Report):\n"
        f"        os.write(found._outbox, {(line + chr(10)).encode()!r})\n"
        "class Noisy(Hostile):\n    pass\n"
    )
    done = bench(
        tmp_path, "run", "--instances", "igniter-3", "--schedulers", "./noisy.py:Noisy,igniter", "--format", "json"
    )
    rows = {row["scheduler"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 1
    assert rows["Noisy"]["termination"] == "crashed"
    assert rows["igniter"]["termination"] == "finished"


@pytest.mark.soak
def test_whole_collection(tmp_path: Path) -> None:
    assert len(ALL) >= 40
    attack(tmp_path, tuple(ALL))
    shown = json.loads(bench(tmp_path, "show", "--ledger", "l.sqlite", "--format", "json").stdout)
    refuted = {row["scheduler"] for row in shown if row["refuted"]}
    assert {"FalseBound", "HugeBound", "FalseOptimum", "FalseInfeasible"} <= refuted
    assert "igniter" not in refuted
