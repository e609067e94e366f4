"""Fitting a light profile: a synthetic one gives back its coefficients, the published one gives the catalogue's."""

import json
import os
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from instances import DnnModel, GpuType, InputError
from instances.catalogue import gpu_type
from instances.files.light_profile import light_profile_from_json
from instances.performance.igniter_fit import fit_profile
from tests.instances import reference
from tests.instances.reference import TOY

COEFFICIENTS = json.loads((Path(__file__).parents[1] / "fixtures" / "igniter_coefficients.json").read_text())
V100 = gpu_type("v100")
MEASURED = Path(os.environ.get("GPUSHARE_MEASUREMENTS", "")) / "v100-igniter" / "profile.json"
BATCHES, SHARES_PCT = (1, 16, 32), (10, 50, 100)

# Memory is calibrated by name, so the models need names that memory.py knows.
ALEXNET = replace(
    TOY.models["small"], name="alexnet", max_batch=32, k=(0.004, 8.7, 23.7, 0.05, 0.35), power=(0.03, 37.0)
)
VGG19 = replace(
    TOY.models["large"], name="vgg19", max_batch=32, k=(-0.005, 158.0, 44.0, 0.2, 0.9), power=(0.6, 2.0), l2=(0.04, 2.7)
)
KNOWN = replace(TOY, models={"alexnet": ALEXNET, "vgg19": VGG19})


def profile_of(gpu: GpuType) -> dict[str, Any]:
    """Return the light profile of a GPU with exactly these coefficients."""
    hardware = gpu.hardware
    top_mhz, cap_w = hardware.max_frequency_mhz, hardware.max_power_w
    residents = range(1, 6)
    demand_w = [20.0 + 70.0 * n for n in residents]  # with 50 W idle 140 to 420 W against a cap of 300
    mhz = [reference.frequency_mhz(hardware, watts) for watts in demand_w]
    per_kernel_ms = [0.002 + reference.delay_per_kernel_ms(hardware, n) for n in residents]
    return {
        "gpu": {
            "name": gpu.name.upper(),
            "max_frequency_mhz": top_mhz,
            "max_power_w": cap_w,
            "idle_power_w": hardware.idle_power_w,
            "pcie_bytes_per_ms": hardware.pcie_bytes_per_ms,
            "share_unit_pct": 100.0 / gpu.share_units,
            "identical_vgg19_colocated_1_to_5": {
                "power_w": [min(hardware.idle_power_w + watts, cap_w) for watts in demand_w],
                "frequency_mhz": mhz,
                "scheduling_delay_ms_per_kernel": [d * top_mhz / f for d, f in zip(per_kernel_ms, mhz, strict=True)],
            },
        },
        "profiled_batches": list(BATCHES),
        "profiled_shares_pct": list(SHARES_PCT),
        "models": {name: _model_profile(gpu, model) for name, model in gpu.models.items()},
    }


def _model_profile(gpu: GpuType, model: DnnModel) -> dict[str, Any]:
    hardware = gpu.hardware
    top_mhz, scheduling_ms = hardware.max_frequency_mhz, model.scheduling_alone_ms
    latency, power, frequency = [], [], []
    for batch in BATCHES:
        watts = [reference.power_w(model, batch, share) for share in SHARES_PCT]
        mhz = [reference.frequency_mhz(hardware, w) for w in watts]
        gpu_ms = [scheduling_ms + reference.active_ms(model, batch, share) for share in SHARES_PCT]
        latency.append([ms * top_mhz / f for ms, f in zip(gpu_ms, mhz, strict=True)])
        power.append([min(hardware.idle_power_w + w, hardware.max_power_w) for w in watts])
        frequency.append(mhz)
    # L2 is sampled on the diagonal, at the throttled throughput
    ability = [1000 * batch / (latency[i][i] - scheduling_ms) for i, batch in enumerate(BATCHES)]
    return {
        "input_bytes": model.input_bytes,
        "output_bytes": model.output_bytes,
        "kernels": model.kernels,
        "scheduling_delay_alone_ms": scheduling_ms,
        "gpu_latency_ms[batch][share]": latency,
        "power_w[batch][share]": power,
        "frequency_mhz[batch][share]": frequency,
        "l2_util_pct_at_(1,10)_(16,50)_(32,100)": [model.l2[0] * q + model.l2[1] for q in ability],
        "two_identical_colocated_at_50pct_batch16": {
            "active_time_ms_alone": 4.0,
            "active_time_ms_colocated": 4.0 * (1 + model.alpha_cache * 16.0) / 0.98,
            "frequency_mhz_colocated": 0.98 * top_mhz,
            "l2_util_pct_of_corunner": 16.0,
        },
    }


