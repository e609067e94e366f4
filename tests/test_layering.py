"""Layers of the project: permitted imports, forbidden names, and modules that a bare import must not load."""

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
FOLDERS = ("instances", "bench", "formulations", "heuristics", "rl", "reports")
SCHEDULERS = ("formulations", "heuristics", "rl")
BENCH = (
    ("api", "certificate", "command_text", "extras", "provenance", "repacking", "then", "judging", "simulation"),
    ("ledger", "plan_simulation", "schedulers", "slack"),
    ("holding",),
    ("compile_ahead", "evaluation", "formatting", "scenarios", "selection"),
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
LAYERS = {"bench": BENCH, "bench.cli": CLI}
"""Layers inside these packages, the lowest first; each layer is a tuple of modules and packages."""

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


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file; each file is parsed once for all tests."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports(path: Path, root: Path = ROOT) -> list[Import]:
    """Return the imports of our modules in a file, by statement or by a name passed to ``import_module``."""
    all_imports = list(_imports(tree(path), path, root))
    return [imported for imported in all_imports if imported.folder in FOLDERS]


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


def forbidden(path: Path, imported: Import, root: Path = ROOT) -> str | None:
    """Return the reason why the file must not import this module, or ``None`` if it may."""
    file = path.relative_to(root)
    folder, target = file.parts[0], imported.folder
    if target == folder and file != Path("bench/api.py"):
        return None
    if folder == "instances":
        return "instances imports nothing of ours"
    if file == Path("bench/api.py"):
        return None if target == "instances" else "bench/api is a leaf: it imports only instances"
    if target == "instances":
        return None
    if folder in SCHEDULERS:
        if imported.module == "bench.api":
            return None
        return "a scheduler imports only instances, bench.api and its own folder"
    if folder == "bench" and target in SCHEDULERS:
        return "bench loads schedulers by name"
    if folder == "bench":
        is_door = file.parts[1] in ("cli", "cli.py", "__init__.py")
        return None if is_door else "only the doors import reports: bench/cli, and bench itself at the first use"
    return None  # reports is the top layer


def test_a_file_imports_only_from_its_folder_or_a_lower_layer() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{imported.line}: {imported.module}: {why}"
        for path in FILES
        for imported in imports(path)
        if (why := forbidden(path, imported))
    ]

    assert wrong == []


def test_the_checker_of_certificates_imports_only_instances() -> None:
    others = {
        imported.module
        for path in (ROOT / "bench" / "certificate").rglob("*.py")
        for imported in imports(path)
        if imported.folder != "instances" and not imported.module.startswith("bench.certificate")
    }

    assert others == set()


def part_of(module: str, package: str) -> str:
    """Return the direct submodule or subpackage of a package that contains a module."""
    return module.removeprefix(f"{package}.").split(".")[0]


def layer_of(part: str, package: str) -> int:
    """Return the number of the layer that contains a part of a package."""
    (layer,) = (number for number, parts in enumerate(LAYERS[package]) if part in parts)
    return layer


@pytest.mark.parametrize("package", LAYERS)
def test_inside_a_package_imports_go_to_lower_layers(package: str) -> None:
    wrong = []
    for path in FILES:
        module = module_name(path, ROOT)
        if module == package or not module.startswith(f"{package}."):
            continue
        part = part_of(module, package)
        inside = [imported for imported in imports(path) if imported.module.startswith(f"{package}.")]
        others = [imported for imported in inside if part_of(imported.module, package) != part]
        wrong += [
            f"{path.relative_to(ROOT)}:{imported.line}: {imported.module}"
            for imported in others
            if layer_of(part_of(imported.module, package), package) >= layer_of(part, package)
        ]

    assert wrong == []


@pytest.mark.parametrize("package", LAYERS)
def test_every_part_of_a_package_has_a_layer(package: str) -> None:
    modules = {module_name(path, ROOT) for path in FILES} - set(LAYERS)
    assert {part_of(module, package) for module in modules if module.startswith(f"{package}.")} == {
        part for parts in LAYERS[package] for part in parts
    }


def test_no_command_imports_another() -> None:
    """Code that two commands share is in a lower layer; ``bench profile`` is one command with subcommands."""
    commands = [path for path in FILES if "commands" in path.parts]
    wrong = [
        f"{path.name}:{imported.line}: {imported.module}"
        for path in commands
        for imported in imports(path)
        if imported.module.startswith("bench.cli.commands.") and path.parent.name != "profile"
    ]

    assert len(commands) > 20
    assert wrong == []


