"""``bench generate``: the same instances as the Python functions."""

import json
from pathlib import Path

import pytest
from conftest import Call

from bench.cli import main
from instances import SloRule
from instances.files import read_instance
from instances.generate import FAMILIES, generate
from instances.pool_mix import POOL_MIX, pool_mix


def test_generate_writes_the_instance_of_the_python_function(call: Call, tmp_path: Path) -> None:
    done = call("generate", "igniter-mix", "--size", "7", "--seed", "3", "-o", "new/mix.json")
    assert (done.code, done.out) == (0, "")
    assert read_instance(tmp_path / "new/mix.json") == generate("igniter-mix", 7, 3)


def test_generate_prints_the_same_without_a_file(call: Call, tmp_path: Path) -> None:
    arguments = ["generate", "heavy-mix", "--size", "5", "--objective", "capacity", "--gpus", "4", "--name", "mine"]
    printed = json.loads(call(*arguments).out)
    call(*arguments, "-o", "mine.json")
    assert printed == json.loads((tmp_path / "mine.json").read_text())
    assert (printed["name"], printed["throughput_of"], printed["gpus"][0]["count"]) == ("mine", "capacity", 4)


def test_generate_writes_a_file_for_each_seed_into_a_folder(call: Call, tmp_path: Path) -> None:
    done = call("generate", "igniter-mix", "--size", "4", "--seed", "0,2,0", "-o", "mixes")
    assert (done.code, done.out, done.err) == (0, "", "wrote 2 files into mixes\n")
    assert {file.name: read_instance(file) for file in (tmp_path / "mixes").iterdir()} == {
        f"igniter-mix-4-s{seed}.json": generate("igniter-mix", 4, seed) for seed in (0, 2)
    }
    call("generate", "igniter-mix", "--size", "4", "--seed", "0,2", "--name", "mine", "-o", "named")
    assert {file.name for file in (tmp_path / "named").iterdir()} == {"mine-s0.json", "mine-s2.json"}


@pytest.mark.parametrize(
    ("seeds", "problem"),
    [
        ("0,1", "error: --output: is missing; expected a folder for the files of 2 seeds\n"),
        ("-1", 'error: --seed: "-1" is not a seed; expected whole numbers such as 0,1,2\n'),
    ],
)
def test_generate_refuses_seeds_in_one_line(call: Call, seeds: str, problem: str) -> None:
    done = call("generate", "igniter-mix", "--size", "4", "--seed", seeds)
    assert (done.code, done.out, done.err) == (2, "", problem)


def test_generate_lists_its_families(call: Call) -> None:
    families = [*FAMILIES, POOL_MIX]
    assert [entry["name"] for entry in json.loads(call("generate", "--list", "--format", "json").out)] == families
    lines = call("generate", "--list").out.splitlines()
    assert [name for name in families if sum(line.startswith(f"{name} ") for line in lines) != 1] == []


def test_generate_draws_mixes_for_pools_of_several_types(call: Call, tmp_path: Path) -> None:
    options = ("--pool", "v100:9,t4", "--slo", "tight", "--rates", "zipf", "--models", "ssd,vgg19", "--seed", "3")
    terms = ("--performance-model", "inss", "--slo-rule", "assembly", "--name", "two")
    assert call("generate", "pool-mix", "--size", "12", *options, *terms, "-o", "two.json").code == 0
    drawn = pool_mix(
        *(12, 3, "v100:9,t4"),
        slo="tight",
        rates="zipf",
        models=["ssd", "vgg19"],
        performance_model="inss",
        slo_rule=SloRule.ASSEMBLY,
        name="two",
    )
    assert read_instance(tmp_path / "two.json") == drawn


def test_generate_writes_instances_under_attainment(capsys: pytest.CaptureFixture[str]) -> None:
    rule = ["--slo-rule", "attainment"]
    assert main(["generate", "igniter-mix", "--size", "2", *rule, "--attainment", "0.95", "--arrivals", "gamma:2"]) == 0
    made = json.loads(capsys.readouterr().out)
    terms = ("name", "slo_rule", "attainment", "arrivals")
    assert [made[term] for term in terms] == ["igniter-mix-2-s0-attainment", "attainment", 0.95, "gamma:2"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--arrivals", "poisson"], "--arrivals: is a term of the rule attainment; add --slo-rule attainment"),
        (["--slo-rule", "half"], '--slo-rule: unknown SLO rule "half"; did you mean "half-slo"?'),
        (["--slo-rule", "attainment", "--attainment", "2"], "attainment: is 2; expected a number from 0.5 to 0.9999"),
    ],
)
def test_generate_refuses_wrong_rules_in_one_line(
    options: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["generate", "igniter-mix", "--size", "2", *options]) == 2
    shown = capsys.readouterr().err
    assert problem in shown
    assert shown.count("\n") == 1
