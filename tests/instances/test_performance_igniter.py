"""iGniter's performance model: points worked out by hand, and the coefficients of the published light profile."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances import DnnModel, InputError
from instances.catalogue import gpu_type
from instances.performance import performance_model
from instances.performance.model import transfers_ms
from tests.instances import reference
from tests.instances.reference import LARGE, SMALL, TOY

IGNITER = performance_model("igniter")
COEFFICIENTS = json.loads((Path(__file__).parents[1] / "fixtures" / "igniter_coefficients.json").read_text())
V100 = gpu_type("v100")
ALL_COEFFICIENTS = replace(SMALL, k=(1.0, 2.0, 3.0, 10.0, 0.5))


@pytest.mark.parametrize(
    ("model", "batch", "share_pct", "active_ms", "l2_pct", "power_w"),
    [
        (SMALL, 1, 40.0, 2.0, 6.0, 60.0),  # 40 / 40 + 1, then 500 requests/s of processing ability
        (SMALL, 4, 40.0, 5.0, 9.0, 90.0),
        (LARGE, 2, 40.0, 10.0, 10.0, 90.0),
        (LARGE, 1, 80.0, 4.0, 12.0, 110.0),
        (ALL_COEFFICIENTS, 3, 20.0, 1.1, 3000 / 1.1 / 100 + 1, 3000 / 1.1 / 10 + 10),  # (9 + 6 + 3) / (20 + 10) + 0.5
    ],
)
def test_demands_alone_are_as_worked_out_by_hand(
    model: DnnModel, batch: int, share_pct: float, active_ms: float, l2_pct: float, power_w: float
) -> None:
    demand = IGNITER.demand(TOY, model, np.array([float(batch)]), np.array([share_pct]))

    assert demand.active_ms == pytest.approx(active_ms, rel=1e-14)  # equation 11
    assert demand.l2_pct == pytest.approx(l2_pct, rel=1e-14)
    assert demand.power_w == pytest.approx(power_w, rel=1e-14)
    assert demand.dram_pct == 0.0  # the model has no DRAM contention


def test_demands_broadcast_over_batch_and_share() -> None:
    batch, share_pct = np.arange(1.0, 9.0)[:, None], np.arange(10.0, 101.0, 10.0)[None, :]

    demand = IGNITER.demand(TOY, LARGE, batch, share_pct)

    for values in (demand.active_ms, demand.l2_pct, demand.dram_pct, demand.power_w):
        assert values.shape == (8, 10)
    assert demand.active_ms[1, 3] == 10.0


def test_transfers_are_bytes_over_bandwidth() -> None:
    load_ms, feedback_ms = transfers_ms(TOY, SMALL, np.array([1.0, 4.0]))  # equation 3

    assert load_ms == pytest.approx([0.1, 0.4])
    assert feedback_ms == pytest.approx([0.05, 0.2])
    assert IGNITER.loading_overlaps


def test_sensitivity_and_contention_are_the_catalogues() -> None:
    sensitivity, contention = IGNITER.sensitivity(TOY, LARGE), IGNITER.contention(TOY)

    assert (sensitivity.scheduling_alone_ms, sensitivity.kernels) == (0.2, 20.0)  # equation 5
    assert (sensitivity.alpha_l2, sensitivity.alpha_dram) == (0.02, 0.0)  # equation 8
    assert (contention.alpha_sch, contention.beta_sch) == (0.02, -0.03)  # equation 6
    assert (contention.idle_power_w, contention.max_power_w) == (50.0, 300.0)  # equation 10
    assert contention.throttle_per_w == -0.001  # equation 9, as a fraction of the maximum frequency


def test_a_mistyped_model_gets_a_suggestion() -> None:
    with pytest.raises(InputError, match=r'mix\.json: unknown performance model "ignitor"; did you mean "igniter"\?'):
        performance_model("ignitor", "mix.json")


def published(name: str) -> DnnModel:
    """Return the V100's model ``name`` with the coefficients of the authors' fit."""
    fitted: dict[str, Any] = COEFFICIENTS["models"][name]
    return replace(V100.models[name], k=tuple(fitted["k"]), power=tuple(fitted["power"]), l2=tuple(fitted["l2"]))


def test_the_v100_has_exactly_the_published_models() -> None:
    assert set(V100.models) == set(COEFFICIENTS["models"])


@pytest.mark.parametrize("name", sorted(COEFFICIENTS["models"]))
def test_v100_predictions_agree_with_the_published_profile(name: str) -> None:
    theirs = published(name)
    batch, share_pct = range(1, 33), [V100.share_pct(u) for u in range(1, V100.share_units + 1)]
    ours = IGNITER.demand(V100, V100.models[name], np.array(batch, float)[:, None], np.array(share_pct)[None, :])

    for values, reference_of in (
        (ours.active_ms, reference.active_ms),
        (ours.power_w, reference.power_w),
        (ours.l2_pct, reference.l2_pct),
    ):
        expected = [[reference_of(theirs, b, share) for share in share_pct] for b in batch]
        np.testing.assert_allclose(values, expected, rtol=1e-5)


@pytest.mark.parametrize("name", sorted(COEFFICIENTS["models"]))
def test_v100_models_have_the_published_sensitivities(name: str) -> None:
    ours, theirs = V100.models[name], COEFFICIENTS["models"][name]

    assert ours.alpha_cache == pytest.approx(theirs["alpha_cache"], rel=1e-5)
    assert ours.scheduling_alone_ms == pytest.approx(theirs["scheduling_alone_ms"], rel=1e-5)
    assert ours.kernels == theirs["kernels"]


@pytest.mark.parametrize("coefficient", ["alpha_f", "alpha_sch", "beta_sch"])
def test_v100_hardware_has_the_published_coefficients(coefficient: str) -> None:
    ours = getattr(V100.hardware, coefficient)

    assert ours == pytest.approx(COEFFICIENTS["hardware"][coefficient], rel=1e-5)


def test_the_v100_has_the_papers_figures() -> None:
    assert (V100.share_units, V100.price_per_hour) == (40, 3.06)
    assert (V100.hardware.max_power_w, V100.hardware.max_frequency_mhz) == (300.0, 1530.0)
