"""Benchmarks of the shared kernels and iGniter; ``make bench`` prints the table, ``make test`` runs each once."""

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from bench.api import Run, Status
from bench.judging.judge import judge
from heuristics.igniter.igniter import IGniter
from instances import Instance
from instances.generate import generate
from instances.least_shares import least_shares
from instances.spare_shares import spend_spare_shares
from instances.suites import suite
from instances.tables import gpu_tables

IN_64GPU = {instance.name: instance for instance in suite("64gpu").build()}
WORKLOADS_1000 = generate("igniter-mix", 1000, 0)

# Five residents that leave spare shares: model row, batch, latency budget in ms
RESIDENTS = (
    np.array([0, 1, 2, 3, 0], dtype=np.int64),
    np.array([4, 5, 3, 2, 6], dtype=np.int64),
    np.array([[14.0], [20.0], [26.0], [40.0], [18.0]]),
)


@pytest.mark.parametrize("problem", [IN_64GPU["64gpu-cost"], WORKLOADS_1000], ids=["160 workloads", "1000 workloads"])
def test_igniter(benchmark: BenchmarkFixture, problem: Instance) -> None:
    scheduler = IGniter()
    scheduler.warm(problem.objective)

    outcome = benchmark(scheduler.schedule, problem, Run())

    assert outcome.status is Status.FEASIBLE


def test_least_shares(benchmark: BenchmarkFixture) -> None:
    tables = gpu_tables(WORKLOADS_1000.gpus[0].type, "igniter")
    units = np.zeros(5, dtype=np.int64)
    assert least_shares(tables, *RESIDENTS, units)  # loads the compiled code

    assert benchmark(least_shares, tables, *RESIDENTS, units)
    assert 0 < units.sum() <= tables.share_units


def test_spend_spare_shares(benchmark: BenchmarkFixture) -> None:
    tables = gpu_tables(WORKLOADS_1000.gpus[0].type, "igniter")
    least = np.zeros(5, dtype=np.int64)
    assert least_shares(tables, *RESIDENTS, least)

    def spend() -> bool:
        _, proven = spend_spare_shares(tables, *RESIDENTS, least.copy(), 1_000_000)
        return bool(proven)

    assert benchmark(spend)


def test_judge(benchmark: BenchmarkFixture) -> None:
    problem = IN_64GPU["64gpu-cost"]
    plan = IGniter().schedule(problem, Run()).plan
    assert plan is not None

    verdict = benchmark(judge, plan, problem)

    assert verdict.feasible
