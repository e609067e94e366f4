"""Noise on execution times: its distribution, and that it repeats."""

import math

import numpy as np
import pytest

from bench.plan_simulation import Interference, Settings, simulate
from bench.simulation.arrivals import Arrivals, Process
from bench.simulation.contention import noise_factor
from instances import GpuPool, Instance, Objective, Plan, SloRule, Workload, spatial_gpu
from tests.instances.reference import TOY


def factors(deviation: float, seed: int = 0, slot: int = 0, batches: int = 100_000) -> np.ndarray:
    return np.array([noise_factor(deviation, seed, slot, batch) for batch in range(batches)])


@pytest.mark.parametrize("deviation", [0.05, 0.3, 1.0])
def test_factors_are_lognormal_with_mean_one(deviation: float) -> None:
    found = factors(deviation)
    logarithms = (np.log(found) + deviation**2 / 2) / deviation

    assert found.mean() == pytest.approx(1.0, abs=5 * found.std() / math.sqrt(len(found)))
    assert logarithms.mean() == pytest.approx(0.0, abs=0.015)
    assert logarithms.std() == pytest.approx(1.0, rel=0.01)
    assert np.mean(np.abs(logarithms) < 1.0) == pytest.approx(0.6827, abs=0.006)
    assert np.mean(logarithms < -2.0) == pytest.approx(0.0228, abs=0.002)


def test_without_deviation_there_is_none() -> None:
    assert set(factors(0.0, batches=10)) == {1.0}


@pytest.mark.parametrize(("seed", "slot"), [(1, 0), (0, 1), (2**63 - 1, 5)])
def test_other_seeds_and_slots_have_noise_of_their_own(seed: int, slot: int) -> None:
    first, other = factors(0.3), factors(0.3, seed, slot)

    assert np.array_equal(factors(0.3, seed, slot), other)
    assert np.corrcoef(np.log(first), np.log(other))[0, 1] == pytest.approx(0.0, abs=0.015)


def test_batches_one_after_the_other_are_independent() -> None:
    logarithms = np.log(factors(0.3))

    assert np.corrcoef(logarithms[:-1], logarithms[1:])[0, 1] == pytest.approx(0.0, abs=0.015)


@pytest.mark.parametrize("interference", list(Interference))
def test_execution_times_are_noisy_around_what_they_were(interference: Interference) -> None:
    """One request every 100 ms, alone: 2.1 ms of GPU time with noise, 0.15 ms of transfers without."""
    asked = Instance(
        "noisy",
        Objective.COST,
        SloRule.HALF_SLO,
        "igniter",
        (GpuPool(TOY, None),),
        (Workload("a", "small", 90.0, 10.0),),
    )
    plan = Plan("noisy", (spatial_gpu("toy", [("a", 4, 1, 10.0)]),))
    settings = Settings(Arrivals(Process.CONSTANT), seconds=2000.0, warmup_s=0.0, noise=0.2, interference=interference)

    found = simulate(plan, asked, settings).workloads[0]

    expected = factors(0.2, batches=20_000) * 2.1 + 0.15
    assert found.mean_ms == pytest.approx(expected.mean(), rel=1e-9)
    assert found.max_ms == pytest.approx(expected.max(), rel=1e-9)
    assert found.mean_ms == pytest.approx(2.25, rel=0.005)
