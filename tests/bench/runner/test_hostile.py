"""Hostile schedulers, run by the installed command: each row says what happened, and nothing else is harmed."""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Collection
from contextlib import closing
from pathlib import Path

import pytest
from hostile.collection import ENDS, KIND, KINDS, REFUTED, is_expected, variant
from processes import survivors, until, with_variable

BENCH = Path(sys.executable).with_name("bench")
FOLDER = Path(__file__).parents[1]
SAMPLE = [
    "Claim:million",
    "Crash:patch",
    "ImportAnswers",
    "BadLine:deep",
    "OddPlan:huge-share",
    "Greedy:memory",
    "Survivor:daemon",
    "Clock:frozen",
]


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


def attack(folder: Path, variants: Collection[str]) -> None:
    """Run variants and an honest scheduler in one bench, then check the rows and everything that reads them."""
    names = list(dict.fromkeys(one.partition(":")[0] for one in variants))
    how = {name: ",".join(one.partition(":")[2] for one in variants if one.startswith(f"{name}:")) for name in names}
    specs = ",".join(f"{FOLDER / 'hostile' / KIND[name]}.py:{name}" for name in names)
    given = ("--instances", "igniter-3", "--ledger", "l.sqlite", "--jobs", "2")
    limits = ("--time-limit", "5", "--memory-limit", "4")
    parameters = [part for name in names if how[name] for part in ("--param", f"{name}.how={how[name]}")]
    done = bench(folder, "run", *given, *limits, "--schedulers", f"{specs},igniter", *parameters, "--format", "json")
    assert done.returncode == 1, done.stderr
    rows = {
        variant(row["scheduler"], row["parameters"][row["scheduler"]].get("how", "")): row
        for row in json.loads(done.stdout)
    }
    honest = rows.pop("igniter")
    assert rows.keys() == set(variants)
    ends = {name: (row["termination"], row["reason"]) for name, row in rows.items()}
    assert {name: end for name, end in ends.items() if not is_expected(name, *end)} == {}
    assert until(lambda: with_variable(f"HOSTILE={folder}") == [], 20)
    assert survivors(int(file.name) for file in folder.glob("pids/*/*")) == []
    again = bench(folder, "run", *given, "--schedulers", "igniter", "--seeds", "1", "--format", "json")
    assert again.returncode == 0, again.stderr
    (later,) = json.loads(again.stdout)
    for row in (honest, later):
        assert (row["termination"], row["feasible"], row["gpus_used"]) == ("finished", True, 1)
    with closing(sqlite3.connect(folder / "l.sqlite")) as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("SELECT count(*) FROM runs").fetchone() == (len(rows) + 2,)
    shown = json.loads(bench(folder, "show", "--ledger", "l.sqlite", "--format", "json").stdout)
    refuted = {row["key"] for row in shown if row["refuted"]}
    assert {name for name, row in rows.items() if row["key"] in refuted} == REFUTED & rows.keys()
    assert honest["key"] not in refuted
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
    assert [KIND[one.partition(":")[0]] for one in SAMPLE] == [*KINDS]
    attack(tmp_path, SAMPLE)


@pytest.mark.soak
def test_whole_collection(tmp_path: Path) -> None:
    attack(tmp_path, ENDS)
