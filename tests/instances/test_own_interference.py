"""Interference on a user's GPU types: margins from pairs, from the catalogue, and guesses."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bench.fleet.example import write_example
from instances import GpuType, InputError
from instances.catalogue import gpu_type
from instances.inputs import TabulatedInstance, instance_from_tables
from instances.measurements import Configuration
from instances.performance.buffer import MEDIAN_SLOWDOWN, P95_SLOWDOWN, with_buffer
from instances.performance.margins import with_margins
from instances.performance.validation import latencies_ms
from tests.instances.test_own_tables import MODELS, write
from tests.instances.test_performance_fit import measured

A100 = gpu_type("a100")
HEAD = "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms,latency_b_ms\n"


def type_of(tabulated: TabulatedInstance) -> GpuType:
    return tabulated.instance.gpus[0].type


def beside_ms(gpu: GpuType, own: str, batch: int = 8) -> float:
    """Return the latency of a model beside another one."""
    other = next(name for name in gpu.models if name != own)
    return float(latencies_ms(gpu, "hybrid", [(Configuration(own, batch, 50.0), Configuration(other, 8, 50.0))])[0][0])


def alone_ms(gpu: GpuType, own: str, batch: int = 8) -> float:
    return float(latencies_ms(gpu, "hybrid", [(Configuration(own, batch, 50.0),)])[0][0])


@pytest.fixture
def demo(tmp_path: Path) -> dict[str, Path]:
    services, profile, gpus = write_example(tmp_path)[:3]
    return {"services": services, "profile": profile, "gpus": gpus}


def test_a_known_type_has_the_interference_and_margins_of_the_catalogue(demo: dict[str, Path]) -> None:
    tabulated = instance_from_tables(**demo)
    gpu = type_of(tabulated)
    (margins,) = (candidate for candidate in A100.margins if candidate.level == 0.95)
    for name in ("resnet50", "densenet121"):
        with_catalogue_margins = with_margins(A100, margins)
        ratio = beside_ms(gpu, name) / alone_ms(gpu, name)
        assert ratio == pytest.approx(
            beside_ms(with_catalogue_margins, name) / alone_ms(with_catalogue_margins, name), rel=0.02
        )
    for name in ("vgg16", "mobilenet"):  # these models have no measured row
        assert beside_ms(gpu, name) == pytest.approx(margins.flat * alone_ms(gpu, name), rel=0.02)
    (note,) = tabulated.notes
    assert "cover 95 % of the catalogue's 1,837 measured latencies (resnet50 +4 % to +12 %" in note
    assert "vgg16, resnet101, mobilenet, resnet152: no such row, so +94 % on the time alone" in note
    assert "may be too small" in note
    assert not tabulated.guessed
    assert list(tabulated.instead) == ["without the margin"]
    without_margin = tabulated.instead["without the margin"].gpus[0].type
    assert beside_ms(without_margin, "resnet50") < beside_ms(gpu, "resnet50")
    assert type_of(instance_from_tables(**demo, margin=0.0)) == without_margin


def test_a_new_model_on_a_known_type_has_the_flat_margin_of_the_type(demo: dict[str, Path]) -> None:
    text = demo["profile"].read_text().replace("vgg16", "mine")
    demo["profile"].write_text(text)
    demo["services"].write_text(demo["services"].read_text().replace("vgg16", "mine"))
    tabulated = instance_from_tables(**demo, margin=0.9)
    gpu = type_of(tabulated)
    (margins,) = (candidate for candidate in A100.margins if candidate.level == 0.9)
    assert beside_ms(gpu, "mine") == pytest.approx(margins.flat * alone_ms(gpu, "mine"))
    assert beside_ms(tabulated.instead["without the margin"].gpus[0].type, "mine") == pytest.approx(
        MEDIAN_SLOWDOWN * alone_ms(gpu, "mine")
    )
    solo = gpu.models["mine"].solo
    assert solo is not None
    assert solo.l2[1] == max(max(model.solo.l2_pct) for model in A100.models.values() if model.solo)


def test_without_measured_times_the_catalogues_figures_have_its_margins(tmp_path: Path) -> None:
    services = "service,model,rate_rps,slo_ms\na,resnet50,100,60\nb,ssd,100,60\n"
    files = write(tmp_path, services=services, gpus="gpu\nv100\n") | {"profile": None}
    tabulated = instance_from_tables(**files)
    v100 = gpu_type("v100")
    (margins,) = (candidate for candidate in v100.margins if candidate.level == 0.95)
    only = replace(v100, models={name: v100.models[name] for name in ("resnet50", "ssd")})
    assert type_of(tabulated) == with_margins(only, margins)
    assert type_of(instance_from_tables(**files, margin=0.0)) == only
    (note,) = instance_from_tables(**files, margin=0.995).notes
    assert note == "interference on v100: no margin (margins at 80 %, 90 %, 95 %, 99 % are known)"
    (note,) = instance_from_tables(**write(tmp_path, services=services, gpus="gpu\nt4\n") | {"profile": None}).notes
    assert note == "interference on t4: no margin (calibrated figures, and no margin is known)"


def test_interference_on_an_unknown_type_is_guessed_and_varied(tmp_path: Path) -> None:
    tabulated = instance_from_tables(**write(tmp_path))
    assert tabulated.guessed
    assert "a guess: P95 of the catalogue's measured pairs" in tabulated.notes[0]
    assert list(tabulated.instead) == ["at 31 %", "at 0 %"]
    ratios = [
        beside_ms(gpu, "tiny") / alone_ms(gpu, "tiny")
        for gpu in (type_of(tabulated), *(other.gpus[0].type for other in tabulated.instead.values()))
    ]
    assert ratios == pytest.approx([P95_SLOWDOWN, MEDIAN_SLOWDOWN, 1.0])
    assert [len(instance_from_tables(**write(tmp_path), margin=m).next_pairs["x9"]) for m in (0.95, 0.99)] == [10, 50]
    with_stated_slowdown = instance_from_tables(**write(tmp_path), slowdown=1.2)
    assert (with_stated_slowdown.guessed, with_stated_slowdown.instead) == (False, {})


def test_the_examples_pairs_need_a_smaller_margin_than_the_catalogues(tmp_path: Path) -> None:
    services, profile, gpus, measured_pairs = write_example(tmp_path)[:4]
    without_pairs, with_pairs = (
        instance_from_tables(services, profile, gpus, pairs=file) for file in (None, measured_pairs)
    )
    for name in ("vgg16", "resnet101", "mobilenet", "resnet152"):
        assert beside_ms(type_of(with_pairs), name) < beside_ms(type_of(without_pairs), name)
    assert "cover 95 % of your 50 measured latencies" in with_pairs.notes[0]


def test_the_pairs_to_measure_start_with_models_without_rows(demo: dict[str, Path]) -> None:
    (pairs_of_a100,) = instance_from_tables(**demo).next_pairs.values()
    assert len(pairs_of_a100) == 6
    first = {side.model for pair in pairs_of_a100[:2] for side in pair}
    assert first == {"vgg16", "resnet101", "mobilenet", "resnet152"}
    assert instance_from_tables(**demo, slowdown=1.2).next_pairs == {}


def pairs(count: int, noise: float) -> str:
    """Return ``count`` rows of pairs on the type of ``test_own_tables``: 40 % slower than alone, with noise."""
    random = np.random.default_rng(0)
    sides = list(product(MODELS, (1, 4, 16)))
    rows = []
    for i in range(count):
        (a, size_a), (b, size_b) = sides[i % len(sides)], sides[(i * 5 + i // len(sides)) % len(sides)]
        times = (
            MODELS[model] * (50 + 25 * size) / 65 * 1.4 * random.lognormal(0.0, noise)
            for model, size in ((a, size_a), (b, size_b))
        )
        rows.append(f"{a},{size_a},50,{b},{size_b},50,{','.join(f'{ms:.4f}' for ms in times)}\n")
    return HEAD + "".join(rows)


def test_the_users_pairs_give_margins_except_at_level_zero(tmp_path: Path) -> None:
    files = write(tmp_path, pairs=pairs(60, 0.05))
    tabulated, without_margin = instance_from_tables(**files), instance_from_tables(**files, margin=0.0)
    assert "cover 95 % of your 120 measured latencies (ranker +" in tabulated.notes[0]
    assert without_margin.notes == ()
    assert without_margin.instead == {}
    assert tabulated.instead["without the margin"] == without_margin.instance
    factors = [beside_ms(type_of(tabulated), name) / beside_ms(type_of(without_margin), name) for name in MODELS]
    assert all(1.0 < factor < 1.3 for factor in factors), factors
    strict = instance_from_tables(**files, margin=0.99)
    assert all(beside_ms(type_of(strict), name) >= beside_ms(type_of(tabulated), name) for name in MODELS)


def test_a_margin_from_too_few_pairs_is_noted_as_a_guess(tmp_path: Path) -> None:
    tabulated = instance_from_tables(**write(tmp_path, pairs=pairs(5, 0.05)))
    assert tabulated.guessed
    assert "10 measured latencies are too few for a margin that covers 95 %; a guess" in tabulated.notes[0]
    gpu = type_of(tabulated)
    assert all(beside_ms(gpu, name) >= P95_SLOWDOWN * alone_ms(gpu, name) - 1e-9 for name in MODELS)
    assert len(tabulated.next_pairs["x9"]) == 5


def test_other_performance_models_have_no_margin(tmp_path: Path) -> None:
    tabulated = instance_from_tables(**write(tmp_path, pairs=pairs(60, 0.05)), model="inss")
    assert tabulated.notes == ("interference on x9: no margin, which only the model hybrid has",)


@pytest.mark.parametrize("level", [-0.1, 1.0, 2.0, float("nan")])
def test_a_level_out_of_range_is_refused(tmp_path: Path, level: float) -> None:
    with pytest.raises(InputError, match=r"margin: is .*; expected a fraction between 0 and 1, or 0 for no margin"):
        instance_from_tables(**write(tmp_path), margin=level)


def test_the_median_slowdown_is_that_of_the_a100() -> None:
    from instances.measurements import read_pairs, read_solo

    alone_of = {sample.configuration: sample.latency_ms for sample in read_solo(measured("a100-gpulet", "solo.csv"))}
    slowdowns = [pair.latency_ms / alone_of[pair.own] for pair in read_pairs(measured("a100-gpulet"))]
    assert round(float(np.median(slowdowns)), 3) == MEDIAN_SLOWDOWN
    assert beside_ms(with_buffer(A100, MEDIAN_SLOWDOWN), "vgg19") == pytest.approx(
        MEDIAN_SLOWDOWN * alone_ms(A100, "vgg19"), rel=0.01
    )