PROFILE = profile_of(KNOWN)


def fit_to(profile: Any) -> GpuType:
    return fit_profile(light_profile_from_json(profile), "made up", 4000.0, 2.0)


FITTED = fit_to(PROFILE)


def test_only_some_rows_of_the_synthetic_profile_throttle() -> None:
    """Without throttled rows, their fit would not be tested."""
    rows = [mhz for model in PROFILE["models"].values() for row in model["frequency_mhz[batch][share]"] for mhz in row]
    series = PROFILE["gpu"]["identical_vgg19_colocated_1_to_5"]["frequency_mhz"]

    assert 0 < sum(mhz < 1000.0 for mhz in rows) < len(rows) // 2
    assert [mhz < 1000.0 for mhz in series] == [False, False, False, True, True]


@pytest.mark.parametrize("name", list(KNOWN.models))
def test_known_coefficients_are_recovered(name: str) -> None:
    known, fitted = KNOWN.models[name], FITTED.models[name]

    assert fitted.k == pytest.approx(known.k, rel=1e-5)  # equation 11
    assert fitted.power == pytest.approx(known.power, rel=1e-9)
    assert fitted.l2 == pytest.approx(known.l2, rel=1e-9)
    assert fitted.alpha_cache == pytest.approx(known.alpha_cache, rel=1e-12)  # equation 8
    assert (fitted.kernels, fitted.scheduling_alone_ms) == (known.kernels, known.scheduling_alone_ms)
    assert (fitted.input_bytes, fitted.output_bytes) == (known.input_bytes, known.output_bytes)
    assert fitted.max_batch == 32


@pytest.mark.parametrize("name", list(KNOWN.models))
def test_the_fit_predicts_as_the_known_model(name: str) -> None:
    for batch in range(1, 33):
        for share_pct in range(5, 101, 5):
            expected = reference.active_ms(KNOWN.models[name], batch, share_pct)
            assert reference.active_ms(FITTED.models[name], batch, share_pct) == pytest.approx(expected, rel=1e-7)


def test_known_hardware_is_recovered() -> None:
    fitted, known = FITTED.hardware, KNOWN.hardware

    assert fitted.alpha_f == pytest.approx(known.alpha_f, rel=1e-12)  # equation 9
    assert fitted.alpha_sch == pytest.approx(known.alpha_sch, rel=1e-12)  # equation 6
    assert fitted.beta_sch == pytest.approx(known.beta_sch, rel=1e-12)
    assert replace(fitted, alpha_f=known.alpha_f, alpha_sch=known.alpha_sch, beta_sch=known.beta_sch) == known
    assert (FITTED.name, FITTED.share_units) == ("toy", 10)
    assert (FITTED.memory_mib, FITTED.price_per_hour) == (4000.0, 2.0)


def test_an_exact_profile_leaves_no_residual() -> None:
    for provenance in (FITTED.provenance, *(model.provenance for model in FITTED.models.values())):
        assert provenance.kind == "fitted"
        assert provenance.source.startswith("made up")
        assert all(value == pytest.approx(0.0, abs=1e-8) for value in provenance.residual.values())
    assert set(FITTED.models["vgg19"].provenance.residual) == {
        "active_time_rel_mean",
        "active_time_rel_max",
        "power_rel_max",
        "l2_rel_max",
    }


def test_a_residual_is_the_error_over_the_fitted_samples() -> None:
    noisy = deepcopy(PROFILE)
    noisy["models"]["vgg19"]["gpu_latency_ms[batch][share]"][1][1] *= 1.2  # one sample of nine is 20 % off

    fitted = fit_to(noisy).models["vgg19"]

    errors = []
    for batch, row, mhz in zip(
        BATCHES,
        noisy["models"]["vgg19"]["gpu_latency_ms[batch][share]"],
        noisy["models"]["vgg19"]["frequency_mhz[batch][share]"],
        strict=True,
    ):
        for share, latency, f in zip(SHARES_PCT, row, mhz, strict=True):
            sample = latency * f / 1000.0 - VGG19.scheduling_alone_ms
            errors.append(abs(reference.active_ms(fitted, batch, share) / sample - 1))
    residual = fitted.provenance.residual
    assert residual["active_time_rel_max"] == pytest.approx(max(errors), rel=1e-9)
    assert residual["active_time_rel_mean"] == pytest.approx(sum(errors) / 9, rel=1e-9)
    assert max(errors) > 0.05


