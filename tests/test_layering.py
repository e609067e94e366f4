"""The floors of the tree: who may import whom, what nothing may be called, and what a bare import must not load."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("instances", "bench", "formulations", "heuristics", "rl", "reports")
SCHEDULERS = ("formulations", "heuristics", "rl")
BENCH = (
    ("api", "certificate", "command_text", "extras", "provenance", "then", "judging", "simulation"),
    ("ledger", "plan_simulation", "schedulers", "slack"),
    ("holding",),
    ("evaluation", "formatting", "scenarios", "selection"),
    ("task", "online", "library"),
    ("max_rate",),
    ("runner",),
    ("planning",),
    ("fleet",),
    ("deploy",),
    ("conformance", "replay", "session"),
    ("doctor",),
    ("cli",),
)
CLI = (
    ("completion", "files", "option_names", "options", "terminal"),
    ("fields", "lazy"),
    ("experiment", "views"),
    ("plan_answer", "running"),
    ("commands",),
    ("app",),
)
HOUSES = {"bench": BENCH, "bench.cli": CLI}
"""The floors inside these packages, the lowest first."""

FILES = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))


@dataclass(frozen=True)
class Import:
    """Import of one of our modules."""

    module: str
    line: int

    @property
    def folder(self) -> str:
        return self.module.partition(".")[0]


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, root: Path = ROOT) -> list[Import]:
    """Every import of ours in the file, whether by statement or by a name handed to ``import_module``."""
    found = list(_imports(ast.parse(path.read_text(encoding="utf-8")), path, root))
    return [each for each in found if each.folder in FOLDERS]


def _imports(node: ast.AST, path: Path, root: Path) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            yield from (Import(alias.name, child.lineno) for alias in child.names)
        elif isinstance(child, ast.ImportFrom):
            base = child.module or ""
            if child.level:
                package = module_name(path.parent / "__init__.py", root).split(".")
                base = ".".join([*package[: len(package) - child.level + 1], *base.split(".")]).rstrip(".")
            for alias in child.names:  # `from bench import api` names a module as much as `import bench.api`
                inner = root.joinpath(*base.split("."), alias.name)
                is_module = inner.is_dir() or inner.with_suffix(".py").is_file()
                yield Import(f"{base}.{alias.name}" if is_module else base, child.lineno)
        elif (
            isinstance(child, ast.Call)
            and ast.unparse(child.func).split(".")[-1] in ("import_module", "__import__")
            and child.args
            and isinstance(child.args[0], ast.Constant)
        ):
            yield Import(str(child.args[0].value), child.lineno)
        yield from _imports(child, path, root)


def forbidden(path: Path, each: Import, root: Path = ROOT) -> str | None:
    """Reason why the file must not import this, or None."""
    place = path.relative_to(root)
    folder, target = place.parts[0], each.folder
    if target == folder and place != Path("bench/api.py"):
        return None
    if folder == "instances":
        return "instances imports nothing of ours"
    if place == Path("bench/api.py"):
        return None if target == "instances" else "bench/api is a leaf: it imports only instances"
    if target == "instances":
        return None
    if folder in SCHEDULERS:
        return (
            None if each.module == "bench.api" else "a scheduler imports only instances, bench.api and its own folder"
        )
    if folder == "bench" and target in SCHEDULERS:
        return "bench loads schedulers by name"
    if folder == "bench":
        in_cli = place.parts[1] in ("cli", "cli.py")
        return None if in_cli else "only bench/cli imports reports"
    return None  # reports is the top floor


def test_a_file_imports_only_from_its_folder_or_a_lower_floor() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{each.line}: {each.module}: {why}"
        for path in FILES
        for each in imports(path)
        if (why := forbidden(path, each))
    ]

    assert found == []


def test_the_checker_of_certificates_imports_instances_alone() -> None:
    others = {
        each.module
        for path in (ROOT / "bench" / "certificate").rglob("*.py")
        for each in imports(path)
        if each.folder != "instances" and not each.module.startswith("bench.certificate")
    }

    assert others == set()


def room_of(module: str, house: str) -> str:
    """The room of a house that a module of it lies in."""
    return module.removeprefix(f"{house}.").split(".")[0]


def floor_of(room: str, house: str) -> int:
    (floor,) = (number for number, rooms in enumerate(HOUSES[house]) if room in rooms)
    return floor


@pytest.mark.parametrize("house", HOUSES)
def test_inside_a_house_imports_go_down(house: str) -> None:
    found = []
    for path in FILES:
        module = module_name(path, ROOT)
        if module == house or not module.startswith(f"{house}."):
            continue
        room = room_of(module, house)
        others = [i for i in imports(path) if i.module.startswith(f"{house}.") and room_of(i.module, house) != room]
        found += [
            f"{path.relative_to(ROOT)}:{i.line}: {i.module}"
            for i in others
            if floor_of(room_of(i.module, house), house) >= floor_of(room, house)
        ]

    assert found == []


@pytest.mark.parametrize("house", HOUSES)
def test_every_room_has_a_floor(house: str) -> None:
    modules = {module_name(path, ROOT) for path in FILES} - set(HOUSES)
    assert {room_of(module, house) for module in modules if module.startswith(f"{house}.")} == {
        room for rooms in HOUSES[house] for room in rooms
    }


def test_no_command_imports_another() -> None:
    """Code that two commands share lies below them; ``bench profile`` is one command with subcommands."""
    commands = [path for path in FILES if "commands" in path.parts]
    found = [
        f"{path.name}:{each.line}: {each.module}"
        for path in commands
        for each in imports(path)
        if each.module.startswith("bench.cli.commands.") and path.parent.name != "profile"
    ]

    assert len(commands) > 20
    assert found == []


def test_reports_do_not_know_the_command_line() -> None:
    found = [
        f"{path.name}:{each.line}: {each.module}"
        for path in FILES
        for each in imports(path)
        if "reports" in path.parts and each.module.startswith("bench.cli")
    ]

    assert found == []


def test_the_tree_is_there() -> None:
    assert {path.relative_to(ROOT).parts[0] for path in FILES} == set(FOLDERS)


RULES = (
    ("instances/a.py", "from instances.plan import Plan", True),
    ("instances/a.py", "from bench.api import Run", False),
    ("instances/a.py", "def f():\n    import heuristics.igniter.igniter", False),
    ("instances/sub/a.py", "from .. import plan", True),
    ("bench/api.py", "from instances import Plan", True),
    ("bench/api.py", "from bench.judging.judge import judge", False),
    ("heuristics/a.py", "from bench.api import Run", True),
    ("heuristics/a.py", "from bench import api", True),
    ("heuristics/a.py", "import bench.judging.judge", False),
    ("heuristics/a.py", "from bench import judging", False),
    ("heuristics/a.py", "from heuristics.packing import pack_pools", True),
    ("heuristics/a.py", "from formulations.colgen import ColGen", False),
    ("rl/a.py", "def f():\n    from heuristics import igniter", False),
    ("bench/a.py", "from instances import Plan\nfrom bench.judging.judge import judge", True),
    ("bench/a.py", "from heuristics.igniter.igniter import IGniter", False),
    ("bench/a.py", "import importlib\nimportlib.import_module('rl.train')", False),
    ("bench/a.py", "def f():\n    import reports.html", False),
    ("bench/cli.py", "def f():\n    import reports.html", True),
    ("bench/cli/report.py", "def f():\n    import reports.html", True),
    ("bench/cli/report.py", "import reports.html", True),
    ("reports/a.py", "from bench.ledger.store import Ledger\nimport instances", True),
    ("reports/a.py", "import numpy, matplotlib.pyplot", True),
)
"""Files, their text, and whether the rules allow it."""


def test_the_rules(tmp_path: Path) -> None:
    wrong = []
    for number, (name, text, allowed) in enumerate(RULES):
        root = tmp_path / str(number)
        path = root / name
        for module in ("bench/api.py", "bench/judging/judge.py", name):
            (root / module).parent.mkdir(parents=True, exist_ok=True)
            (root / module).touch()
        path.write_text(text)
        if any(forbidden(path, each, root) for each in imports(path, root)) == allowed:
            wrong.append((name, text))

    assert wrong == []


def test_nothing_is_called_utils_common_helpers_or_core() -> None:
    """A thing lives with the concept it serves."""
    found = [
        path.relative_to(ROOT).as_posix()
        for folder in (*FOLDERS, "tests")
        for path in (ROOT / folder).rglob("*")
        if path.stem.lower().strip("_") in ("util", "utils", "common", "helper", "helpers", "core")
        and "__pycache__" not in path.parts
    ]

    assert found == []


def test_pydantic_stays_where_untrusted_input_is_read() -> None:
    users = {
        path.relative_to(ROOT).parts[:2]
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("pydantic", "pydantic_core"))
        or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "pydantic" for alias in node.names))
    }

    assert users == {("instances", "files"), ("bench", "certificate"), ("bench", "ledger"), ("bench", "runner")}


HEAVY = ("numba", "scipy", "pydantic", "torch", "ortools", "highspy", "pyomo", "matplotlib", "pandas")


def loaded_by(module: str) -> list[str]:
    """Top-level modules in a fresh interpreter that has imported ``module`` and nothing else."""
    program = f"import json, sys, {module}\nprint(json.dumps(sorted(n for n in sys.modules if '.' not in n)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout)
    return names


@pytest.mark.parametrize("module", ["instances", "bench.api", "bench.cli", "bench.schedulers.registry"])
def test_a_bare_import_loads_nothing_heavy(module: str) -> None:
    assert sorted(set(loaded_by(module)) & set(HEAVY)) == []


def test_reading_instances_needs_no_compiler() -> None:
    loaded = loaded_by("instances.files")

    assert "pydantic" in loaded
    assert sorted(set(loaded) & {*HEAVY} - {"pydantic"}) == []


def test_no_two_classes_share_a_name() -> None:
    places: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_module_docstrings_open_with_a_noun() -> None:
    riddles = ("what", "how", "who", "where", "which", "when", "from", "why")
    opened = {path: ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "" for path in FILES}
    assert [path.name for path, text in opened.items() if text.split(maxsplit=1)[:1] == []] == []
    assert [path.name for path, text in opened.items() if text.split(maxsplit=1)[0].lower() in riddles] == []


def test_few_imports_stand_in_functions() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{inner.lineno}"
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    assert len(found) < 60, sorted(found)
