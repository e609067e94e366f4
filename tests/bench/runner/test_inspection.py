import sys
from pathlib import Path

import pytest

from bench.runner.inspection import inspect_schedulers
from bench.schedulers.registry import Entry
from instances import InputError, Objective


def rogue(name: str) -> Entry:
    return Entry(name.lower(), f"rogue_schedulers:{name}", "rogues", "1.0")


def test_schedulers_describe_themselves_outside_the_bench() -> None:
    sys.modules.pop("rogue_schedulers", None)
    (info,) = inspect_schedulers([rogue("Honest")], {"honest": {"units": "7"}}).values()
    assert "rogue_schedulers" not in sys.modules
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
    assert (stage.overrides, stage.distribution, stage.version) == ({"units": "7"}, "rogues", "1.0")


def test_broken_plugins_leave_the_others_working(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plugin_that_raises.py").write_text("raise RuntimeError('half\\ninstalled')\n")
    (tmp_path / "plugin_that_exits.py").write_text("import os\nprint('so long', flush=True)\nos._exit(4)\n")
    (tmp_path / "plugin_that_hangs.py").write_text("import signal\nwhile True: signal.pause()\n")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    broken = [Entry(kind, f"plugin_that_{kind}:X") for kind in ("raises", "exits", "hangs", "is_absent")]
    listed = [broken[0], broken[1], rogue("Honest"), broken[2], broken[3], rogue("Needy"), rogue("Raiser")]
    found = inspect_schedulers(listed, import_limit_s=3.0)
    assert list(found) == [entry.name for entry in listed]
    assert found["raises"].error == "RuntimeError: half installed"
    assert "ended the process: so long" in found["exits"].error
    assert "takes more than 3 s" in found["hangs"].error
    assert "No module named 'plugin_that_is_absent'" in found["is_absent"].error
    assert "size" in found["needy"].error
    assert found["needy"].objectives == {Objective.COST}
    assert found["honest"].error == found["raiser"].error == ""


def test_parameters_that_do_not_suit_are_the_callers_mistake() -> None:
    with pytest.raises(InputError, match="did you mean"):
        inspect_schedulers([rogue("Raiser"), rogue("Honest")], {"honest": {"unit": "7"}})
