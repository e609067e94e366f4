import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from bench.provenance import file_hash
from bench.runner.inspection import inspect_schedulers
from bench.schedulers.file_version import file_version
from bench.schedulers.parameters import describe_parameters, instantiate, parse_overrides, parse_value
from bench.schedulers.registry import Entry, entries, load, parse_spec
from bench.task import Stage, Task
from instances import InputError, Objective
from instances.suites import suite

ENTRIES = {name: Entry(name, f"somewhere:{name}") for name in ("igniter", "ts", "local-search")}


def register(folder: Path, distribution: str, *points: str) -> None:
    """Write the metadata of an installed distribution into ``folder``."""
    info = folder / f"{distribution.replace('-', '_')}-1.5.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: 1.5\n")
    (info / "entry_points.txt").write_text("\n".join(["[bench.schedulers]", *points, ""]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    return tmp_path


def test_built_in_schedulers_are_listed_with_their_distribution() -> None:
    listed = entries()
    assert listed["igniter"] == Entry(
        "igniter", "heuristics.igniter.igniter:IGniter", "gpushare-bench", listed["igniter"].version
    )
    assert list(listed) == sorted(listed)


def test_listing_imports_no_scheduler() -> None:
    script = """
import sys
import bench.schedulers.registry
assert len(bench.schedulers.registry.entries()) > 0
heavy = {"heuristics", "formulations", "rl", "torch", "ortools", "pyomo", "highspy", "scipy"}
print(sorted(heavy & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_schedulers_of_other_distributions_are_listed(site: Path) -> None:
    register(site, "their-schedulers", "theirs = their_module.deep:Outer.Inner")
    assert entries()["theirs"] == Entry("theirs", "their_module.deep:Outer.Inner", "their-schedulers", "1.5")


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ("no_colon", "InputError: no_colon: is not the location of a class; expected MODULE:CLASS"),
        ("!!:??", "InputError: !!:??: is not the location of a class; expected MODULE:CLASS"),
        ("toy_schedulers : Honest [extra]", ""),
    ],
)
def test_a_wrong_entry_point_affects_only_its_scheduler(site: Path, value: str, error: str) -> None:
    register(site, "their-schedulers", f"theirs = {value}")
    info_of = inspect_schedulers([entries()["theirs"], entries()["igniter"]])
    assert (info_of["theirs"].error, info_of["igniter"].error) == (error, "")


def test_a_name_with_reserved_characters_is_reported(site: Path) -> None:
    register(site, "their-schedulers", "one@two = toy_schedulers:Honest")
    (info,) = inspect_schedulers([entries()["one@two"]]).values()
    assert "which the command line reserves" in info.error


def test_the_error_of_a_name_registered_twice_has_both_distributions(site: Path) -> None:
    register(site, "one-dist", "same = one:A")
    register(site, "other-dist", "same = other:B")
    registered = entries()
    with pytest.raises(InputError) as refused:
        parse_spec("same", registered)
    assert "one-dist 1.5 (one:A)" in str(refused.value)
    assert "other-dist 1.5 (other:B)" in str(refused.value)
    info_of = inspect_schedulers([registered["same"], registered["igniter"]])
    assert info_of["same"].error == registered["same"].problem
    assert info_of["igniter"].error == ""


def test_a_spec_lists_the_scheduler_that_runs_first_first() -> None:
    assert [entry.name for entry in parse_spec("local-search@ts@igniter", ENTRIES)] == ["igniter", "ts", "local-search"]
    assert [entry.name for entry in parse_spec("ts", ENTRIES)] == ["ts"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("ignitr", 'unknown scheduler "ignitr"; did you mean "igniter"?'),
        ("ts@ignitr", 'did you mean "igniter"?'),
        ("ts@", '"ts@" lacks a name'),
        ("", '"" lacks a name'),
    ],
)
def test_a_wrong_spec_is_refused(spec: str, message: str) -> None:
    with pytest.raises(InputError, match=r"^schedulers: ") as refused:
        parse_spec(spec, ENTRIES)
    assert message in str(refused.value)


def test_load_returns_the_class() -> None:
    assert load("toy_schedulers:Honest").__name__ == "Honest"


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("toy_schedulers:Absent", 'has no "Absent"'),
        ("toy_schedulers:honest_plan", "is a function"),
        ("toy_schedulers:Plan", "without name, objectives, schedule"),
    ],
)
def test_load_refuses_objects_that_are_no_schedulers(target: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        load(target)
    assert message in str(refused.value)


def test_load_does_not_hide_errors_of_the_module(site: Path) -> None:
    (site / "broken_inside.py").write_text("import sys\nsys.no_such_thing\n")
    with pytest.raises(AttributeError, match="no_such_thing"):
        load("broken_inside:Anything")


def test_overrides_are_split_at_the_last_dot_and_the_first_equals_sign() -> None:
    texts = ["ts.width=4", "ts.mode=a=b.c", "igniter.width = 1", "ts.width=5"]
    assert parse_overrides(texts, list(ENTRIES)) == {"ts": {"width": "5", "mode": "a=b.c"}, "igniter": {"width": "1"}}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("width=4", "not of the form SCHEDULER.PARAMETER=VALUE"),
        ("ts.width", "not of the form"),
        (".width=3", "not of the form"),
        ("tss.width=3", 'did you mean "ts"?'),
    ],
)
def test_a_wrong_override_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError, match=r"^parameters: ") as refused:
        parse_overrides([text], list(ENTRIES))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "hint", "value"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("1e-3", float, 0.001),
        ("inf", float, float("inf")),
        ("TRUE", bool, True),
        ("off", bool, False),
        ("3", str, "3"),
        ("none", int | None, None),
        ("4", int | None, 4),
        ("none", str, "none"),
        ("2.5", int | float, 2.5),
        ("wide", Literal["wide", "deep"], "wide"),
        ("cost", Objective, Objective.COST),
    ],
)
def test_a_value_is_parsed_as_the_type_of_its_field(text: str, hint: object, value: object) -> None:
    parsed = parse_value(text, hint, "here")
    assert parsed == value
    assert type(parsed) is type(value)


@pytest.mark.parametrize(
    ("text", "hint", "message"),
    [
        ("3.5", int, 'here: "3.5" is not a whole number'),
        ("nan", float, '"nan" is not a number'),
        ("perhaps", bool, '"perhaps" is not a Boolean (true or false)'),
        ("x", int | None, '"x" is not a whole number'),
        ("x", int | float, '"x" is not of type int | float'),
        ("wid", Literal["wide", "deep"], 'did you mean "wide"?'),
        ("1,2", tuple[int, ...], "cannot be set from the command line"),
    ],
)
def test_a_value_of_another_type_is_refused(text: str, hint: object, message: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_value(text, hint, "here")
    assert message in str(refused.value)


def test_a_scheduler_is_created_with_its_parameters() -> None:
    scheduler = instantiate(load("toy_schedulers:Honest"), {"units": "7", "quick": "yes", "scale": "0.5"}, "honest")
    assert (scheduler.units, scheduler.quick, scheduler.scale, scheduler.mode) == (7, True, 0.5, "plain")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("target", "overrides", "message"),
    [
        ("Honest", {"unit": "7"}, 'parameters honest.unit: unknown parameter "unit"; did you mean "units"?'),
        ("Honest", {"units": "many"}, 'parameters honest.units=many: "many" is not a whole number'),
        ("Honest", {"units": "0"}, "parameters honest: units=0: units is 0; expected at least 1"),
        ("Needy", {}, "parameters honest.size: honest needs a value for it"),
    ],
)
def test_wrong_parameters_are_refused(target: str, overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        instantiate(load(f"toy_schedulers:{target}"), overrides, "honest")
    assert message in str(refused.value)


@dataclass(frozen=True)
class Wide:
    limit: float = float("inf")
    shares: tuple[int, ...] = (4, 8)
    objective: Objective = Objective.COST


def test_parameters_are_described_as_json() -> None:
    described = describe_parameters(Wide, Wide())  # type: ignore[arg-type]
    assert [(p.name, p.value) for p in described] == [("limit", "inf"), ("shares", [4, 8]), ("objective", "cost")]


SCHEDULER = """
from dataclasses import dataclass
from bench.api import Outcome, Status
from instances import Objective

@dataclass(frozen=True)
class Nothing:
    name = "nothing"
    objectives = frozenset({Objective.COST})
    patience: int = 3

    def schedule(self, instance, run):
        return Outcome(Status.UNKNOWN, None)
"""


def test_a_class_in_a_file_can_be_a_scheduler(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SCHEDULER)
    (entry,) = parse_spec(f"{file}:Nothing", entries())
    assert (entry.name, entry.target, entry.distribution) == ("Nothing", f"{file}:Nothing", "file")
    assert load(entry.target, entry.version).name == "nothing"
    (info,) = inspect_schedulers([entry], {"Nothing": {"patience": "5"}}).values()
    assert info.error == ""
    assert [parameter.value for parameter in info.parameters] == [5]
    file.write_text(SCHEDULER + "# changed\n")
    (changed,) = parse_spec(f"{file}:Nothing", entries())
    assert changed.version != entry.version
    with pytest.raises(InputError, match="has changed since"):
        load(entry.target, entry.version)


@pytest.mark.parametrize("helper", ["helper.py", "helper/__init__.py", "helper/deeper.py"])
def test_a_file_may_import_modules_beside_it_and_their_change_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, helper: str
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    file, module = tmp_path / "mine.py", tmp_path / helper
    module.parent.mkdir(exist_ok=True)
    if "/" in helper:
        (module.parent / "__init__.py").touch()
    module.write_text("")
    file.write_text(f"import helper\nimport json, numpy\n{SCHEDULER}")
    (entry,) = parse_spec(f"{file}:Nothing", entries())
    (info,) = inspect_schedulers([entry], {}).values()
    assert info.error == ""
    module.write_text("CHANGED = True\n")
    (changed,) = parse_spec(f"{file}:Nothing", entries())
    assert changed.version != entry.version
    with pytest.raises(InputError, match="a module that it imports has changed since"):
        load(entry.target, entry.version)


def test_the_version_of_a_file_alone_is_its_hash(tmp_path: Path) -> None:
    """Installed modules and those of the bench and of Python are no part of it."""
    file = tmp_path / "mine.py"
    file.write_text(f"import json\nfrom scipy import stats\nfrom bench import api\nimport nowhere\n{SCHEDULER}")
    assert file_version(file) == file_hash(file)
    file.write_text("def broken(:\n")
    assert file_version(file) == file_hash(file)


def test_a_file_without_the_named_scheduler_is_an_input_error(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(SCHEDULER)
    entries_in_file = [parse_spec(f"{file}:{name}", {})[0] for name in ("Nothng", "Outcome")]
    with pytest.raises(InputError, match='has no "Nothng"'):
        inspect_schedulers(entries_in_file[:1])
    with pytest.raises(InputError, match="is a type without"):
        inspect_schedulers(entries_in_file[1:])


def test_the_key_depends_on_the_content_of_the_file_and_not_on_its_path(tmp_path: Path) -> None:
    keys = []
    for folder, text in (("a", SCHEDULER), ("b", SCHEDULER), ("c", SCHEDULER + "#")):
        (tmp_path / folder).mkdir()
        file = tmp_path / folder / "mine.py"
        file.write_text(text)
        (entry,) = parse_spec(f"{file}:Nothing", {})
        stage = Stage(entry.name, entry.target, distribution=entry.distribution, version=entry.version)
        keys.append(Task(suite("igniter-3").build()[0], (stage,)).key)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("./none.py:Mine", 'schedulers: there is no file "./none.py"'),
        ("mine.py:", "names no class"),
        ("mine.py", '"mine.py" names no class; expected FILE.py:CLASS'),
        ("mine.py:igniter", 'a registered scheduler is called "igniter" already'),
    ],
)
def test_specs_of_files_without_a_scheduler_are_refused(
    spec: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SCHEDULER)
    with pytest.raises(InputError, match=message):
        parse_spec(spec, ENTRIES)
