"""Inspection of schedulers in another process: descriptions, broken plugins, and wrong parameters."""

import sys
import time
from multiprocessing.connection import wait

import pytest
from conftest import target

from bench.runner import inspection
from bench.runner.inspection import inspect_schedulers
from bench.schedulers.registry import Entry
from instances import InputError, Objective


def entry(name: str) -> Entry:
    return Entry(name.lower(), target(name), "toys", "1.0")


def test_schedulers_are_inspected_in_another_process() -> None:
    sys.modules.pop("toy_schedulers", None)
    (info,) = inspect_schedulers([entry("Honest")], {"honest": {"units": "7"}}).values()
    assert "toy_schedulers" not in sys.modules
    assert info.objectives == {Objective.COST}
    assert info.doc == "Returns a plan and a bound."
    assert info.error == ""
    assert [(p.name, p.type, p.value) for p in info.parameters] == [
        ("units", "int", 7),
        ("scale", "float | None", None),
        ("mode", "str", "plain"),
        ("quick", "bool", False),
    ]
    stage = info.stage
    assert stage.parameters == {"units": 7, "scale": None, "mode": "plain", "quick": False}
    assert (stage.overrides, stage.distribution, stage.version) == ({"units": "7"}, "toys", "1.0")


def test_broken_plugins_leave_the_others_working() -> None:
    names = ("ImportRaises", "ImportExits", "Honest", "ImportHangs", "Needy", "Crash")
    absent = Entry("absent", "plugin_that_is_absent:X")
    listed = [*map(entry, names), absent]
    info_of = inspect_schedulers(listed, import_limit_s=3.0)
    assert list(info_of) == [listed_entry.name for listed_entry in listed]
    assert info_of["importraises"].error == "RuntimeError: half installed"
    assert "ended the process: so long" in info_of["importexits"].error
    assert "takes more than 3 s" in info_of["importhangs"].error
    assert "No module named 'plugin_that_is_absent'" in info_of["absent"].error
    assert "size" in info_of["needy"].error
    assert info_of["needy"].objectives == {Objective.COST}
    assert info_of["honest"].error == info_of["crash"].error == ""


def test_a_scheduler_that_writes_into_the_pipe_on_import_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def late(sources: list[object], timeout_s: float) -> list[object]:
        time.sleep(0.5)  # until the answers of all schedulers have arrived
        return wait(sources, timeout_s)

    monkeypatch.setattr(inspection, "wait", late)
    names = ("Honest", "ImportAnswers", "Crash", "ImportBabbles", "Base")
    info_of = inspect_schedulers([*map(entry, names)])
    assert {name: info.error.partition(":")[0] for name, info in info_of.items()} == {
        name.lower(): "importing it disturbed the bench" if name.startswith("Import") else "" for name in names
    }


def test_unknown_parameters_are_an_input_error() -> None:
    with pytest.raises(InputError, match="did you mean"):
        inspect_schedulers([entry("Crash"), entry("Honest")], {"honest": {"unit": "7"}})
