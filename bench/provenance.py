"""Provenance of a row: versions, CPU, load and commit.

Rows are meant for publication, so they have no host names, user names or paths.
"""

import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

from bench.code_version import distribution_version, solver_versions
from bench.ledger.row import JsonObject
from bench.task import Task


def provenance(task: Task, load_average: float | None) -> JsonObject:
    """Return the provenance of a run of ``task`` that started at the one-minute load ``load_average``."""
    return {
        "schedulers": [
            {"name": stage.name, "distribution": stage.distribution or None, "version": stage.version or None}
            for stage in task.stages
        ],
        "code": task.code_hash,
        **_host(),
        "load_average": load_average,
    }


def load_average() -> float | None:
    """Return the host's load of the last minute, or ``None`` if the system does not report it."""
    try:
        return os.getloadavg()[0]
    except OSError:
        return None


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


@cache
def _host() -> dict[str, object]:
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
    """Return the commit of the checkout of this code, and whether files differ from it."""
    checkout = Path(__file__).parents[1]
    git = shutil.which("git")
    if git is None or not (checkout / ".git").exists():
        return {"commit": None, "dirty": None}

    def ask(*arguments: str) -> str | None:
        # Without a lock, so that a concurrent commit is not disturbed.
        command = [git, "--no-optional-locks", "-C", str(checkout), *arguments]
        answer = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, text=True, check=False)  # noqa: S603
        return answer.stdout.strip() if answer.returncode == 0 else None

    changes = ask("status", "--porcelain")
    return {"commit": ask("rev-parse", "HEAD"), "dirty": None if changes is None else bool(changes)}
