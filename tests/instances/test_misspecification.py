"""Worlds that are not what the planner thinks."""

import numpy as np
import pytest

from instances import InputError, Instance
from instances.misspecification import misspecified, slowed, with_sensitivity
from instances.suites import suite
from instances.tables import Tables, gpu_tables


def tables_of(instance: Instance) -> Tables:
    return gpu_tables(instance.gpus[0].type, instance.performance_model)


@pytest.fixture(scope="module")
def twelve() -> Instance:
    return suite("igniter-12").build()[0]


@pytest.mark.parametrize("model", ["igniter", "hybrid", "inss", "gpulet"])
def test_every_figure_is_off_by_a_factor_of_its_own_within_the_error(twelve: Instance, model: str) -> None:
    right, wrong = misspecified(twelve, model), misspecified(twelve, model, 0.3, seed=5)
    before, after = tables_of(right), tables_of(wrong)
    alone = np.isfinite(before.active_ms)
    ratios = np.array([after.active_ms[m][alone[m]] / before.active_ms[m][alone[m]] for m in range(len(alone))])
    spread = ratios.max(axis=1) - ratios.min(axis=1)

    assert spread.max() < 1e-5  # one factor for all the times of a model
    assert np.all((ratios >= 0.7) & (ratios <= 1.3))
    assert np.ptp(ratios.mean(axis=1)) > 0.01  # another for the next model
    power = (after.power_w / np.where(before.power_w != 0.0, before.power_w, 1.0))[alone & (before.power_w != 0.0)]
    assert np.all((power >= 0.7 - 1e-9) & (power <= 1.3 + 1e-9))
    assert np.all(after.alpha_l2 / np.where(before.alpha_l2 != 0.0, before.alpha_l2, 1.0) < 1.3 + 1e-9)
    assert after.share_units == before.share_units
    assert after.memory_limit_mib == before.memory_limit_mib


@pytest.mark.parametrize("model", ["igniter", "hybrid"])
def test_slowed_gpus_take_longer_and_demand_as_much(twelve: Instance, model: str) -> None:
    right = misspecified(twelve, model)
    before, after = tables_of(right), tables_of(slowed(right, 1.2))
    alone = np.isfinite(before.active_ms)
    assert after.active_ms[alone] == pytest.approx(1.2 * before.active_ms[alone], rel=1e-5)
    assert after.power_w[alone] == pytest.approx(before.power_w[alone], rel=1e-5)
    assert after.l2_pct[alone] == pytest.approx(before.l2_pct[alone], rel=1e-5)
    assert np.array_equal(after.transfer_ms, before.transfer_ms)
    assert slowed(right, 1.0) == right


@pytest.mark.parametrize("factor", [0.0, 2.5])
def test_sensitivity_changes_the_growths_alone(twelve: Instance, factor: float) -> None:
    before, after = tables_of(twelve), tables_of(with_sensitivity(twelve, factor))
    assert np.any(before.alpha_l2 > 0.0)
    assert after.alpha_l2 == pytest.approx(factor * before.alpha_l2)
    assert after.alpha_dram == pytest.approx(factor * before.alpha_dram)
    assert np.array_equal(after.active_ms, before.active_ms)
    assert np.array_equal(after.l2_pct, before.l2_pct)


def test_without_error_nothing_is_wrong(twelve: Instance) -> None:
    assert misspecified(twelve) == twelve
    assert misspecified(twelve, "igniter", 0.0, seed=3) == twelve


def test_a_seed_moves_figures_one_way_in_proportion_to_the_error(twelve: Instance) -> None:
    base = tables_of(twelve).active_ms[:, 4, 20]
    little = tables_of(misspecified(twelve, error=0.1, seed=1)).active_ms[:, 4, 20] / base - 1.0
    much = tables_of(misspecified(twelve, error=0.4, seed=1)).active_ms[:, 4, 20] / base - 1.0
    other = tables_of(misspecified(twelve, error=0.4, seed=2)).active_ms[:, 4, 20] / base - 1.0

    assert much == pytest.approx(4.0 * little)
    assert not np.allclose(much, other)


def test_another_performance_model_may_be_the_true_one(twelve: Instance) -> None:
    assert misspecified(twelve, "hybrid").performance_model == "hybrid"
    assert misspecified(twelve, "hybrid").workloads == twelve.workloads


def test_what_makes_no_sense_is_refused(twelve: Instance) -> None:
    for error in (-0.1, 0.95, float("nan")):
        with pytest.raises(InputError, match="fraction from 0"):
            misspecified(twelve, error=error)
    with pytest.raises(InputError, match="truth: unknown performance model"):
        misspecified(twelve, "crystal-ball")
    with pytest.raises(InputError, match="measured table"):
        misspecified(suite("parvagpu").build()[0], error=0.1)
