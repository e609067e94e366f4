"""The commands that run no scheduler, and what every command says to wrong input."""

import json
import tomllib
from pathlib import Path

import pytest
from conftest import Call

from bench.cli import main
from instances import PlanClass, SloRule
from instances.catalogue import gpu_type, gpu_type_from_toml
from instances.files import instance_to_json, read_instance, schemas, write_json
from instances.generate import FAMILIES, generate
from instances.pool_mix import POOL_MIX, pool_mix
from instances.suites import SCENARIO_SUITES, SUITES
from tests.instances.light_profile import light_profile

PLAN = {
    "version": 1,
    "instance": "igniter-3",
    "gpus": [
        {
            "type": "v100",
            "gpulets": [
                {"share_units": 4, "slots": [{"workload": "W1", "batch": 4, "rate_rps": 500}]},
                {"share_units": 12, "slots": [{"workload": "W2", "batch": 8, "rate_rps": 400}]},
                {"share_units": 15, "slots": [{"workload": "W3", "batch": 6, "rate_rps": 200}]},
            ],
        }
    ],
}
"""iGniter's own plan, Table 1."""


# generate


def test_generate_writes_the_instance_that_python_draws(call: Call, tmp_path: Path) -> None:
    done = call("generate", "igniter-mix", "--size", "7", "--seed", "3", "-o", "new/mix.json")
    assert (done.code, done.out) == (0, "")
    assert read_instance(tmp_path / "new/mix.json") == generate("igniter-mix", 7, 3)


def test_generate_prints_the_same_without_a_file(call: Call, tmp_path: Path) -> None:
    arguments = ["generate", "heavy-mix", "--size", "5", "--objective", "capacity", "--gpus", "4", "--name", "mine"]
    printed = json.loads(call(*arguments).out)
    call(*arguments, "-o", "mine.json")
    assert printed == json.loads((tmp_path / "mine.json").read_text())
    assert (printed["name"], printed["throughput_of"], printed["gpus"][0]["count"]) == ("mine", "capacity", 4)


def test_generate_lists_its_families(call: Call) -> None:
    families = [*FAMILIES, POOL_MIX]
    assert [entry["name"] for entry in json.loads(call("generate", "--list", "--format", "json").out)] == families
    lines = call("generate", "--list").out.splitlines()
    assert [name for name in families if sum(line.startswith(f"{name} ") for line in lines) != 1] == []


def test_generate_draws_mixes_for_pools_of_several_types(call: Call, tmp_path: Path) -> None:
    options = ("--pool", "v100:9,t4", "--slo", "tight", "--rates", "zipf", "--models", "ssd,vgg19", "--seed", "3")
    rest = ("--performance-model", "inss", "--slo-rule", "assembly", "--name", "two")
    assert call("generate", "pool-mix", "--size", "12", *options, *rest, "-o", "two.json").code == 0
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


# schema


@pytest.mark.parametrize("kind", ["instance", "plan"])
def test_schema_prints_what_the_files_are_checked_against(call: Call, kind: str) -> None:
    assert json.loads(call("schema", kind).out) == schemas()[kind]


# verify


