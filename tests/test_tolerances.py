"""The table of tolerances in docs/metrics.md: its numbers are those of the code, and no small tolerance is missing."""

import ast
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\| (.+) \| ([0-9.e-]+) \| `([\w.]+)` \|$", re.MULTILINE)
SECTION = (ROOT / "docs/metrics.md").read_text(encoding="utf-8").split("\n## Tolerances\n")[1].split("\n## ")[0]
ROWS = [(name, float(value)) for _, value, name in ROW.findall(SECTION)]
NAMES = re.compile(r"TOLERANCE|MARGIN|AGREEMENT|CUSHION|SLACK|ROOM")
SMALL = 1e-5
"""Larger ones guide a search; they decide nothing."""


def at(path: str) -> Any:
    """Return the object at a dotted path, the longest part of which that can be imported is a module."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            found: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise AssertionError(path)


def constants() -> list[str]:
    """Return the modules' constants that are called a tolerance and are small."""
    found = []
    for package in ("instances", "bench", "formulations", "heuristics", "reports"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                for target in (each for whole in targets for each in ast.walk(whole) if isinstance(each, ast.Name)):
                    if NAMES.search(target.id):
                        path = ".".join([*file.relative_to(ROOT).with_suffix("").parts, target.id])
                        value = at(path)
                        if isinstance(value, int | float) and 0 < value <= SMALL:
                            found.append(path)
    return found


def test_the_table_states_the_constants() -> None:
    assert {name: float(at(name)) for name, _ in ROWS} == {
        name: pytest.approx(value, rel=1e-12) for name, value in ROWS
    }


def test_no_tolerance_is_missing() -> None:
    assert set(constants()) <= {name for name, _ in ROWS}
    assert len(ROWS) == SECTION.count("\n|") - 2
