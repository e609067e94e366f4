"""Latency budgets of the rule ``attainment``: the 160 workloads of 64gpu-cost, and large batches on fast GPUs.

The goals on one core are 10 s for the workloads' rates, 60 s for all their twentieths, and 1 GB of memory.
"""

import math
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from instances import SloRule
from instances.attainment_table import known_rows
from instances.library import LIBRARY
from instances.suites import suite
from instances.view import View

PROBLEM = replace(
    next(instance for instance in suite("64gpu").build() if instance.name == "64gpu-cost"), slo_rule=SloRule.ATTAINMENT
)

GRID = range(1, 21)

STATUS = Path("/proc/self/status")


def budgets(view: View, steps: Sequence[int], every: int = 1, largest: int = 32) -> int:
    """Compute the budgets of workloads at multiples of a twentieth of their rates; return their number."""
    known_rows.cache_clear()
    computed = 0
    for workload in range(0, len(view.slo_ms), every):
        for step in steps:
            rate = float(view.rate_rps[workload]) * step / 20
            full = math.ceil(rate * float(view.slo_ms[workload]) / 1000)  # larger batches are never full
            computed += len(view.budgets_ms(workload, np.arange(1, min(largest, full) + 1), rate))
    return computed


@pytest.mark.parametrize(
    "steps", [pytest.param((20,), id="own rates"), pytest.param(GRID, id="rate grid", marks=pytest.mark.soak)]
)
def test_budgets_of_160_workloads(benchmark: BenchmarkFixture, steps: Sequence[int]) -> None:
    view = View.of(PROBLEM, PROBLEM.gpus[0].type)
    view.budgets_ms(0, 3)  # loads the compiled code
    assert benchmark.pedantic(budgets, (view, steps), rounds=1) >= 2000


def test_budgets_of_large_batches(benchmark: BenchmarkFixture) -> None:
    problem = LIBRARY.instance("cost-large-three-280-v2")
    view = View.of(problem, problem.gpus[0].type)
    view.budgets_ms(0, 3)  # loads the compiled code
    assert benchmark.pedantic(budgets, (view, (20,), 18, 64), rounds=1) >= 480


def peak_memory_kib_of_grid() -> int:
    """Compute the budgets of the rate grid; return the peak memory of this process."""
    budgets(View.of(PROBLEM, PROBLEM.gpus[0].type), GRID)
    status = STATUS.read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))


@pytest.mark.soak
@pytest.mark.skipif(not STATUS.exists(), reason="needs Linux")
def test_budgets_take_less_than_a_gigabyte() -> None:
    """The budgets are computed in a new process, as other tests may have needed more memory in this one."""
    program = "from tests.benchmarks.test_attainment import peak_memory_kib_of_grid as peak; print(peak())"
    root = Path(__file__).parents[2]
    run = subprocess.run([sys.executable, "-c", program], cwd=root, capture_output=True, text=True, check=True)
    assert int(run.stdout) < 2**20
