"""Benchmarks of the bench: a run from the warm forkserver to its row, and listing a large ledger."""

import sys
from dataclasses import replace
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.cli.app import main
from bench.ledger.row import Row
from bench.ledger.sql import row_to_sql
from bench.ledger.store import Ledger
from bench.runner.runner import run_tasks
from bench.task import Stage, Task
from instances.suites import SUITES

sys.path.append(str(Path(__file__).parents[1] / "bench"))  # the toy schedulers, which workers import by name

ROWS = 10_000


def task(seed: int) -> Task:
    """Return a task whose scheduler takes no time."""
    instance = next(iter(SUITES["smoke"].build()))
    return Task(instance, (Stage("Honest", "toy_schedulers:Honest"),), seed=seed)


def test_a_run_on_a_warm_forkserver(benchmark: BenchmarkFixture, tmp_path: Path) -> None:
    with Ledger(tmp_path / "ledger.sqlite", create=True) as ledger:
        run_tasks([task(0)], ledger)
        seeds = iter(range(1, 1000))
        (row,) = benchmark(lambda: run_tasks([task(next(seeds))], ledger, 1))
    assert row.termination == "finished"
    benchmark.extra_info["overhead_s"] = row.overhead_s


@pytest.fixture
def large_ledger(tmp_path: Path) -> Path:
    """A ledger of 10,000 runs of a real scheduler."""
    path = tmp_path / "ledger.sqlite"
    with Ledger(path, create=True) as ledger:
        row: Row = run_tasks([task(0)], ledger)[0]
        with ledger.file.transaction():
            for number in range(1, ROWS):
                ledger.insert("runs", row_to_sql(replace(row, key=f"{number:064x}", scheduler=f"s{number % 50}")))
    return path


@pytest.mark.soak
def test_showing_ten_thousand_rows(
    benchmark: BenchmarkFixture, large_ledger: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert benchmark(lambda: main(["show", "--ledger", str(large_ledger)])) == 0
    assert "s49" in capsys.readouterr().out
