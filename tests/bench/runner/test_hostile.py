"""Hostile schedulers, run by the installed command: each row has the right reason, and other runs are not harmed."""

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
ONE_VARIANT_PER_KIND = [
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
    """Run the command in ``folder``; assert that it prints no traceback."""
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
    """Run variants and an honest scheduler in one bench; check the rows, and that all commands can read them."""
    names = list(dict.fromkeys(hostile_variant.partition(":")[0] for hostile_variant in variants))
    how = {
        name: ",".join(
            hostile_variant.partition(":")[2] for hostile_variant in variants if hostile_variant.startswith(f"{name}:")
        )
        for name in names
    }
    specs = ",".join(f"{FOLDER / 'hostile' / KIND[name]}.py:{name}" for name in names)
    inputs = ("--instances", "igniter-3", "--ledger", "l.sqlite", "--jobs", "2")
    limits = ("--time-limit", "5", "--memory-limit", "4")
    parameters = [part for name in names if how[name] for part in ("--param", f"{name}.how={how[name]}")]
    done = bench(folder, "run", *inputs, *limits, "--schedulers", f"{specs},igniter", *parameters, "--format", "json")
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
    second_run = bench(folder, "run", *inputs, "--schedulers", "igniter", "--seeds", "1", "--format", "json")
    assert second_run.returncode == 0, second_run.stderr
    (later,) = json.loads(second_run.stdout)
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
        output = bench(folder, *command)
        assert output.returncode in ((0, 1) if command[0] == "compare" else (0,)), (command, output.stderr)


def test_one_variant_of_each_kind(tmp_path: Path) -> None:
    assert [KIND[hostile_variant.partition(":")[0]] for hostile_variant in ONE_VARIANT_PER_KIND] == [*KINDS]
    attack(tmp_path, ONE_VARIANT_PER_KIND)


@pytest.mark.soak
def test_all_variants(tmp_path: Path) -> None:
    attack(tmp_path, ENDS)
