"""Situations from practice from tables to files: a service larger than a GPU, twelve language models."""

import csv
import re
from pathlib import Path
from random import Random

import pytest
from conftest import Call

from bench.fleet.lower_bound import lower_bound
from instances.inputs import instance_from_tables


def large_service(folder: Path) -> tuple[Path, Path]:
    services, gpus = folder / "services.csv", folder / "gpus.csv"
    services.write_text("service,model,rate_rps,slo_ms\ntagging,resnet50,3000,100\n")
    gpus.write_text("gpu,count,price_per_hour\nt4,,0.53\n")
    return services, gpus


def test_the_compute_of_a_service_alone_demands_four_gpus_of_plans_of_any_class(tmp_path: Path) -> None:
    services, gpus = large_service(tmp_path)
    bound = lower_bound(instance_from_tables(services, None, gpus).instance)
    assert bound.resource == "compute"
    assert bound.cost_per_hour == pytest.approx(4 * 0.53)


@pytest.mark.soak
def test_a_service_larger_than_a_gpu_has_one_name_and_a_front_end_before_its_servers(
    call: Call, tmp_path: Path
) -> None:
    large_service(tmp_path)
    planned = call("plan", "services.csv", "--gpus", "gpus.csv", "--time-limit", "20", "-o", "plan.json")
    assert planned.code == 0, planned.err
    used = re.search(r"(\d+) t4 for ", planned.out)
    too_few = re.search(r"proven: (?:(\d+) GPUs? (?:is|are) too few|no plan is cheaper)", planned.out)
    assert used is not None
    assert too_few is not None
    count = int(used[1])
    assert count >= 5
    assert too_few[1] is None or int(too_few[1]) >= 4
    for target in ("compose", "kubernetes", "triton", "shell"):
        written = call("deploy", "plan.json", "--to", target, "-o", target)
        assert written.code == 0, written.err
        (row,) = csv.DictReader((tmp_path / target / "endpoints.csv").read_text().splitlines())
        assert row["service"] == "tagging"
        texts = "".join(path.read_text() for path in (tmp_path / target).iterdir() if path.is_file())
        assert len(re.findall(r"server \S+ weight=\d+", texts)) == count
        assert f"tagging ({count} servers)" in written.out


@pytest.mark.soak
def test_twelve_language_models_are_planned_within_three_percent_and_deployed(call: Call, tmp_path: Path) -> None:
    draw = Random(1)
    rows = ["service,model,rate_rps,prompt_tokens,output_tokens,ttft_ms,tpot_ms"]
    for number in range(1, 13):
        model, factor = draw.choice([("llama-7b", 1.0), ("llama-13b", 1.8)])
        prompt, output = draw.choice([128, 192, 320]), draw.choice([64, 96, 160])
        rows.append(f"s{number},{model},{draw.choice([1, 2, 4])},{prompt},{output},{500 * factor:g},{50 * factor:g}")
    (tmp_path / "services.csv").write_text("\n".join(rows) + "\n")
    (tmp_path / "gpus.csv").write_text("gpu\na100-llm\n")
    planned = call("plan", "services.csv", "--gpus", "gpus.csv", "--time-limit", "40", "-o", "plan.json")
    assert planned.code == 0, planned.err
    lines = planned.out.splitlines()
    assert [line[0] for line in lines[:5]] == list("12345")
    used = re.search(r"(\d+) a100-llm for ", lines[0])
    not_excluded = re.search(r"(\d+) GPUs? (?:is|are) not excluded", lines[1])
    assert used is not None
    assert "no plan is cheaper" in lines[1] or (not_excluded and int(not_excluded[1]) >= 0.97 * int(used[1]))
    written = call("deploy", "plan.json", "--to", "kubernetes", "-o", "out")
    assert written.code == 0, written.err
    endpoints = list(csv.DictReader((tmp_path / "out" / "endpoints.csv").read_text().splitlines()))
    assert {row["service"] for row in endpoints} == {f"s{number}" for number in range(1, 13)}
    assert len(endpoints) == 12
