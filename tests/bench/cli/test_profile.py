"""``bench profile`` on light profiles, folders of measurements and measured pairs."""

import json
import re
import tomllib
from itertools import product
from pathlib import Path

import pytest
from conftest import Call

from instances.catalogue import gpu_type, gpu_type_from_toml
from instances.files import write_json
from tests.instances.light_profile import light_profile

PAIR_HEAD = "model_a,batch_a,share_a_pct,model_b,batch_b,share_b_pct,latency_a_ms,latency_b_ms"


def alone_ms(batch: int, share_pct: float) -> float:
    return 1.0 + (5.0 + 20.0 * batch) / share_pct


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with measurements of two models: each is 20 % slower beside the other; one pair is an outlier of 9 ms."""
    configurations = list(product((1, 2, 4), (20, 50, 80)))
    solo = [f"{m},{b},{s},{alone_ms(b, s)},{10 + b},{20 + b}" for m in ("alexnet", "vgg16") for b, s in configurations]
    (tmp_path / "solo.csv").write_text("\n".join(["model,batch,share_pct,latency_ms,l2_util_pct,dram_util_pct", *solo]))
    rows = [
        f"alexnet,{b},{s},vgg16,{c},{100 - s},{1.2 * alone_ms(b, s)},{1.2 * alone_ms(c, 100 - s)}"
        for b, c, s in product((1, 2, 4), (1, 2, 4), (20, 50, 80))
    ]
    rows.append("alexnet,1,50,vgg16,1,50,9,9")
    (tmp_path / "pairs.csv").write_text("\n".join([PAIR_HEAD, *rows]))
    return tmp_path


FACTS = "--gpu mine --share-units 10 --memory-mib 8000 --price-per-hour 1 --pcie-bytes-per-ms 1e7"


def test_a_folder_is_fitted_and_its_outliers_are_named(call: Call, folder: Path) -> None:
    done = call("profile", "fit", ".", "-o", "mine.toml", *FACTS.split(), "--source", "our measurements")

    assert done.code == 0, done.err
    gpu = gpu_type_from_toml(tomllib.loads((folder / "mine.toml").read_text()), "mine.toml")
    assert (gpu.name, gpu.share_units, gpu.provenance.source) == ("mine", 10, "our measurements")
    assert set(gpu.models) == {"alexnet", "vgg16"}
    for heading in ("alone, by model", "alone, by batch", "alone, by share", "pairs, by performance model"):
        assert heading in done.out
    (outliers,) = re.findall(r"hybrid: \d+ outliers, kept in the fit.*", done.out, re.DOTALL)
    first, second = outliers.splitlines()[2:4]  # below the heading
    assert {first.split()[0], second.split()[0]} == {"alexnet", "vgg16"}
    assert all(line.split()[-4] == "9.000" for line in (first, second))


def test_a_fitted_file_is_validated_and_drawn(call: Call, folder: Path) -> None:
    assert call("profile", "fit", ".", "-o", "mine.toml", *FACTS.split()).code == 0
    options = ["--gpu", "mine.toml", "--model", "hybrid"]

    done = call("profile", "validate", "pairs.csv", *options, "--worst", "1", "--plot", "errors", "--format", "json")

    assert done.code == 0, done.err
    said = json.loads(done.out)
    assert (said["gpu"], said["model"], said["hold_out"], said["rows"]) == ("mine", "hybrid", None, 56)
    assert said["p50"] < 0.03
    assert said["p50"] <= said["p90"] <= said["p95"] <= said["max"]
    (worst,) = said["worst"]
    assert (worst["own"], worst["observed_ms"]) in {("alexnet b1 50 %", 9.0), ("vgg16 b1 50 %", 9.0)}
    assert abs(worst["relative_error"]) == pytest.approx(said["max"])
    assert all((folder / f"errors.{suffix}").stat().st_size > 0 for suffix in ("pdf", "svg", "png"))
    shown = call("profile", "validate", "pairs.csv", *options, "--hold-out", "rows")
    assert re.search(r"largest errors \([1-9]\d* outliers\)", shown.out)


def test_without_pairs_every_neighbour_adds_a_fixed_slowdown(call: Call, folder: Path) -> None:
    (folder / "pairs.csv").unlink()
    (folder / "solo.csv").write_text((folder / "solo.csv").read_text().replace("vgg16", "ranker"))
    done = call("profile", "fit", ".", "-o", "mine.toml", *FACTS.split())
    assert done.code == 0
    assert "no pairs.csv: every neighbour adds 81 %" in done.out
    gpu = gpu_type_from_toml(tomllib.loads((folder / "mine.toml").read_text()), "mine.toml")
    assert gpu.provenance.source.endswith("every neighbour adds 81 %")
    assert set(gpu.models) == {"alexnet", "ranker"}
    assert all(model.company is not None and model.company.alpha_l2 > 0.0 for model in gpu.models.values())


WRONG = [
    ("profile fit .", "--gpu: is missing; expected the name of the GPU type"),
    (
        "profile fit . --gpu mine",
        "--share-units: is missing, and so are --memory-mib, --price-per-hour, --pcie-bytes-per-ms; neither",
    ),
    (f"profile fit empty {FACTS}", "solo.csv: cannot be read"),
    ("profile validate", "PAIRS: is missing"),
    ("profile validate pairs.csv --model hybrid", "--gpu: is missing"),
    ("profile validate pairs.csv --gpu v10 --model hybrid", '--gpu: unknown GPU type "v10"; did you mean "v100"?'),
    (
        "profile validate pairs.csv --gpu v100 --model hybird",
        '--model: unknown performance model "hybird"; did you mean',
    ),
    ("profile validate pairs.csv --gpu v100 --model hybrid", 'pairs.csv: unknown model on v100 "vgg16"; did you mean'),
    (
        "profile validate pairs.csv --gpu v100 --model hybrid --hold-out row",
        '--hold-out: unknown part to hold out "row"',
    ),
    ("profile validate none.csv --gpu v100 --model hybrid", "none.csv: cannot be read"),
    ("profile validate pairs.csv --gpu none.toml --model hybrid", "none.toml: cannot be read"),
    ("profile validate pairs.csv --gpu pairs.toml --model hybrid", "pairs.toml: is not valid TOML"),
]


@pytest.mark.parametrize(("line", "expected"), WRONG)
def test_wrong_input_is_one_line_and_exit_code_2(call: Call, folder: Path, line: str, expected: str) -> None:
    (folder / "empty").mkdir()
    (folder / "pairs.toml").write_text("{")
    done = call(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert expected in done.err


def test_profile_fit_writes_a_catalogue_file_with_its_source(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "toy.json", light_profile())
    options = ["--price-per-hour", "1.5", "--memory-mib", "8000", "--source", "our toy"]
    done = call("profile", "fit", "toy.json", "-o", "new/toy.toml", *options)
    assert done.code == 0
    assert "alexnet" in done.out
    gpu = gpu_type_from_toml(tomllib.loads((tmp_path / "new/toy.toml").read_text()), "toy.toml")
    assert (gpu.name, gpu.share_units, gpu.price_per_hour, gpu.memory_mib) == ("toy", 4, 1.5, 8000.0)
    assert gpu.provenance.source == "our toy"
    assert gpu.models["alexnet"].k == pytest.approx((0.0, 2.0, 10.0, 5.0, 0.5), abs=1e-3)
    printed = call("profile", "fit", "toy.json", *options)
    assert printed.out == (tmp_path / "new/toy.toml").read_text()
    assert "alexnet" in printed.err


def test_profile_fit_takes_price_and_memory_of_a_known_gpu_from_the_catalogue(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "v100.json", light_profile(name="V100"))
    assert call("profile", "fit", "v100.json", "-o", "v100.toml").code == 0
    gpu = gpu_type_from_toml(tomllib.loads((tmp_path / "v100.toml").read_text()), "v100.toml")
    assert (gpu.price_per_hour, gpu.memory_mib) == (gpu_type("v100").price_per_hour, gpu_type("v100").memory_mib)


def test_the_cost_of_errors_is_a_table_or_a_list_of_objects(call: Call, folder: Path) -> None:
    configurations = list(product((1, 2, 4), (20, 40, 50, 60, 80)))
    solo = [f"{m},{b},{s},{alone_ms(b, s)},{10 + b},{20 + b}" for m in ("alexnet", "vgg16") for b, s in configurations]
    (folder / "solo.csv").write_text("\n".join([(folder / "solo.csv").read_text().splitlines()[0], *solo]))
    rows = [
        f"alexnet,{b},{s},vgg16,{c},{100 - s},{1.2 * alone_ms(b, s)},{1.2 * alone_ms(c, 100 - s)}"
        for (b, s), c in product(configurations, (1, 2, 4))
    ]
    (folder / "pairs.csv").write_text("\n".join([PAIR_HEAD, *rows]))
    options = ["--gpu", "mine", "--pcie-bytes-per-ms", "1e7", "--models", "hybrid", "--seeds", "2"]
    done = call("profile", "cost", ".", *options, "--at", "0.05", "--then", "slack", "--format", "json")
    assert done.code == 0, done.err
    lines = json.loads(done.out)
    assert [(line["model"], line["left_out"], line["level"]) for line in lines] == [
        ("measured", "", None),
        ("no interference", "", None),
        ("no interference", "", None),
        ("no interference", "", 0.05),
        ("hybrid", "cell", None),
        ("hybrid", "cell", 0.05),
    ]
    optimum, no_interference = lines[:2]
    assert (optimum["violations"], optimum["regret"], optimum["gpus_error"] >= 0.0) == (0.0, 0.0, True)
    assert no_interference["violations"] > 0.2  # every latency beside another is 20 % longer
    assert all(line["violations"] <= 0.06 for line in lines if line["level"] is not None)

    shown = call("profile", "cost", ".", *options)
    assert shown.code == 0, shown.err
    assert "beyond optimum %" in shown.out
    *rows_shown, gap, coverage, coverage_of_fit = shown.out.splitlines()
    assert (len(rows_shown), gap) == (2 + len(lines), "")
    # every pair is slower by the same factor, so every margin covers all of them
    assert "cover 100.0 ± 0.0 % at a level of 95 %, 100.0 ± 0.0 % at a level of 99 % (20 divisions)" in coverage
    assert re.search(
        r"margins of the model hybrid, fitted to one half, cover \d+\.\d ± \d\.\d % at a ", coverage_of_fit
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--at", "2"], "--at: is 2; expected a number from 0 to 1"),
        (["--then", "late"], '--then: unknown choice "late"'),
        (["--models", "hybird"], '--models: unknown performance model "hybird"; did you mean "hybrid"?'),
        (["--most-slack", "1"], "--most-slack: is 1; expected"),
    ],
)
def test_a_wrong_option_of_the_cost_is_one_line(call: Call, folder: Path, options: list[str], problem: str) -> None:
    done = call("profile", "cost", ".", "--gpu", "mine", "--pcie-bytes-per-ms", "1e7", *options)
    assert done.code == 2
    assert done.err.startswith(f"error: {problem}")
