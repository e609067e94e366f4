"""``bench list``: names for people and for programs."""

import json

import pytest
from conftest import Call

from instances.suites import SCENARIO_SUITES, SUITES


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
def test_the_printed_lists_have_the_names_of_the_json_lists(call: Call, kind: str) -> None:
    entries = json.loads(call("list", kind, "--format", "json").out)
    shown = call("list", kind, "--all")
    assert shown.code == 0
    assert entries
    assert all(f"{entry['name']} " in shown.out for entry in entries)


def test_a_figure_is_listed_with_its_runs_and_texts(call: Call) -> None:
    (gap,) = (
        each for each in json.loads(call("list", "figures", "--format", "json").out) if each["name"] == "exact-gap"
    )
    assert gap["command"] == "bench figures exact-gap"
    assert gap["runs"] == ["bench run --instances 64gpu --schedulers igniter,ffd++,cpsat,colgen --seeds 0"]
    shown = call("list", "figures", "exact-gap").out
    assert all(gap[key] in shown for key in ("title", "paper", "shows", "look_for", "cost", "command"))


def test_figures_that_are_not_drawn_are_listed_with_the_reason(call: Call) -> None:
    listed = {each["name"]: each for each in json.loads(call("list", "figures", "--format", "json").out)}
    assert listed["exact-gap"]["drawn"] is True
    assert listed["exact-gap"]["reason"] is None
    table5 = listed["mediator-table5"]
    assert (table5["paper"], table5["drawn"], table5["command"], table5["runs"]) == (
        "MediatorDNN, Table V",
        False,
        None,
        [],
    )
    assert len({frozenset(each) for each in listed.values()}) == 1  # all entries have the same fields
    shown = call("list", "figures", "--all").out
    assert all(table5[key] in shown for key in ("title", "paper", "reason"))
