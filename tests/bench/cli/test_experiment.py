"""Experiment files: they have the same effect as options on the command line, and their errors name the file."""

import json
from pathlib import Path
from typing import Annotated, get_args, get_origin, get_type_hints

import pytest
import typer
from conftest import Call, Called

from bench.cli.app import app
from bench.cli.commands.run import run as run_command
from bench.cli.experiment import FILES, OUTPUTS, read_experiment
from instances import InputError

EXPERIMENT = """
instances = ["igniter-3", "mine/*.json"]
schedulers = ["igniter", "random"]
seeds = [0, 1]
time-limit = 3
simulate = false
ledger = "out/ledger.sqlite"
plans = "out/plans"

[param.random]
draws = [1, 2]
"""

RUN = typer.main.get_command(app).commands["run"]  # type: ignore[attr-defined]
OPTIONS = [name[2:] for option in RUN.params for name in option.opts if name.startswith("--")]


@pytest.fixture
def call(call: Call, tmp_path: Path) -> Call:
    """Run the command line in a folder with the experiment ``study/e.toml`` and its instances."""
    (tmp_path / "study").mkdir()
    (tmp_path / "study/e.toml").write_text(EXPERIMENT)
    for name, size in (("a", 2), ("b", 3)):
        assert call(f"generate igniter-mix --size {size} -o study/mine/{name}.json").code == 0
    return call


def keys(done: Called) -> list[str]:
    assert done.code == 0, done.err
    return [row["key"] for row in json.loads(done.out)]


def test_a_file_has_the_effect_of_its_options(call: Call, tmp_path: Path) -> None:
    from_file = call("run study/e.toml --format json")
    assert len(keys(from_file)) == 3 * (1 + 2) * 2
    line = (
        "run --instances igniter-3 --instances 'study/mine/*.json' --schedulers igniter,random --seeds 0,1"
        " --time-limit 3 --simulate off --param random.draws=1,2 --ledger study/out/ledger.sqlite --format json"
    )
    from_options = call(line)
    assert keys(from_options) == keys(from_file)
    assert "18 runs, 18 already in the ledger" in from_options.err
    assert len(list((tmp_path / "study/out/plans").iterdir())) == 18
    assert not (tmp_path / "results").exists()


def test_the_command_line_overrides_the_file(call: Call, tmp_path: Path) -> None:
    done = call("run study/e.toml --schedulers igniter --seeds 7 --ledger other.sqlite smoke-cost --format json")
    (row,) = json.loads(done.out)
    assert (row["instance"], row["scheduler"], row["seed"], row["time_limit_s"]) == ("smoke-cost", "igniter", 7, 3.0)
    assert (tmp_path / "other.sqlite").exists()
    assert not (tmp_path / "study/out/ledger.sqlite").exists()


def test_every_option_is_a_key(call: Call, tmp_path: Path) -> None:
    (tmp_path / "all.toml").write_text("".join(f'{key} = "1"\n' for key in OPTIONS))
    assert set(read_experiment(tmp_path / "all.toml", OPTIONS, [])) == set(OPTIONS)
    (tmp_path / "unknown.toml").write_text("zzzzzzzz = 1")
    known = call("run unknown.toml").err.partition("known: ")[2]
    assert sorted(OPTIONS) == known.strip().split(", ")