def test_a_gpu_that_never_throttles_loses_no_frequency() -> None:
    cool = deepcopy(PROFILE)
    cool["gpu"]["identical_vgg19_colocated_1_to_5"]["frequency_mhz"] = [1000.0] * 5

    fitted = fit_to(cool)

    assert fitted.hardware.alpha_f == 0.0
    assert fitted.provenance.residual["frequency_mhz_max"] == 0.0


def test_a_neighbour_never_speeds_a_model_up() -> None:
    noisy = deepcopy(PROFILE)
    noisy["models"]["vgg19"]["two_identical_colocated_at_50pct_batch16"]["active_time_ms_colocated"] = 3.9

    assert fit_to(noisy).models["vgg19"].alpha_cache == 0.0


def test_memory_is_the_profiles_if_it_has_any() -> None:
    measured = deepcopy(PROFILE)
    measured["models"]["tiny"] = {**measured["models"]["vgg19"], "memory_base_mib": 321.0, "memory_per_item_mib": 2.5}

    fitted = fit_to(measured).models["tiny"]

    assert (fitted.memory_base_mib, fitted.memory_per_item_mib) == (321.0, 2.5)
    assert fitted.provenance.source == "made up"


# --- Malformed profiles ---

VGG = ("models", "vgg19")
SERIES = ("gpu", "identical_vgg19_colocated_1_to_5")
REMOVED = object()


def changed(*path: Any, value: Any = REMOVED) -> dict[str, Any]:
    profile = deepcopy(PROFILE)
    container: Any = profile
    for key in path[:-1]:
        container = container[key]
    if value is REMOVED:
        del container[path[-1]]
    else:
        container[path[-1]] = value
    return profile


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        (changed("gpu"), "profile: gpu: is missing; expected an object"),
        (changed("models"), "profile: models: is missing; expected an object"),
        (changed("profiled_batches"), "profile: profiled_batches: is missing; expected a list"),
        (
            changed("gpu", "max_power_w"),
            "profile: gpu.max_power_w: is missing; expected a finite number greater than 0",
        ),
        (changed(*SERIES), "profile: gpu.identical_: is missing; expected an object"),
        (changed(*SERIES, "power_w"), "profile: gpu.identical_.power_w: is missing; expected a list"),
        (
            changed(*SERIES, "power_w", value=[100.0, 200.0]),
            "profile: gpu: expected power, frequency and delay of one to n co-located models",
        ),
        (
            changed(*SERIES, "frequency_mhz", value=[900.0] * 5),
            "profile: gpu: expected power, frequency and delay of one to n co-located models",
        ),
        (changed(*SERIES, "power_w", value=7), "profile: gpu.identical_.power_w: is 7; expected a list"),
        (
            changed(*VGG, "kernels"),
            "profile: models.vgg19.kernels: is missing; expected a number from 0 to 1e+12: number of kernels",
        ),
        (
            changed(*VGG, "power_w[batch][share]"),
            'profile: models.vgg19["power_w[batch][share]"]: is missing; expected a list',
        ),
        (
            changed(*VGG, "gpu_latency_ms[batch][share]", value=[[1.0, 2.0, 3.0]]),
            "profile: models.vgg19: expected 9 samples, one per profiled batch and share",
        ),
        (
            changed(*VGG, "gpu_latency_ms[batch][share]", value=[[1.0], [1.0, 2.0]]),
            "profile: models.vgg19: expected 9 samples, one per profiled batch and share",
        ),
        (
            changed(*VGG, "gpu_latency_ms[batch][share]", value="fast"),
            'profile: models.vgg19["gpu_latency_ms[batch][share]"]: is the text "fast"; expected a list',
        ),
        (
            changed(*VGG, "power_w[batch][share]", value=[[90.0] * 4, [90.0] * 2, [90.0] * 3]),
            "profile: models.vgg19: expected 9 samples, one per profiled batch and share",
        ),
        (
            changed(*VGG, "memory_base_mib", value=321.0),
            "profile: models.vgg19: expected memory_base_mib and memory_per_item_mib, or neither",
        ),
        (
            changed(*VGG, "frequency_mhz[batch][share]", value=[[900.0] * 3] * 3),
            "profile: models.vgg19: expected 3 L2 samples, and two power samples without throttling",
        ),
        (
            changed(*VGG, "l2_util_pct_at_(1,10)_(16,50)_(32,100)"),
            "profile: models.vgg19.l2_util_pct_at: is missing; expected a list",
        ),
        (
            changed(*VGG, "l2_util_pct_at_(1,10)_(16,50)_(32,100)", value=[1.0, 2.0]),
            "profile: models.vgg19: expected 3 L2 samples, and two power samples without throttling",
        ),
        (
            changed(*VGG, "two_identical_colocated_at_50pct_batch16"),
            "profile: models.vgg19.two_identical: is missing; expected an object",
        ),
        (
            changed(*VGG, "two_identical_colocated_at_50pct_batch16", "active_time_ms_alone"),
            "profile: models.vgg19.two_identical.active_time_ms_alone: is missing; expected a finite number",
        ),
        (changed("models", "vgg", value=PROFILE["models"]["vgg19"]), "profile: models.vgg: unknown model"),
        (changed("gpu", value=3), "profile: gpu: is 3; expected an object"),
        (
            changed("gpu", "max_power_w", value=1e13),
            "profile: gpu.max_power_w: is 10000000000000.0; expected a finite number greater than 0, at most 1e+12",
        ),
        (
            changed(*VGG, "scheduling_delay_alone_ms", value=1e3),
            "profile: models.vgg19: expected GPU latencies above scheduling_delay_alone_ms",
        ),
        ([], "profile: is a list of 0; expected an object"),
    ],
)
def test_a_malformed_profile_is_refused(profile: Any, message: str) -> None:
    with pytest.raises(InputError) as caught:
        fit_to(profile)

    assert str(caught.value).startswith(message)


