"""Provenance of a row: hashes of sources, versions of solvers, CPU, load and commit.

Rows are meant for publication, so they have no host names, user names or paths.
"""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from hashlib import file_digest, sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

OWN_PACKAGES = ("bench", "instances")
"""Packages that run with every scheduler."""

SOLVERS = ("highspy", "numba", "numpy", "ortools", "pyomo", "pyscipopt", "scipy", "torch")
"""Distributions whose version can affect a plan."""

MEMORY = Path("/proc/meminfo")


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
        digest.update(f"{name}={file_hash(file)};".encode())
    return digest.hexdigest()


def file_hash(path: Path) -> str:
    """Return the SHA-256 of a file."""
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()


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
            relative = file.relative_to(folder)
            # Caches and hidden files of editors change although the code does not.
            if file.is_file() and not any(part == "__pycache__" or part.startswith(".") for part in relative.parts):
                yield relative.as_posix(), file


def load_average() -> float | None:
    """Return the host's load of the last minute, or ``None`` if the system does not report it."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def memory_mib() -> dict[str, float]:
    """Return the host's memory in MiB by the names of ``/proc/meminfo``; empty without this file."""
    try:
        lines = MEMORY.read_text(encoding="ascii").splitlines()
    except OSError:
        return {}
    return {name: int(size.split()[0]) / 1024.0 for name, _, size in (line.partition(":") for line in lines)}


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@cache
def host() -> dict[str, object]:
    """Return the versions, the CPU and the commit of this installation."""
    return {
        "gpushare_bench": distribution_version("gpushare-bench"),
        "python": platform.python_version(),
        "packages": dict(solver_versions()),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "cpu": _cpu_model(),
        "cores": os.cpu_count(),
        **_commit(),
    }


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _commit() -> dict[str, object]:
    """Return the commit of the checkout of this code, and whether its files have changes."""
    checkout = Path(__file__).parents[1]
    git = shutil.which("git")
    if git is None or not (checkout / ".git").exists():
        return {"commit": None, "dirty": None}

    def git_output(*arguments: str) -> str | None:
        # A lock would disturb a concurrent commit.
        command = [git, "--no-optional-locks", "-C", str(checkout), *arguments]
        process = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)  # noqa: S603
        return process.stdout.strip() if process.returncode == 0 else None

    changes = git_output("status", "--porcelain")
    return {"commit": git_output("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}
