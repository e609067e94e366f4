"""Table of tolerances in docs/metrics.md: its numbers are those of the code, and no small tolerance is missing."""

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
"""Largest value of a tolerance that the table must state; larger ones only guide a search and decide nothing."""


def value_at(path: str) -> Any:
    """Return the object at a dotted path, such as an attribute of a class in a module."""
    parts = path.split(".")
    for length in range(len(parts) - 1, 0, -1):
        try:
            value: Any = import_module(".".join(parts[:length]))
        except ModuleNotFoundError:
            continue
        for part in parts[length:]:
            value = getattr(value, part)
        return value
    raise AssertionError(path)


def constants() -> list[str]:
    """Return the paths of the modules' small constants whose names match ``NAMES``."""
    paths = []
    for package in ("instances", "bench", "formulations", "heuristics", "reports"):
        for file in sorted((ROOT / package).rglob("*.py")):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                targets = node.targets if isinstance(node, ast.Assign) else []
                names = [node for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)]
                for name in names:
                    if NAMES.search(name.id):
                        path = ".".join([*file.relative_to(ROOT).with_suffix("").parts, name.id])
                        value = value_at(path)
                        if isinstance(value, int | float) and 0 < value <= SMALL:
                            paths.append(path)
    return paths


def test_the_table_states_the_constants() -> None:
    assert {name: float(value_at(name)) for name, _ in ROWS} == {
        name: pytest.approx(value, rel=1e-12) for name, value in ROWS
    }


def test_no_tolerance_is_missing() -> None:
    assert set(constants()) <= {name for name, _ in ROWS}
    assert len(ROWS) == SECTION.count("\n|") - 2