# --- The published profile ---


@pytest.fixture(scope="module")
def published() -> GpuType:
    if not MEASURED.is_file():
        pytest.skip("GPUSHARE_MEASUREMENTS names no folder that holds v100-igniter/profile.json")
    profile = json.loads(MEASURED.read_text(encoding="utf-8"))
    return fit_profile(
        light_profile_from_json(profile), "iGniter's published light profile", V100.memory_mib, V100.price_per_hour
    )


def test_the_published_profile_gives_the_catalogues_v100(published: GpuType) -> None:
    tolerance = {"rel": 1e-5}  # the last digits of least squares depend on the processor

    for name in ("alpha_f", "alpha_sch", "beta_sch"):
        assert getattr(published.hardware, name) == pytest.approx(getattr(V100.hardware, name), **tolerance)
    assert list(published.models) == list(V100.models)
    for name, in_catalogue in V100.models.items():
        fitted = published.models[name]
        assert fitted.k == pytest.approx(in_catalogue.k, **tolerance)
        assert fitted.power == pytest.approx(in_catalogue.power, **tolerance)
        assert fitted.l2 == pytest.approx(in_catalogue.l2, **tolerance)
        assert fitted.alpha_cache == pytest.approx(in_catalogue.alpha_cache, **tolerance)
        residual = {name: in_catalogue.provenance.residual[name] for name in fitted.provenance.residual}
        assert dict(fitted.provenance.residual) == pytest.approx(residual, rel=1e-6)
        rest = {
            "k": in_catalogue.k,
            "power": in_catalogue.power,
            "l2": in_catalogue.l2,
            "alpha_cache": in_catalogue.alpha_cache,
        }
        rest |= {
            "solo": in_catalogue.solo,
            "inss": in_catalogue.inss,
            "company": in_catalogue.company,
        }  # coefficients of the other performance models
        assert replace(fitted, **rest, provenance=in_catalogue.provenance) == in_catalogue


@pytest.mark.parametrize("name", sorted(COEFFICIENTS["models"]))
@pytest.mark.parametrize(
    "quantity", [reference.active_ms, reference.power_w, reference.l2_pct], ids=["active time", "power", "l2"]
)
def test_the_published_profile_predicts_as_the_authors_fit(
    published: GpuType, name: str, quantity: Callable[[DnnModel, int, float], float]
) -> None:
    coefficients = COEFFICIENTS["models"][name]
    of_authors = replace(
        V100.models[name], k=tuple(coefficients["k"]), power=tuple(coefficients["power"]), l2=tuple(coefficients["l2"])
    )
    configurations = [(batch, V100.share_pct(units)) for batch in range(1, 33) for units in range(1, 41)]

    np.testing.assert_allclose(
        [quantity(published.models[name], *configuration) for configuration in configurations],
        [quantity(of_authors, *configuration) for configuration in configurations],
        rtol=1e-5,
    )
