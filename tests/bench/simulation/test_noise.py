"""Noise on execution times: its distribution, and its repetition with the same seed."""

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
    samples = factors(deviation)
    logarithms = (np.log(samples) + deviation**2 / 2) / deviation

    assert samples.mean() == pytest.approx(1.0, abs=5 * samples.std() / math.sqrt(len(samples)))
    assert logarithms.mean() == pytest.approx(0.0, abs=0.015)
    assert logarithms.std() == pytest.approx(1.0, rel=0.01)
    assert np.mean(np.abs(logarithms) < 1.0) == pytest.approx(0.6827, abs=0.006)
    assert np.mean(logarithms < -2.0) == pytest.approx(0.0228, abs=0.002)


def test_without_deviation_all_factors_are_1() -> None:
    assert set(factors(0.0, batches=10)) == {1.0}


@pytest.mark.parametrize(("seed", "slot"), [(1, 0), (0, 1), (2**63 - 1, 5)])
def test_noise_of_other_seeds_and_slots_is_independent(seed: int, slot: int) -> None:
    first, other = factors(0.3), factors(0.3, seed, slot)

    assert np.array_equal(factors(0.3, seed, slot), other)
    assert np.corrcoef(np.log(first), np.log(other))[0, 1] == pytest.approx(0.0, abs=0.015)


def test_noise_of_successive_batches_is_independent() -> None:
    logarithms = np.log(factors(0.3))

    assert np.corrcoef(logarithms[:-1], logarithms[1:])[0, 1] == pytest.approx(0.0, abs=0.015)


@pytest.mark.parametrize("interference", list(Interference))
def test_noise_changes_gpu_times_but_not_transfers(interference: Interference) -> None:
    """One request every 100 ms, alone: 2.1 ms of GPU time with noise, and 0.15 ms of transfers without noise."""
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

    workload = simulate(plan, asked, settings).workloads[0]

    expected = factors(0.2, batches=20_000) * 2.1 + 0.15
    assert workload.mean_ms == pytest.approx(expected.mean(), rel=1e-9)
    assert workload.max_ms == pytest.approx(expected.max(), rel=1e-9)
    assert workload.mean_ms == pytest.approx(2.25, rel=0.005)
