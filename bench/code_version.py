"""Hashes of the sources and versions of the solvers behind a row, found without importing them."""

from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

OWN_PACKAGES = ("bench", "instances")
"""Packages that run with every scheduler."""

SOLVERS = ("highspy", "numba", "numpy", "ortools", "pyomo", "pyscipopt", "scipy", "torch")
"""Distributions whose version can affect a plan."""


@cache
def solver_versions() -> Mapping[str, str | None]:
    """Return the installed version of each solver distribution, or ``None`` for a missing one."""
    return {name: distribution_version(name) for name in SOLVERS}


def distribution_version(name: str) -> str | None:
    """Return the installed version of a distribution, or ``None``."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def sources_hash(packages: Iterable[str]) -> str:
    """Return a SHA-256 over all files of top-level packages (or modules), including data such as checkpoints."""
    digest = sha256()
    for package in sorted(set(packages)):
        digest.update(f"{package}={_package_hash(package)};".encode())
    return digest.hexdigest()


@cache
def _package_hash(package: str) -> str:
    digest = sha256()
    for name, file in sorted(_files(package)):
        content = sha256(file.read_bytes()).hexdigest()
        digest.update(f"{name}={content};".encode())
    return digest.hexdigest()


def _files(package: str) -> Iterable[tuple[str, Path]]:
    """Yield the name within the package and the path of each file; nothing for an unknown package."""
    try:
        spec = find_spec(package)
    except (ImportError, ValueError):
        return
    if spec is None:
        return
    if spec.submodule_search_locations is None:
        if spec.origin is not None and Path(spec.origin).is_file():
            yield Path(spec.origin).name, Path(spec.origin)
        return
    for folder in map(Path, spec.submodule_search_locations):
        for file in folder.rglob("*"):
            inside = file.relative_to(folder)
            # Caches and editors' hidden files change without a change of the code.
            if file.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in inside.parts):
                yield inside.as_posix(), file
