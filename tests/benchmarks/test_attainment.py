"""Latency budgets of the rule ``attainment`` for the 160 workloads of 64gpu-cost.

The goal on one core is 10 s for the workloads' own rates, 60 s for multiples of a twentieth, and 1 GB.
"""

import math
import resource
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from instances import SloRule
from instances.attainment_budget import _known_rows
from instances.suites import suite
from instances.view import View

PROBLEM = replace(
    next(each for each in suite("64gpu").build() if each.name == "64gpu-cost"), slo_rule=SloRule.ATTAINMENT
)


@pytest.mark.parametrize("steps", [(20,), range(1, 21)], ids=["own rates", "rate grid"])
def test_budgets_of_160_workloads(benchmark: BenchmarkFixture, steps: Sequence[int]) -> None:
    view = View.of(PROBLEM, PROBLEM.gpus[0].type)
    view.budgets_ms(0, 3)  # loads the compiled code

    def budgets() -> int:
        _known_rows.cache_clear()
        known = 0
        for workload in range(160):
            for step in steps:
                rate = float(view.rate_rps[workload]) * step / 20
                full = math.ceil(rate * float(view.slo_ms[workload]) / 1000)  # larger batches are never full
                known += len(view.budgets_ms(workload, np.arange(1, min(32, full) + 1), rate))
        return known

    assert benchmark.pedantic(budgets, rounds=1) >= 2000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2**20  # KiB