def test_verify_judges_the_published_plan_against_the_instance_it_names(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", PLAN)
    done = call("verify", "plan.json", "--format", "json")
    verdict = json.loads(done.out)
    assert done.code == 0
    assert verdict["feasible"] is True
    assert verdict["violations"] == []
    assert verdict["gpus_used"] == 1
    assert verdict["value"] == pytest.approx(3.06)
    assert verdict["fragments_pct"] == pytest.approx(22.5)
    assert verdict["plan_class"] == str(PlanClass.SPATIAL)


def test_verify_shows_the_plan_with_shares_and_batches(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", PLAN)
    shown = call("verify", "plan.json").out
    assert "feasible: plan for igniter-3" in shown
    assert "3.06 $/h on 1 GPU" in shown
    (line,) = (line for line in shown.splitlines() if " W3 " in line)
    assert line.split()[:5] == ["█" * 15, "37.5", "%", "W3", "vgg19"]


def infeasible() -> dict[str, object]:
    plan = json.loads(json.dumps(PLAN))
    plan["gpus"][0]["gpulets"][0]["share_units"] = 1
    return plan  # type: ignore[no-any-return]


def test_an_infeasible_plan_is_a_result_unless_strict(call: Call, tmp_path: Path) -> None:
    write_json(tmp_path / "plan.json", infeasible())
    done = call("verify", "plan.json", "--format", "json")
    verdict = json.loads(done.out)
    assert (done.code, verdict["feasible"]) == (0, False)
    assert {violation["workload"] for violation in verdict["violations"]} == {"W1"}
    assert call("verify", "plan.json", "--strict").code == 1
    assert "W1: GPU time" in call("verify", "plan.json").out


def test_verify_takes_the_instance_from_a_file_and_a_plan_that_embeds_it(call: Call, tmp_path: Path) -> None:
    call("show", "igniter-3", "-o", "three.json")
    write_json(tmp_path / "plan.json", PLAN)
    beside = call("verify", "plan.json", "three.json", "--format", "json")
    write_json(tmp_path / "alone.json", PLAN | {"instance": json.loads((tmp_path / "three.json").read_text())})
    alone = call("verify", "alone.json", "--format", "json")
    assert beside.code == alone.code == 0
    assert json.loads(beside.out) == json.loads(alone.out)


# list and show


def test_list_instances_names_every_instance_of_every_suite_once(call: Call) -> None:
    listed = {entry["name"]: entry for entry in json.loads(call("list", "instances", "--format", "json").out)}
    singles = {instance.name for suite in SUITES.values() for instance in suite.build()}
    assert set(listed) == singles | set(SCENARIO_SUITES)
    assert listed["igniter-3"]["suites"] == ["igniter-3", "smoke"]
    assert listed["64gpu-goodput"] == {
        "name": "64gpu-goodput",
        "suite": "64gpu",
        "suites": ["64gpu"],
        "objective": "goodput",
        "workloads": 160,
        "jobs": 0,
        "scenarios": None,
        "pool": "64 v100",
        "provenance": "generated: family overload-mix, 160 workloads, seed 1",
    }


@pytest.mark.parametrize("kind", ["instances", "suites", "gpus", "figures"])
def test_lists_for_people_hold_the_names_of_lists_for_programs(call: Call, kind: str) -> None:
    entries = json.loads(call("list", kind, "--format", "json").out)
    shown = call("list", kind, "--all")
    assert shown.code == 0
    assert entries
    assert all(f"{entry['name']} " in shown.out for entry in entries)


def test_figures_are_listed_with_all_that_is_known_of_them(call: Call) -> None:
    (gap,) = (
        each for each in json.loads(call("list", "figures", "--format", "json").out) if each["name"] == "exact-gap"
    )
    assert gap["command"] == "bench figures exact-gap"
    assert gap["runs"] == ["bench run --instances 64gpu --schedulers igniter,ffd++,cpsat,colgen --seeds 0"]
    shown = call("list", "figures", "exact-gap").out
    assert all(gap[key] in shown for key in ("title", "paper", "shows", "look_for", "cost", "command"))


def test_figures_that_are_not_reproducible_are_listed_with_the_reason(call: Call) -> None:
    listed = {each["name"]: each for each in json.loads(call("list", "figures", "--format", "json").out)}
    assert listed["exact-gap"]["reproducible"] is True
    assert listed["exact-gap"]["reason"] is None
    power = listed["mediator-table5"]
    assert (power["paper"], power["reproducible"], power["command"], power["runs"]) == (
        "MediatorDNN, Table V",
        False,
        None,
        [],
    )
    assert len({frozenset(each) for each in listed.values()}) == 1  # the same fields everywhere
    shown = call("list", "figures", "--all").out
    assert all(power[key] in shown for key in ("title", "paper", "reason"))


def test_show_writes_an_instance_as_a_file(call: Call, tmp_path: Path) -> None:
    assert call("show", "64gpu-pool", "-o", "pool.json").code == 0
    instance = read_instance(tmp_path / "pool.json")
    assert instance.fingerprint == SUITES["64gpu"].build()[1].fingerprint
    assert json.loads(call("show", "pool.json", "--format", "json").out)["name"] == "64gpu-pool"


def test_show_takes_text_from_files_literally(call: Call, tmp_path: Path) -> None:
    call("generate", "igniter-mix", "--size", "1", "--name", "[red]mix[/red] :smile: é", "-o", "mix.json")
    shown = call("show", "mix.json").out
    assert shown.startswith("[red]mix[/red] :smile: é: cost on any v100\n")


# profile


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


def test_profile_fit_takes_price_and_memory_from_the_catalogue_where_it_knows_the_gpu(
    call: Call, tmp_path: Path
) -> None:
    write_json(tmp_path / "v100.json", light_profile(name="V100"))
    assert call("profile", "fit", "v100.json", "-o", "v100.toml").code == 0
    gpu = gpu_type_from_toml(tomllib.loads((tmp_path / "v100.toml").read_text()), "v100.toml")
    assert (gpu.price_per_hour, gpu.memory_mib) == (gpu_type("v100").price_per_hour, gpu_type("v100").memory_mib)


# wrong input: exit code 2, one line on standard error, nothing on standard output


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of things that are wrong in one way each."""
    (tmp_path / "broken.json").write_text('{"a":')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    write_json(tmp_path / "plan.json", PLAN)
    write_json(tmp_path / "other.json", PLAN | {"instance": "nowhere"})
    write_json(tmp_path / "toy.json", light_profile())
    short = light_profile()
    short["models"]["alexnet"]["power_w[batch][share]"] = [[1.0]]  # type: ignore[index]
    write_json(tmp_path / "short.json", short)
    write_json(tmp_path / "nothing.json", light_profile(share_unit_pct=0))
    for name in ("a", "b"):
        write_json(
            tmp_path / f"twins/{name}.json", instance_to_json(generate("igniter-mix", 2, ord(name), name="twin"))
        )
    return tmp_path


WRONG = [
    ("runn", "No such command 'runn'. Did you mean 'run'?"),
    ("run", "--instances: is missing"),
    ("run --instnces smoke", '--instnces: no such option; did you mean "--instances"?'),
    ("run --instances smoke extra", "extra"),
    ("run --instances ,", "--instances: names no instance"),
    ("run --instances smok", '--instances: unknown suite, instance or file "smok"; did you mean "smoke"?'),
    ("run --instances igniter-3,64gpu-cots", 'did you mean "64gpu-cost"?'),
    ("run --instances missing.json", "missing.json: cannot be read: No such file or directory"),
    ("run --instances broken.json", "broken.json: line 1, column 6: not valid JSON"),
    ("run --instances list.json", "list.json: "),
    ("run --instances empty", 'folder "empty" contains no *.json files'),
    ("run --instances empty/*.json", '--instances: "empty/*.json" matches no file'),
    ("run --instances smoke,brok*.json", "broken.json: line 1, column 6: not valid JSON"),
    ("run --instances a\0/*", "--instances: no file can have this name"),
    ("run --instances twins", 'twins/a.json and twins/b.json are different instances called "twin"; rename one'),
    ("run --instances smoke --schedulers ignitr", '--schedulers: unknown scheduler "ignitr"; did you mean "igniter"?'),
    ("run --instances smoke --schedulers igniter@", "lacks a name"),
    ("run --instances smoke --param igniter", "--param: "),
    ("run --instances smoke --param ignitr.a=1", '--param: unknown scheduler "ignitr"; did you mean "igniter"?'),
    ("run --instances smoke --schedulers igniter --param ffd+.a=1", "is not among the schedulers of this run: igniter"),
    (
        "run --instances smoke --schedulers igniter --param igniter.spend_spar=1",
        '--param igniter.spend_spar: unknown parameter "spend_spar"; did you mean "spend_spare"?',
    ),
    (
        "run --instances smoke --schedulers igniter --param igniter.spend_spare=maybe",
        "is not a Boolean (true or false)",
    ),
    ("run --instances smoke --format xml", "--format: 'xml' is not one of 'table', 'json'"),
    (
        "run --instances smoke --time-limit -1",
        "--time-limit: -1; expected a number of seconds greater than 0",
    ),
    ("run --instances smoke --time-limit inf", "--time-limit: inf; expected a number"),
    ("run --instances smoke --time-limit soon", "--time-limit: "),
    (
        "run --instances smoke --time-limit 3e6",
        "--time-limit: 3e+06; expected a number of seconds",
    ),
    ("run --instances smoke --memory-limit 1e306", "--memory-limit: 1e+306; expected a number of GB"),
    ("run --instances smoke --threads 2000", "--threads: "),
    ("run --instances smoke --headroom -1", "--headroom: -1; expected"),
    ("run --instances smoke --error nan", "--error: nan; expected"),
    ("run --instances 4gpu --schedulers ts --param ts.policy=missing.pt", 'there is no file "missing.pt"'),
    (
        "run --instances smoke --truth igniterr",
        '--truth: unknown performance model "igniterr"; did you mean',
    ),
    ("verify other.json igniter-3", 'other.json: instance: made for "nowhere", judged against "igniter-3"'),
    ("show 0c", '"0c": is too short for the start of a key; expected at least four characters'),
    (
        "run --instances smoke --memory-limit 0",
        "--memory-limit: 0; expected a number of GB greater than 0",
    ),
    ("run --instances smoke --threads 0", "--threads: "),
    ("run --instances smoke --jobs -2", "--jobs: "),
    ("run --instances smoke --seeds 0,x", '--seeds: "x" is not a seed; expected whole numbers such as 0,1,2'),
    ("run --instances smoke --seeds -1", '--seeds: "-1" is not a seed'),
    ("run --instances smoke --ledger file/x.sqlite", "file/x.sqlite: cannot be used as a ledger"),
    ("run --instances smoke --ledger broken.json", "broken.json: is no ledger"),
    ("run --instances smoke --plans file", "--plans file: cannot be written into"),
    ("list", "is missing"),
    ("list thing", 'unknown kind "thing"'),
    ("list suites --format yaml", "--format: "),
    ("show", "results/ledger.sqlite: no such ledger; `bench run` creates one"),
    ("show 64gpu-cots", 'unknown instance or run "64gpu-cots"; did you mean "64gpu-cost"?'),
    ("show abcdef", "results/ledger.sqlite: no such ledger"),
    ("show --plan", "--plan: expected exactly one run or instance"),
    ("show 64gpu -o x.json", '"64gpu" is 4 instances'),
    ("verify", "PLAN: is missing"),
    ("verify missing.json", "missing.json: cannot be read"),
    ("verify broken.json", "broken.json: line 1, column 6"),
    ("verify plan.json igniter-12", 'made for "igniter-3", judged against "igniter-12"'),
    ("verify plan.json smoke", '"smoke" names 4 instances; name one, such as "igniter-3"'),
    ("verify other.json", 'other.json: instance: unknown suite, instance or file "nowhere"'),
    ("generate", "FAMILY: is missing; expected one of igniter-mix"),
    ("generate igniter-mx --size 3", 'unknown instance family "igniter-mx"; did you mean "igniter-mix"?'),
    ("generate igniter-mix", "--size: is missing"),
    ("generate igniter-mix --size 0", "--size: "),
    ("generate igniter-mix --size 99999999999999999999", "--size: 99999999999999999999; expected at most 100,000"),
    ("generate igniter-mix --size 3 --gpus 99999999999999", "--gpus: 99999999999999; expected at most 2,147,483,647"),
    ("generate igniter-mix --size 3 --seed -1", "--seed: "),
    ("generate igniter-mix --size 3 --objective cst", 'unknown objective "cst"; did you mean "cost"?'),
    ("generate igniter-mix --size 3 --objective goodput", "--gpus: is missing; goodput requires the size of the pool"),
    ("generate igniter-mix --size 3 -o file/x.json", "file/x.json: cannot be written"),
    ("generate igniter-mix --size 3 --rates zipf", "--rates: is an option of pool-mix, not of igniter-mix"),
    ("generate igniter-mix --size 3 --performance-model inss", "--performance-model: is an option of pool-mix, not of"),
    ("generate pool-mix --size 3 --gpus 4", "--gpus: is no option of pool-mix; expected the counts in --pool"),
    ("generate pool-mix --size 3 --pool v100:x", '--pool: "v100:x" is no pool of GPUs; expected TYPE or TYPE:COUNT'),
    ("generate pool-mix --size 3 --pool t4 --models vgg16", 'unknown model on t4 "vgg16"; did you mean "vgg19"?'),
    ("generate pool-mix --size 3 --objective scale", "--pool: has no count for v100; scale requires one, such as"),
    ("generate pool-mix --size 9 --pool v100:1,t4:1 -o x.json", "--pool: is too small for a greedy plan: "),
    ("profile fit", "PROFILE: is missing"),
    ("profile fit broken.json", "broken.json: line 1, column 6"),
    ("profile fit list.json", "list.json: gpu.name: is missing"),
    ("profile fit toy.json", "--price-per-hour: is missing"),
    ("profile fit toy.json --price-per-hour 1", "--memory-mib: is missing"),
    ("profile fit toy.json --price-per-hour -1 --memory-mib 1", "--price-per-hour: -1; expected a finite number"),
    ("profile fit short.json --price-per-hour 1 --memory-mib 1", "short.json: profile: models.alexnet: expected 9"),
    ("profile fit nothing.json --price-per-hour 1 --memory-mib 1", "nothing.json: is not a valid light profile"),
    ("profile fit toy.json --price-per-hour 1 --memory-mib 1 -o file/x.toml", "file/x.toml: cannot be written"),
    ("figures igniter-fig99", 'unknown figure "igniter-fig99"'),
    ("schema", "is missing"),
    ("schema pln", 'unknown file "pln"; did you mean "plan"?'),
]


@pytest.mark.parametrize(("line", "expected"), WRONG)
def test_wrong_input_is_one_line_and_exit_code_2(call: Call, folder: Path, line: str, expected: str) -> None:
    done = call(*line.split())
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert expected in done.err


def test_what_a_terminal_would_obey_is_escaped(call: Call) -> None:
    done = call("run", "--instances", "two\nlines \x1b[31m")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert r"two\nlines \x1b[31m" in done.err


def test_names_that_no_file_can_have_are_refused_as_well(call: Call) -> None:
    assert call("run", "--instances", "x" * 5000).code == 2
    assert call("show", "x" * 5000).code == 2


def test_bugs_are_not_taken_for_wrong_input(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("bench.cli.commands.schema.schemas", broken)
    with pytest.raises(ValueError, match="a bug"):
        call("schema", "plan")


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
