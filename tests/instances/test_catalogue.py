"""The GPU catalogue: files that round-trip, errors that name their field, and the source of every entry."""

import tomllib
from dataclasses import replace
from typing import Any

import pytest

from instances import GpuType, InputError, Provenance
from instances.catalogue import gpu_type, gpu_type_from_toml, gpu_type_names, gpu_type_to_toml
from instances.memory import CONTEXT_MIB, memory_mib
from tests.instances.reference import TOY

ENTRIES = [gpu_type(name) for name in gpu_type_names()]
V100 = gpu_type("v100")


def provenances(gpu: GpuType) -> dict[str, Provenance]:
    return {gpu.name: gpu.provenance} | {f"{gpu.name} {name}": model.provenance for name, model in gpu.models.items()}


EVERY_PROVENANCE = {name: provenance for gpu in ENTRIES for name, provenance in provenances(gpu).items()}


@pytest.mark.parametrize("gpu", [*ENTRIES, TOY, replace(TOY, allowed_shares=(2, 4, 10))], ids=lambda gpu: gpu.name)
def test_a_gpu_type_round_trips_through_its_file(gpu: GpuType) -> None:
    assert gpu_type_from_toml(tomllib.loads(gpu_type_to_toml(gpu)), "again.toml") == gpu


def test_names_are_sorted_and_match_their_entries() -> None:
    assert gpu_type_names() == sorted(gpu_type_names())
    assert [gpu.name for gpu in ENTRIES] == gpu_type_names()
    assert "v100" in gpu_type_names()


def test_an_entry_is_loaded_once() -> None:
    assert gpu_type("v100") is V100


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("v10", 'mix.json: gpus[0].type: unknown GPU type "v10"; did you mean "v100"?'),
        ("zx-spectrum", 'mix.json: gpus[0].type: unknown GPU type "zx-spectrum"; known: '),
        ("../gpu", 'mix.json: gpus[0].type: unknown GPU type "../gpu"; known: '),
    ],
)
def test_an_unknown_gpu_type_is_named(name: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        gpu_type(name, "mix.json: gpus[0].type")

    assert str(caught.value).startswith(message)


def test_an_unknown_model_gets_a_suggestion() -> None:
    with pytest.raises(InputError) as caught:
        V100.check_model("resnet-50", "workloads[3].model")

    assert str(caught.value) == 'workloads[3].model: unknown model on v100 "resnet-50"; did you mean "resnet50"?'


def test_every_entry_states_its_source(subtests: pytest.Subtests) -> None:
    for name, provenance in EVERY_PROVENANCE.items():
        with subtests.test(name):
            assert provenance.kind in {"fitted", "calibrated", "measured", "measured-here", "stated"}
            assert len(provenance.source) > 20, name
            if provenance.kind == "fitted":
                assert provenance.residual, f"{name}: a fit without its residual"
            assert all(0.0 <= value < float("inf") for value in provenance.residual.values())


@pytest.mark.parametrize("gpu", ENTRIES, ids=lambda gpu: gpu.name)
def test_entries_are_plausible(gpu: GpuType) -> None:
    assert gpu.share_units >= 1
    assert gpu.price_per_hour > 0
    assert gpu.hardware.idle_power_w < gpu.hardware.max_power_w
    for name, model in gpu.models.items():
        assert model.name == name
        assert model.max_batch >= 1
        assert CONTEXT_MIB <= model.memory_mib(1) < gpu.memory_mib
        assert model.memory_mib(2) - model.memory_mib(1) == pytest.approx(model.memory_per_item_mib)


def test_a_share_in_units_is_converted_to_percent() -> None:
    assert V100.share_pct(1) == 2.5
    assert V100.share_pct(40) == 100.0


# 4 bytes for each of 25.56 million parameters are 97.5 MiB; gpulet's configuration states 1,820 MiB at batch 32
def test_the_memory_of_resnet50_is_as_worked_out_by_hand() -> None:
    base, per_item = memory_mib("resnet50")

    assert base == 597.5
    assert base + 32 * per_item == pytest.approx(1820, abs=1)


def test_memory_of_an_unknown_model_is_refused() -> None:
    with pytest.raises(InputError, match=r'models\.vgg: unknown model with known memory "vgg"; did you mean "vgg19"\?'):
        memory_mib("vgg", "models.vgg")


def broken(*path: str, value: Any = None) -> dict[str, Any]:
    """Return the content of the toy's file with one field replaced, or removed if no value is given."""
    entry = tomllib.loads(gpu_type_to_toml(TOY))
    table = entry
    for key in path[:-1]:
        table = table[key]
    if value is None:
        del table[path[-1]]
    else:
        table[path[-1]] = value
    return entry


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        pytest.param(broken("share_units"), "share_units", id="no share units"),
        pytest.param(broken("price_per_hour", value="cheap"), "price_per_hour", id="a price in words"),
        pytest.param(broken("hardware"), "hardware", id="no hardware"),
        pytest.param(broken("hardware", value=3), "hardware", id="hardware is a number"),
        pytest.param(broken("hardware", "alpha_f"), "hardware\\.alpha_f", id="a coefficient is missing"),
        pytest.param(broken("hardware", "alpha_g", value=1.0), "hardware\\.alpha_g", id="an unknown coefficient"),
        pytest.param(broken("models", value=3), "models", id="models is a number"),
        pytest.param(broken("models", "small", value="tiny"), "models\\.small", id="a model in words"),
        pytest.param(
            broken("models", "small", "k", value=[1.0, 2.0]), "models\\.small\\.k", id="too few curve coefficients"
        ),
        pytest.param(
            broken("models", "small", "provenance"), "models\\.small\\.provenance", id="a model of unknown origin"
        ),
        pytest.param(broken("price_per_hour", value=float("nan")), "price_per_hour", id="not a number"),
        pytest.param(broken("memory_mib", value=10**400), "memory_mib", id="a number beyond all"),
        pytest.param(broken("models", "small\n", value={}), r"models\.small\\n\.k", id="a name of two lines"),
        pytest.param(broken("share_units", value=10**9), "share_units", id="more units than memory"),
        pytest.param(broken("allowed_shares", value=3), "allowed_shares", id="allowed shares is a number"),
    ],
)
def test_a_broken_file_is_refused_by_name(entry: dict[str, Any], field: str) -> None:
    with pytest.raises(InputError, match=rf"^toy\.toml: {field}: "):
        gpu_type_from_toml(entry, "toy.toml")
