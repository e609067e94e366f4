"""Fitting of profiles: from measurements of a fake GPU, the fit yields its coefficients."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bench.replay.light_profile.demand import rank_one_pressure
from bench.replay.light_profile.points import Grid, Tenant
from bench.replay.light_profile.run import profile
from instances import GpuType
from instances.measurements import read_pairs, read_solo
from tests.bench.replay.light_profile.fake_rig import KNOWN_GPU, MODELS, FakeRig, fit_catalogue_entry, profile_request
from tests.instances import reference


@pytest.fixture
def progress_lines() -> list[str]:
    return []


def test_the_fit_yields_the_known_coefficients(
    tmp_path: Path, progress_lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rig = FakeRig()

    assert profile(rig, profile_request(tmp_path), progress_lines.append) == 0

    gpu = fit_catalogue_entry(tmp_path, capsys)
    assert (gpu.name, gpu.provenance.kind, gpu.share_units) == ("measured-here", "measured-here", 10)
    assert {model.provenance.kind for model in gpu.models.values()} == {"measured-here"}
    assert gpu.provenance.source.startswith("bench profile run: Known 1000, driver 1, mps, single precision")
    assert (gpu.memory_mib, gpu.price_per_hour) == (4000.0, 2.5)
    hardware, known = gpu.hardware, KNOWN_GPU.hardware
    assert hardware.alpha_f == pytest.approx(known.alpha_f, rel=1e-6)
    assert (hardware.alpha_sch, hardware.beta_sch) == pytest.approx((known.alpha_sch, known.beta_sch), rel=1e-6)
    assert (hardware.max_power_w, hardware.idle_power_w) == (known.max_power_w, known.idle_power_w)
    assert (hardware.max_frequency_mhz, hardware.pcie_bytes_per_ms) == (1000.0, known.pcie_bytes_per_ms)
    for name, truth in KNOWN_GPU.models.items():
        model = gpu.models[name]
        for batch, share in product((1, 8, 32), (10, 30, 100)):
            expected_ms = reference.active_ms(truth, batch, share)
            assert reference.active_ms(model, batch, share) == pytest.approx(expected_ms, rel=1e-3)
        assert model.power == pytest.approx(truth.power, rel=1e-3)
        # Utilisation is counted over the whole GPU time, but the model's demand over the active time only.
        assert model.l2[0] == pytest.approx(truth.l2[0], rel=0.05)
        assert model.alpha_cache == pytest.approx(truth.alpha_cache, rel=0.05)
        assert model.scheduling_alone_ms == pytest.approx(truth.scheduling_alone_ms)
        assert (model.kernels, model.input_bytes) == (truth.kernels, truth.input_bytes)
        assert (model.memory_base_mib, model.memory_per_item_mib) == pytest.approx((500.0, 100.0))
        assert model.solo is not None
        assert model.solo.dram[0] == pytest.approx(0.5 * model.solo.l2[0], rel=0.01)
        assert model.company is not None


def test_the_files_hold_every_point(tmp_path: Path, progress_lines: list[str]) -> None:
    rig = FakeRig()
    profile(rig, profile_request(tmp_path), progress_lines.append)

    solo = {
        (s.configuration.model, s.configuration.batch, s.configuration.share_pct): s
        for s in read_solo(tmp_path / "solo.csv")
    }
    assert set(solo) == {(m, b, s) for m, b, s in product(MODELS, Grid.full().batches, Grid.full().shares_pct)}
    expected = rig._reading((Tenant("vgg19", 8, 40.0),)).times[0]
    assert solo["vgg19", 8, 40.0].latency_ms == pytest.approx(expected.latency_ms)
    pairs = read_pairs(tmp_path / "pairs.csv")
    assert len(pairs) == 2 * len(Grid.full().pairs(MODELS)) + 2  # and two copies at a fifth of the GPU for each model
    for sample in pairs:
        point = tuple(Tenant(at.model, at.batch, at.share_pct) for at in (sample.own, sample.other))
        assert sample.latency_ms == pytest.approx(rig._reading(point).times[0].latency_ms)
    rows = (tmp_path / "copies.csv").read_text().splitlines()
    assert len(rows) == 1 + 9 + len({p for p in Grid.full().pairs(MODELS) if p[0] == p[1]})


# No scheduling delay, and a power cap above any load: neighbours slow each other only through the cache.
CACHE_ONLY_GPU = replace(
    KNOWN_GPU, hardware=replace(KNOWN_GPU.hardware, max_power_w=900.0, alpha_sch=0.0, beta_sch=0.0)
)


@pytest.mark.parametrize("known", [KNOWN_GPU, CACHE_ONLY_GPU], ids=["throttled", "cache only"])
def test_demands_without_counters_follow_from_slowdowns(
    known: GpuType, tmp_path: Path, progress_lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile(FakeRig(known, counts=False), profile_request(tmp_path), progress_lines.append) == 0

    gpu = fit_catalogue_entry(tmp_path, capsys)
    assert "in percent of the model that slows others most" in gpu.provenance.source
    assert gpu.hardware.alpha_f == pytest.approx(0.0 if known is CACHE_ONLY_GPU else known.hardware.alpha_f)
    for name, truth in known.models.items():
        # The unit of demands is arbitrary, but their effect on a model is not.
        fitted_effect, true_effect = (m.alpha_cache * reference.l2_pct(m, 16, 50) for m in (gpu.models[name], truth))
        assert fitted_effect == pytest.approx(true_effect, rel=0.05)
    vgg, alexnet = (reference.l2_pct(gpu.models[name], 16, 50) for name in MODELS)
    expected = [reference.l2_pct(known.models[name], 16, 50) for name in MODELS]
    assert alexnet / vgg == pytest.approx(expected[1] / expected[0], rel=0.05)


def test_without_power_the_csv_files_still_give_an_entry(
    tmp_path: Path, progress_lines: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fast = replace(KNOWN_GPU, hardware=replace(KNOWN_GPU.hardware, pcie_bytes_per_ms=1e9))
    assert profile(FakeRig(fast, power=False), profile_request(tmp_path, Grid.quick()), progress_lines.append) == 0

    assert not (tmp_path / "profile.json").exists()
    assert "no profile.json: a point or the power is missing" in progress_lines[-1]
    gpu = fit_catalogue_entry(tmp_path, capsys)
    assert (gpu.name, gpu.hardware.idle_power_w) == ("measured-here", 0.0)
    assert set(gpu.models) == set(MODELS)


def test_pressures_are_recovered_from_products_with_sensitivities() -> None:
    sensitivity, pressure = np.array([0.1, 0.4, 0.2]), np.array([30.0, 10.0, 0.0])

    result = rank_one_pressure(np.outer(sensitivity, pressure))

    assert result == pytest.approx([100.0, 100.0 / 3.0, 1.0])
    assert rank_one_pressure(np.full((2, 2), -0.1)) == pytest.approx([100.0, 1.0])
