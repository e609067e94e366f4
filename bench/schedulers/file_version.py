"""Version of a scheduler in a file: the hash of the file and of the modules of its author that it imports."""

import ast
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

from bench.provenance import OWN_PACKAGES, file_hash

_INSTALLED = ("site-packages", "dist-packages")
"""Folders of installed distributions, whose versions are no part of the version of a file."""


def file_version(path: Path) -> str:
    """Return the SHA-256 of a file or, if it imports modules of its author, of the file and these modules.

    A module belongs to the author if it lies beside the file, or elsewhere on the path but not among the installed
    distributions. Modules that such modules import count as well.
    """
    hashes: dict[Path, str] = {}
    waiting = [path]
    while waiting:
        file = waiting.pop()
        if file not in hashes:
            hashes[file] = file_hash(file)
            waiting += [found for name in _imported(file) for found in _own_files(name, path.parent)]
    if len(hashes) == 1:
        return hashes[path]
    return sha256("".join(sorted(hashes.values())).encode()).hexdigest()


def _imported(file: Path) -> set[str]:
    """Return the top-level names that a Python file imports; none if it cannot be parsed."""
    names: set[str] = set()
    with suppress(SyntaxError, ValueError):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Import):
                names |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None and node.level == 0:
                names.add(node.module.partition(".")[0])
    return names


def _own_files(name: str, folder: Path) -> Iterator[Path]:
    """Yield the files of a module or package of the author; ``folder`` is that of the scheduler's file."""
    if name in OWN_PACKAGES or name in sys.stdlib_module_names:
        return
    with suppress(ImportError, ValueError):
        spec = find_spec(name)
        if spec is not None and spec.origin is not None:
            origin = Path(spec.origin)
            if not (set(_INSTALLED) & set(origin.parts) or origin.is_relative_to(sysconfig.get_path("stdlib"))):
                yield from _files_of(origin)
            return
    for candidate in (folder / f"{name}.py", folder / name / "__init__.py"):
        if candidate.is_file():
            yield from _files_of(candidate)


def _files_of(origin: Path) -> Iterator[Path]:
    """Yield the Python files of a module, given its file, or the ``__init__.py`` of its package."""
    yield from sorted(origin.parent.rglob("*.py")) if origin.name == "__init__.py" else [origin]