def test_every_option_with_a_path_must_lie_in_the_folder() -> None:
    hints = get_type_hints(run_command.__wrapped__, include_extras=True)  # type: ignore[attr-defined]
    paths = set()
    for parameter, hint in hints.items():
        if get_origin(hint) is Annotated:
            value, option = get_args(hint)
            if value is Path or Path in get_args(value):
                names = {name[2:] for name in (option.default, *option.param_decls) if isinstance(name, str)}
                paths |= names or {parameter}
    assert paths == set(OUTPUTS)
    assert set(FILES) <= set(OPTIONS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("time-limt = 3", 'bad.toml: unknown key "time-limt"; did you mean "time-limit"?'),
        ("experiment = 'x'", 'bad.toml: unknown key "experiment"; known: arrivals'),
        ("help = true", 'bad.toml: unknown key "help"'),
        ('time-limit = "soon"', "bad.toml: time-limit: "),
        ("time-limit = -1", "bad.toml: time-limit: -1; expected a number of seconds greater than 0, at most 1,000,000"),
        ("threads = 0", "bad.toml: threads: "),
        ('simulate = "perhaps"', "bad.toml: simulate: 'perhaps' is not one of 'on', 'off'"),
        ('seeds = ["x"]', 'bad.toml: seeds: "x" is not a seed'),
        ("headroom = inf", "bad.toml: headroom: inf; expected a finite factor greater than 0"),
        ('arrivals = "gama"', 'bad.toml: arrivals: unknown arrival process "gama"; did you mean "gamma"?'),
        ('instances = "smok"', 'bad.toml: instances: unknown suite, instance or file "smok"; did you mean "smoke"?'),
        ('instances = "no/*.json"', 'bad.toml: instances: "no/*.json" matches no file'),
        ("instances = []", "bad.toml: instances: expected text, a number, true or false, or a list of at least one"),
        ("instances = {a = 1}", "bad.toml: instances: expected text"),
        ("seeds = 1979-05-27", "bad.toml: seeds: expected text"),
        ("seeds = [[1]]", "bad.toml: seeds: expected text"),
        ('schedulers = "ignitr"', 'bad.toml: schedulers: unknown scheduler "ignitr"; did you mean "igniter"?'),
        ("param.igniter.spend_spar = 3", 'bad.toml: param igniter.spend_spar: unknown parameter "spend_spar"'),
        ("param.ignitr.a = 3", 'bad.toml: param: unknown scheduler "ignitr"; did you mean "igniter"?'),
        ("param.igniter = 3", "bad.toml: param.igniter: is not a table"),
        ("param = 3", 'bad.toml: param: "3" is not of the form'),
        ('ledger = "../x"', 'bad.toml: ledger: "../x" lies outside the folder of the experiment'),
        ('plans = "/tmp/x"', 'bad.toml: plans: "/tmp/x" lies outside'),
        ('plans = "a\\u0000b"', "bad.toml: plans: is not a valid name of a file"),
        (f"jobs = 0x{'f' * 5000}", "bad.toml: jobs: is a number of thousands of digits"),
        (f"jobs = {'9' * 5000}", "bad.toml: is not valid TOML"),
        ("seeds = [", "bad.toml: is not valid TOML: Invalid value (at end of document)"),
        (f"seeds = {'[' * 5000}", "bad.toml: is nested too deeply"),
        ("seeds = 1\nseeds = 2", "bad.toml: is not valid TOML: Cannot overwrite a value"),
    ],
)
def test_errors_in_the_file_are_one_line_that_names_it(call: Call, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "bad.toml").write_text(text)
    done = call(f"run bad.toml{'' if text.startswith('instances') else ' igniter-3'}")
    assert (done.code, done.out) == (2, "")
    assert done.err.startswith("error: ")
    assert done.err.count("\n") == 1
    assert message in done.err
    assert not (tmp_path / "results").exists()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("run missing.toml", "missing.toml: cannot be read: No such file or directory"),
        ("run study/e.toml other.toml", "EXPERIMENT: study/e.toml and other.toml; expected one .toml file"),
        ("run study/e.toml --seeds x", '--seeds: "x" is not a seed'),
        ("run --schedulers igniter", "--instances: is missing"),
    ],
)
def test_errors_on_the_command_line_name_the_option(call: Call, line: str, message: str) -> None:
    done = call(line)
    assert done.code == 2
    assert done.err == f"error: {message}" + done.err.removeprefix(f"error: {message}")
    assert done.err.count("\n") == 1


def test_a_link_out_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "study").mkdir()
    (tmp_path / "study/out").symlink_to(tmp_path)
    (tmp_path / "study/e.toml").write_text('plans = "out/plans"')
    with pytest.raises(InputError, match="lies outside the folder"):
        read_experiment(tmp_path / "study/e.toml", ["plans"], [])