def test_reports_do_not_import_the_command_line() -> None:
    wrong = [
        f"{path.name}:{imported.line}: {imported.module}"
        for path in FILES
        for imported in imports(path)
        if "reports" in path.parts and imported.module.startswith("bench.cli")
    ]

    assert wrong == []


def test_every_folder_has_python_files() -> None:
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
    ("bench/__init__.py", "from reports.html import page", True),
    ("bench/cli/report.py", "def f():\n    import reports.html", True),
    ("bench/cli/report.py", "import reports.html", True),
    ("reports/a.py", "from bench.ledger.store import Ledger\nimport instances", True),
    ("reports/a.py", "import numpy, matplotlib.pyplot", True),
)
"""Files, their text, and whether their imports are permitted."""


def test_forbidden_imports_are_recognised(tmp_path: Path) -> None:
    wrong = []
    for number, (name, text, allowed) in enumerate(RULES):
        root = tmp_path / str(number)
        path = root / name
        for module in ("bench/api.py", "bench/judging/judge.py", name):
            (root / module).parent.mkdir(parents=True, exist_ok=True)
            (root / module).touch()
        path.write_text(text)
        if any(forbidden(path, imported, root) for imported in imports(path, root)) == allowed:
            wrong.append((name, text))

    assert wrong == []


def test_nothing_is_called_utils_common_helpers_or_core() -> None:
    """Code belongs to the concept that it serves, and that concept has a name."""
    wrong = [
        path.relative_to(ROOT).as_posix()
        for folder in (*FOLDERS, "tests")
        for path in (ROOT / folder).rglob("*")
        if path.stem.lower().strip("_") in ("util", "utils", "common", "helper", "helpers", "core")
        and "__pycache__" not in path.parts
    ]

    assert wrong == []


def test_pydantic_is_used_only_where_untrusted_input_is_read() -> None:
    users = {
        path.relative_to(ROOT).parts[:2]
        for path in FILES
        for node in ast.walk(tree(path))
        if (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in ("pydantic", "pydantic_core"))
        or (isinstance(node, ast.Import) and any(alias.name.split(".")[0] == "pydantic" for alias in node.names))
    }

    assert users == {("instances", "files"), ("bench", "certificate"), ("bench", "ledger"), ("bench", "runner")}


HEAVY = ("numba", "scipy", "pydantic", "torch", "ortools", "highspy", "pyomo", "matplotlib", "pandas")
"""Modules that take long to import."""


def loaded_by(module: str) -> list[str]:
    """Return the top-level modules that a fresh interpreter has loaded after it has imported only ``module``."""
    program = f"import json, sys, {module}\nprint(json.dumps(sorted(n for n in sys.modules if '.' not in n)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    names: list[str] = json.loads(done.stdout)
    return names


@pytest.mark.parametrize("module", ["instances", "bench.api", "bench.cli", "bench.schedulers.registry"])
def test_a_bare_import_loads_nothing_heavy(module: str) -> None:
    assert sorted(set(loaded_by(module)) & set(HEAVY)) == []


def test_importing_the_file_readers_loads_pydantic_and_nothing_else_heavy() -> None:
    loaded = loaded_by("instances.files")

    assert "pydantic" in loaded
    assert sorted(set(loaded) & {*HEAVY} - {"pydantic"}) == []


def test_no_two_classes_share_a_name() -> None:
    files_of_class: dict[str, list[str]] = {}
    for path in FILES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                files_of_class.setdefault(node.name, []).append(path.relative_to(ROOT).as_posix())
    assert {name: files for name, files in files_of_class.items() if len(files) > 1} == {}


def test_module_docstrings_open_with_a_noun() -> None:
    no_nouns = ("what", "how", "who", "where", "which", "when", "from", "why")
    docstrings = {path: ast.get_docstring(tree(path)) or "" for path in FILES}
    assert [path.name for path, text in docstrings.items() if text.split(maxsplit=1)[:1] == []] == []
    assert [path.name for path, text in docstrings.items() if text.split(maxsplit=1)[0].lower() in no_nouns] == []


def test_few_imports_are_inside_functions() -> None:
    inside_functions = {
        f"{path.relative_to(ROOT)}:{inner.lineno}"
        for path in FILES
        for node in ast.walk(tree(path))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for inner in ast.walk(node)
        if isinstance(inner, ast.Import | ast.ImportFrom)
    }
    assert len(inside_functions) < 60, sorted(inside_functions)
