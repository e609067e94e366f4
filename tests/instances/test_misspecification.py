"""Instances whose true figures differ from those that schedulers plan with."""

import numpy as np
import pytest

from instances import InputError, Instance
from instances.misspecification import misspecified, slowed, with_sensitivity
from instances.suites import suite
from instances.tables import Tables, gpu_tables


def tables_of(instance: Instance) -> Tables:
    return gpu_tables(instance.gpus[0].type, instance.performance_model)


@pytest.fixture(scope="module")
def igniter_12() -> Instance:
    return suite("igniter-12").build()[0]


@pytest.mark.parametrize("model", ["igniter", "hybrid", "inss", "gpulet"])
def test_every_figure_has_its_own_factor_within_the_error(igniter_12: Instance, model: str) -> None:
    right, wrong = misspecified(igniter_12, model), misspecified(igniter_12, model, 0.3, seed=5)
    before, after = tables_of(right), tables_of(wrong)
    profiled = np.isfinite(before.active_ms)
    ratios = np.array(
        [after.active_ms[m][profiled[m]] / before.active_ms[m][profiled[m]] for m in range(len(profiled))]
    )
    spread = ratios.max(axis=1) - ratios.min(axis=1)

    assert spread.max() < 1e-5  # one factor for all times of a model
    assert np.all((ratios >= 0.7) & (ratios <= 1.3))
    assert np.ptp(ratios.mean(axis=1)) > 0.01  # different factors for different models
    power = (after.power_w / np.where(before.power_w != 0.0, before.power_w, 1.0))[profiled & (before.power_w != 0.0)]
    assert np.all((power >= 0.7 - 1e-9) & (power <= 1.3 + 1e-9))
    assert np.all(after.alpha_l2 / np.where(before.alpha_l2 != 0.0, before.alpha_l2, 1.0) < 1.3 + 1e-9)
    assert after.share_units == before.share_units
    assert after.memory_limit_mib == before.memory_limit_mib


@pytest.mark.parametrize("model", ["igniter", "hybrid"])
def test_slowed_gpus_take_longer_with_the_same_demands(igniter_12: Instance, model: str) -> None:
    right = misspecified(igniter_12, model)
    before, after = tables_of(right), tables_of(slowed(right, 1.2))
    profiled = np.isfinite(before.active_ms)
    assert after.active_ms[profiled] == pytest.approx(1.2 * before.active_ms[profiled], rel=1e-5)
    assert after.power_w[profiled] == pytest.approx(before.power_w[profiled], rel=1e-5)
    assert after.l2_pct[profiled] == pytest.approx(before.l2_pct[profiled], rel=1e-5)
    assert np.array_equal(after.transfer_ms, before.transfer_ms)
    assert slowed(right, 1.0) == right


@pytest.mark.parametrize("factor", [0.0, 2.5])
def test_sensitivity_changes_only_the_growths(igniter_12: Instance, factor: float) -> None:
    before, after = tables_of(igniter_12), tables_of(with_sensitivity(igniter_12, factor))
    assert np.any(before.alpha_l2 > 0.0)
    assert after.alpha_l2 == pytest.approx(factor * before.alpha_l2)
    assert after.alpha_dram == pytest.approx(factor * before.alpha_dram)
    assert np.array_equal(after.active_ms, before.active_ms)
    assert np.array_equal(after.l2_pct, before.l2_pct)


def test_without_error_the_instance_is_unchanged(igniter_12: Instance) -> None:
    assert misspecified(igniter_12) == igniter_12
    assert misspecified(igniter_12, "igniter", 0.0, seed=3) == igniter_12


def test_the_error_scales_the_deviations_of_a_seed(igniter_12: Instance) -> None:
    base = tables_of(igniter_12).active_ms[:, 4, 20]
    little = tables_of(misspecified(igniter_12, error=0.1, seed=1)).active_ms[:, 4, 20] / base - 1.0
    much = tables_of(misspecified(igniter_12, error=0.4, seed=1)).active_ms[:, 4, 20] / base - 1.0
    other = tables_of(misspecified(igniter_12, error=0.4, seed=2)).active_ms[:, 4, 20] / base - 1.0

    assert much == pytest.approx(4.0 * little)
    assert not np.allclose(much, other)


def test_another_performance_model_may_be_the_true_one(igniter_12: Instance) -> None:
    assert misspecified(igniter_12, "hybrid").performance_model == "hybrid"
    assert misspecified(igniter_12, "hybrid").workloads == igniter_12.workloads


def test_impossible_errors_and_models_are_refused(igniter_12: Instance) -> None:
    for error in (-0.1, 0.95, float("nan")):
        with pytest.raises(InputError, match="fraction from 0"):
            misspecified(igniter_12, error=error)
    with pytest.raises(InputError, match="truth: unknown performance model"):
        misspecified(igniter_12, "crystal-ball")
    with pytest.raises(InputError, match="measured table"):
        misspecified(suite("parvagpu").build()[0], error=0.1)
