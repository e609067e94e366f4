"""Examination by ``bench doctor``: the environment's answers and the machine's conditions for timing."""

import shutil
import subprocess
import sys
from collections.abc import Callable
from itertools import permutations
from pathlib import Path

from bench.code_version import distribution_version, solver_versions
from bench.doctor.finding import Finding, Level
from bench.doctor.known_bad import installed_known_bad
from bench.doctor.machine import control_groups, frequency, gpus, mps, swap
from bench.doctor.nonlinear import nonlinear_answers
from bench.provenance import load_average, usable_cores

LOADED_TOGETHER = {"ortools": "ortools.sat.python.cp_model", "highspy": "highspy", "pyscipopt": "pyscipopt"}
"""Distributions with native libraries of the same kind, and the modules that load them."""

IMPORT_LIMIT_S = 60.0

MEMORY_PER_RUN_GB = 1.3
"""What a run's imports take at their peak, before it solves anything."""

DISK_GB = 1.0
"""Room for a ledger, plans and figures, and compiled kernels."""

BUSY_PART = 0.25
"""Load per core above which other programs are felt in the times."""


def known_bad_versions() -> list[Finding]:
    """Look for versions of solvers that are known to be bad."""
    return [
        Finding(bad.distribution, Level.ERROR, f"{version} {bad.trouble}", f'pip install "{bad.install}"')
        for bad, version in installed_known_bad()
    ]


def installed_versions() -> list[Finding]:
    """Say which solvers are installed."""
    bad = {known.distribution for known, _ in installed_known_bad()}
    findings = []
    for name, version in solver_versions().items():
        if version is None:
            findings.append(Finding(name, Level.ERROR, "is not installed", 'pip install "gpushare-bench"'))
        elif name not in bad:
            findings.append(Finding(name, Level.OK, version))
    return findings


def import_clashes() -> list[Finding]:
    """Load the solvers that bring native libraries into one process, in every order."""
    present = [name for name in LOADED_TOGETHER if distribution_version(name) is not None]
    failed = {}
    for order in permutations(present) if len(present) > 1 else ():
        program = "; ".join(f"import {LOADED_TOGETHER[name]}" for name in order)
        try:
            done = subprocess.run(  # noqa: S603 - our own words
                [sys.executable, "-c", program],
                capture_output=True,
                stdin=subprocess.DEVNULL,
                text=True,
                errors="replace",
                timeout=IMPORT_LIMIT_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            failed[order] = f"nothing after {IMPORT_LIMIT_S:g} s"
            continue
        if done.returncode:
            failed[order] = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
    if failed:
        return [
            Finding(
                "imports",
                Level.ERROR,
                f"{' then '.join(order)} in one process: {reason}",
                'pip install --force-reinstall "gpushare-bench" in a fresh environment',
            )
            for order, reason in failed.items()
        ]
    return [Finding("imports", Level.OK, f"{' and '.join(present)} load in one process")] if len(present) > 1 else []


def cores() -> list[Finding]:
    """Count the cores that this process may use."""
    usable = usable_cores()
    if usable > 1:
        return [Finding("cores", Level.OK, f"{usable} usable")]
    return [Finding("cores", Level.WARNING, "1 usable", "keep to --jobs 1 --threads 1")]


def load() -> list[Finding]:
    """Look at what else the machine is doing."""
    average = load_average()
    if average is None:
        return []
    found = f"{average:.2f} on average over the last minute"
    if average <= BUSY_PART * usable_cores():
        return [Finding("load", Level.OK, found)]
    return [Finding("load", Level.WARNING, found, "end other programs before you measure times")]


def memory() -> list[Finding]:
    """Look at the memory that is left for the runs that go on at a time by default."""
    available = available_memory_gb()
    if available is None:
        return []
    found, jobs = f"{available:.1f} GB available", usable_cores()
    if available >= MEMORY_PER_RUN_GB * jobs:
        return [Finding("memory", Level.OK, found)]
    fewer = int(available / MEMORY_PER_RUN_GB)
    if fewer == 0:
        return [Finding("memory", Level.ERROR, found, f"free {MEMORY_PER_RUN_GB:g} GB: a run's imports take that much")]
    return [Finding("memory", Level.WARNING, f"{found} for {jobs} runs at a time", f"use --jobs {fewer}")]


def available_memory_gb() -> float | None:
    """Return the memory that programs could still take, in GB of 2**30 bytes, where the system tells."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 2**20 for line in lines if line.startswith("MemAvailable:")), None)


def disk() -> list[Finding]:
    """Look at the room for results, which go into the current folder unless told otherwise."""
    free_gb = shutil.disk_usage(Path.cwd()).free / 2**30
    found = f"{free_gb:.1f} GB free here"
    if free_gb >= DISK_GB:
        return [Finding("disk", Level.OK, found)]
    return [Finding("disk", Level.WARNING, found, f"make room, or name a --ledger elsewhere: {DISK_GB:g} GB is enough")]


Check = Callable[[], list[Finding]]

CHECKS: tuple[Check, ...] = (
    known_bad_versions,
    installed_versions,
    import_clashes,
    nonlinear_answers,
    cores,
    control_groups,
    frequency,
    load,
    memory,
    swap,
    disk,
    gpus,
    mps,
)
"""In the order in which their findings are shown."""


def examine() -> list[Finding]:
    """Return what all checks find."""
    return [finding for check in CHECKS for finding in check()]
