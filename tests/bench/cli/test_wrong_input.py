"""Wrong input: exit code 2, one line on standard error, nothing on standard output."""

from pathlib import Path

import pytest
from conftest import Call

from instances.files import instance_to_json, write_json
from instances.generate import generate
from tests.bench.cli.conftest import PLAN
from tests.instances.light_profile import light_profile


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with a valid plan and profile, and files that are each wrong in one way."""
    (tmp_path / "broken.json").write_text('{"a":')
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "file").touch()
    (tmp_path / "empty").mkdir()
    write_json(tmp_path / "plan.json", PLAN)
    write_json(tmp_path / "instance.json", instance_to_json(generate("igniter-mix", 2, 0)))
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
    ("run --instances smoke --time-limit soon", "--time-limit: expected a plain number, without a unit; see"),
    ("run --instances smoke --timelimit 3", '--timelimit: no such option; did you mean "--time-limit"?'),
    ("run --instances plan.json", "plan.json: is a plan; expected an instance"),
    ("verify instance.json", "instance.json: is an instance; expected a plan"),
    ("library submit instance.json --by A", "instance.json: is an instance; expected a plan"),
    ("library --instance cost-t4-4 --part plan", "--part: chooses what -o writes; add -o FILE"),
    ("check list.json", "list.json: is no certificate: expected an object"),
    ("check instance.json", "instance.json: is an instance; expected a certificate"),
    ("deploy plan.json --to shell -o out --time-limit nan", "--time-limit: nan; expected a number"),
    ("library solve --check-limit 0", "--check-limit: 0; expected a number of seconds greater than 0"),
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
    ("verify other.json igniter-3", 'other.json: instance: made for "nowhere"; expected a plan for "igniter-3"'),
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
    ("list gpus zzz", 'unknown gpu "zzz"; known: a100, '),
    ("list instances zzz", 'unknown instance "zzz"; known: 4gpu, '),
    ("show", "results/ledger.sqlite: no such ledger; `bench run` creates one"),
    ("show 64gpu-cots", 'unknown instance or run "64gpu-cots"; did you mean "64gpu-cost"?'),
    ("show abcdef", "results/ledger.sqlite: no such ledger"),
    ("show --plan", "--plan: expected exactly one run or instance"),
    ("show 64gpu -o x.json", '"64gpu" is 4 instances'),
    ("verify", "PLAN: is missing"),
    ("verify missing.json", "missing.json: cannot be read"),
    ("verify broken.json", "broken.json: line 1, column 6"),
    ("verify plan.json igniter-12", 'made for "igniter-3"; expected a plan for "igniter-12"'),
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
    ("profile fit list.json", "list.json: is a list of 1; expected an object"),
    ("profile fit toy.json", "--price-per-hour: is missing"),
    ("profile fit toy.json --price-per-hour 1", "--memory-mib: is missing"),
    ("profile fit toy.json --price-per-hour -1 --memory-mib 1", "--price-per-hour: -1; expected a finite number"),
    ("profile fit short.json --price-per-hour 1 --memory-mib 1", "short.json: models.alexnet: expected 9"),
    (
        "profile fit nothing.json --price-per-hour 1 --memory-mib 1",
        "nothing.json: gpu.share_unit_pct: is 0; expected a finite number greater than 0",
    ),
    ("profile fit toy.json --price-per-hour 1 --memory-mib 1 -o file/x.toml", "file/x.toml: cannot be written"),
    ("figures igniter-fig99", 'unknown figure "igniter-fig99"'),
    ("schema", "is missing"),
    ("schema pln", 'unknown file "pln"; did you mean "plan"?'),
]


def test_wrong_input_is_one_line_and_exit_code_2(call: Call, folder: Path, subtests: pytest.Subtests) -> None:
    for line, expected in WRONG:
        with subtests.test(line):
            done = call(*line.split())
            assert (done.code, done.out) == (2, "")
            assert done.err.startswith("error: ")
            assert done.err.count("\n") == 1
            assert expected in done.err


def test_control_characters_in_errors_are_escaped(call: Call) -> None:
    done = call("run", "--instances", "two\nlines \x1b[31m")
    assert done.code == 2
    assert done.err.count("\n") == 1
    assert r"two\nlines \x1b[31m" in done.err


def test_names_that_are_too_long_for_a_file_are_refused(call: Call) -> None:
    assert call("run", "--instances", "x" * 5000).code == 2
    assert call("show", "x" * 5000).code == 2


def test_a_bug_is_exit_code_70_and_not_wrong_input(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise ValueError("a bug")

    monkeypatch.setattr("bench.cli.commands.schema.schemas", broken)
    done = call("schema", "plan")
    assert done.code == 70
    assert "ValueError: a bug" in done.err
