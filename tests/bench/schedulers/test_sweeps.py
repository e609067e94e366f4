"""Several values for a parameter: the runs of such a sweep, and the labels that distinguish them."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import ClassVar

import pytest

from bench.ledger.labels import labels
from bench.planning import Limits, RunOrder, plan_orders, plan_tasks
from bench.runner.inspection import SchedulerInfo, inspect_variants
from bench.schedulers.parameters import MOST_VARIANTS, describe_parameters, instantiate, variants
from bench.schedulers.registry import Entry
from instances import InputError, Instance

LIMITS = Limits(5.0, 8.0, 1)


def test_variants_are_the_cross_product_without_repetition() -> None:
    assert variants({"a": "1, 2,1", "b": "x"}, "s") == [{"a": "1", "b": "x"}, {"a": "2", "b": "x"}]
    assert len(variants({"a": "1,2", "b": "1,2,3"}, "s")) == 6


def test_no_overrides_are_one_variant_and_an_empty_text_is_a_value() -> None:
    assert variants({}, "s") == [{}]
    assert variants({"limit": ""}, "s") == [{"limit": ""}]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"a": "1,,2"}, "parameters s.a=1,,2: has an empty value"),
        ({"a": "1,"}, "has an empty value"),
        ({f"p{n}": "1,2,3,4,5,6,7,8,9,10" for n in range(20)}, f"{MOST_VARIANTS} or fewer"),
    ],
)
def test_wrong_sweeps_are_refused(overrides: dict[str, str], message: str) -> None:
    with pytest.raises(InputError) as refused:
        variants(overrides, "s")
    assert message in str(refused.value)


def test_every_stage_is_swept(instance: Instance) -> None:
    parameters = ["igniter.spend_spare=yes,no", "local-search.rounds=1,2,3"]
    tasks, _ = plan_tasks(RunOrder([instance], ["igniter", "local-search@igniter"], parameters, [0, 1], LIMITS))
    assert len(tasks) == (2 + 2 * 3) * 2
    assert len({task.key for task in tasks}) == len(tasks)
    names = labels(tasks)
    assert names[tasks[0].key] == "igniter[spend_spare=true]"
    assert names[tasks[-1].key] == "local-search[rounds=3]@igniter[spend_spare=false]"


def test_several_orders_have_the_tasks_of_each_alone_and_one_inspection(
    instance: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders = [
        RunOrder([instance], ["igniter", "local-search"], ["local-search.rounds=1,2"], [0], LIMITS),
        RunOrder([instance], ["local-search@igniter"], ["local-search.rounds=2"], [0, 1], LIMITS),
        RunOrder([instance], ["igniter"], [], [3], LIMITS),
    ]
    planned_one_by_one = [plan_tasks(order) for order in orders]
    inspections: list[list[str]] = []

    def counted(asked: Sequence[tuple[Entry, Mapping[str, str]]]) -> list[SchedulerInfo]:
        inspections.append([entry.name for entry, _ in asked])
        return inspect_variants(asked)

    monkeypatch.setattr("bench.planning.inspect_variants", counted)
    assert plan_orders(orders) == planned_one_by_one
    assert inspections == [["igniter", "local-search", "local-search"]]


def test_a_mistyped_value_is_found_before_anything_runs(instance: Instance) -> None:
    with pytest.raises(InputError, match='rounds=many: "many" is not a whole number'):
        plan_tasks(RunOrder([instance], ["local-search"], ["local-search.rounds=1,many"], [0], LIMITS))


def run(key: str, scheduler: str, **parameters: object) -> SimpleNamespace:
    return SimpleNamespace(key=key, scheduler=scheduler, parameters={scheduler: parameters})


def test_labels_have_the_parameters_that_differ_among_runs_of_a_scheduler() -> None:
    runs = [run("1", "a", x=1, y=True), run("2", "a", x=None, y=True), run("3", "b", x=3, y=False)]
    assert labels(runs) == {"1": "a[x=1]", "2": "a[x=null]", "3": "b"}


def test_the_label_of_a_run_without_a_parameter_does_not_name_it() -> None:
    """The scheduler could not be loaded, or its version lacks the parameter."""
    assert labels([run("1", "a", x=1), run("2", "a", x=2), run("3", "a")]) == {"1": "a[x=1]", "2": "a[x=2]", "3": "a"}


def test_the_command_line_runs_a_sweep(
    tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from bench.cli.app import main

    monkeypatch.chdir(str(tmp_path))
    line = "run --instances igniter-3 --schedulers igniter,random --param random.draws=1,2 --simulate off"
    assert main(line.split()) == 0
    shown = capsys.readouterr().out
    assert [name in shown for name in (" igniter ", "random[draws=1]", "random[draws=2]")] == [True] * 3
    assert main([*line.split(), "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["parameters"].get("random") for row in rows] == [None, {"draws": 1}, {"draws": 2}]


@dataclass(frozen=True)
class WithFile:
    """Scheduler class with a file as its parameter."""

    name: ClassVar[str] = "reads"
    policy: Path | None = None


def test_the_value_of_a_file_parameter_has_a_hash_of_its_content(tmp_path: Path) -> None:
    file = tmp_path / "a#b.pt"
    values = []
    for content in (b"one", b"two"):
        file.write_bytes(content)
        (parameter,) = describe_parameters(WithFile, instantiate(WithFile, {"policy": str(file)}, "reads"))
        values.append(str(parameter.value))
    assert values[0] != values[1]
    assert all(value.startswith(f"{file}#") for value in values)
    assert instantiate(WithFile, {"policy": values[1]}, "reads") == WithFile(file)
    with pytest.raises(InputError, match="has changed since: its SHA-256 begins with "):
        instantiate(WithFile, {"policy": values[0]}, "reads")


@pytest.mark.parametrize("name", ["missing.pt", "missing.pt#00", "a\0b", "x" * 5000])
def test_a_missing_file_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="there is no file"):
        instantiate(WithFile, {"policy": name}, "reads")


def test_the_content_of_a_file_parameter_is_part_of_the_key(instance: Instance, tmp_path: Path) -> None:
    keys = []
    for content in (b"one", b"two", b"one"):
        (tmp_path / "policy.pt").write_bytes(content)
        order = RunOrder([instance], ["ts"], [f"ts.policy={tmp_path / 'policy.pt'}"], [0], LIMITS)
        ((task,), _) = plan_tasks(order)
        keys.append(task.key)
        (stage,) = task.stages  # with the hash of the content, which the worker checks
        assert stage.overrides["policy"] == stage.parameters["policy"] != str(tmp_path / "policy.pt")
    assert keys[0] == keys[2] != keys[1]
