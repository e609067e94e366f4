"""Benchmarks of a large ledger's report: time and size; ``make bench`` prints the table."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.cli import main
from bench.ledger.store import Ledger
from bench.schedulers.registry import entries
from heuristics.igniter.igniter import FfdPlusPlus
from instances.generate import generate
from tests.reports.page.runs_made_here import run_of

INSTANCES, SEEDS = 20, 25
"""Numbers of instances and seeds; with twenty schedulers these are 10,000 runs."""


@pytest.fixture(scope="module")
def large_ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "ledger.sqlite"
    names = sorted(entries())[:20]
    with Ledger(path, create=True) as ledger:
        ledger.file.database.execute("PRAGMA synchronous = OFF")
        for number in range(INSTANCES):
            instance = generate("igniter-mix", 12, number)
            run = run_of(FfdPlusPlus(), instance)
            scope = {"plan_class": "spatial", "allowed_shares": None, "slots_per_gpulet": 1, "max_batch": None}
            bound = {"bound": 0.9 * (run.value or 0.0), "bound_certified": True, "bound_scope": scope}
            for scheduler in names:
                for seed in range(SEEDS):
                    key = sha256(f"{number} {scheduler} {seed}".encode()).hexdigest()
                    fields = bound if scheduler == "colgen" else {}
                    row = replace(run, key=key, scheduler=scheduler, parameters={scheduler: {}}, seed=seed, **fields)
                    ledger.add(row, instance)
    return path


@pytest.mark.soak
def test_a_report_of_ten_thousand_runs(benchmark: BenchmarkFixture, large_ledger: Path, tmp_path: Path) -> None:
    folder = tmp_path / "site"

    benchmark.pedantic(main, [["report", str(large_ledger), "-o", str(folder)]], rounds=3)

    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    benchmark.extra_info["megabytes"] = round(size / 1e6, 2)
    assert len(list(folder.glob("instances/*.html"))) == INSTANCES
