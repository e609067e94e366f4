"""Checks of ``bench doctor``: the installed solvers, and the machine's conditions for timing."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

from bench.command_text import option
from bench.doctor import Finding, Level, rated
from bench.doctor.cp_sat import presolve_answers
from bench.doctor.machine import control_groups, frequency, gpus, swap
from bench.doctor.solvers import installed_known_bad, nonlinear_answers
from bench.extras import EXTRAS, install_command
from bench.provenance import distribution_version, load_average, memory_mib, solver_versions, usable_cores

LOADED_TOGETHER = {"ortools": "ortools.sat.python.cp_model", "highspy": "highspy", "pyscipopt": "pyscipopt"}
"""Distributions whose native libraries may clash in one process, and the modules that load them."""

IMPORT_LIMIT_S = 60.0
"""Time limit for the import of all solvers in one process."""

MEMORY_PER_RUN_GB = 1.3
"""Peak memory of a run after its imports, before it solves an instance."""

DISK_GB = 1.0
"""Disk space for a ledger, plans, figures and compiled kernels."""

BUSY_LOAD = 0.25
"""Load per core above which other programs disturb the times."""


def known_bad_versions() -> list[Finding]:
    """Find installed versions of solvers that are known to be bad."""
    return [
        Finding(release.distribution, Level.ERROR, f"{version} {release.trouble}", f'pip install "{release.install}"')
        for release, version in installed_known_bad()
    ]


def installed_versions() -> list[Finding]:
    """List the installed solvers."""
    bad_names = {release.distribution for release, _ in installed_known_bad()}
    findings = []
    for name, version in solver_versions().items():
        if version is None and name in EXTRAS:
            found = "is not installed; only learning schedulers and replays need it"
            findings.append(Finding(name, Level.OK, found, install_command(name)))
        elif version is None:
            findings.append(Finding(name, Level.ERROR, "is not installed", 'pip install "gpushare-bench"'))
        elif name not in bad_names:
            findings.append(Finding(name, Level.OK, version))
    return findings


def import_clashes() -> list[Finding]:
    """Load the solvers with native libraries into one process, in every order."""
    installed = [name for name in LOADED_TOGETHER if distribution_version(name) is not None]
    if len(installed) < 2:
        return []
    reason_of_order = {}
    for order in permutations(installed):
        program = "; ".join(f"import {LOADED_TOGETHER[name]}" for name in order)
        try:
            completed = subprocess.run(  # noqa: S603 - a constant program
                [sys.executable, "-c", program],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
                timeout=IMPORT_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            reason_of_order[order] = f"no result after {IMPORT_LIMIT_S:g} s"
            continue
        if completed.returncode:
            error_lines = completed.stderr.strip().splitlines()
            reason_of_order[order] = error_lines[-1] if error_lines else f"exit status {completed.returncode}"
    advice = 'pip install --force-reinstall "gpushare-bench" in a fresh environment'
    return [
        Finding("imports", Level.ERROR, f"{' then '.join(order)} in one process: {reason}", advice)
        for order, reason in reason_of_order.items()
    ] or [Finding("imports", Level.OK, f"{' and '.join(installed)} load in one process")]


def cores() -> list[Finding]:
    """Count the cores that this process may use."""
    usable = usable_cores()
    return [rated("cores", f"{usable} usable", usable > 1, f"use {option('jobs', 1)} {option('threads', 1)}")]


def load() -> list[Finding]:
    """Check the load of the machine by other programs."""
    average = load_average()
    if average is None:
        return []
    observation = f"{average:.2f} on average over the last minute"
    idle = average <= BUSY_LOAD * usable_cores()
    return [rated("load", observation, idle, "stop other programs before you measure times")]


def memory() -> list[Finding]:
    """Check the available memory against the default number of concurrent runs."""
    available_mib = memory_mib().get("MemAvailable")
    if available_mib is None:
        return []
    available_gb, jobs = available_mib / 1024.0, usable_cores()
    observation = f"{available_gb:.1f} GB available"
    if available_gb >= MEMORY_PER_RUN_GB * jobs:
        return [Finding("memory", Level.OK, observation)]
    jobs_that_fit = int(available_gb / MEMORY_PER_RUN_GB)
    if jobs_that_fit == 0:
        return [
            Finding("memory", Level.ERROR, observation, f"free {MEMORY_PER_RUN_GB:g} GB, which a run's imports need")
        ]
    return [
        Finding(
            "memory", Level.WARNING, f"{observation} for {jobs} runs at a time", f"use {option('jobs', jobs_that_fit)}"
        )
    ]


def disk() -> list[Finding]:
    """Check the disk space for results, which go into the current folder by default."""
    free_gb = shutil.disk_usage(Path.cwd()).free / 2**30
    advice = f"free disk space, or put {option('ledger')} elsewhere; {DISK_GB:g} GB is enough"
    return [rated("disk", f"{free_gb:.1f} GB free here", free_gb >= DISK_GB, advice)]


CHECKS: tuple[Callable[[], list[Finding]], ...] = (
    known_bad_versions,
    installed_versions,
    import_clashes,
    presolve_answers,
    nonlinear_answers,
    cores,
    control_groups,
    frequency,
    load,
    memory,
    swap,
    disk,
    gpus,
)
"""Checks in the order of their findings."""


def examine() -> list[Finding]:
    """Return the findings of all checks."""
    return [finding for check in CHECKS for finding in check()]
