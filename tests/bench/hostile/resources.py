"""Plugins that take memory, files or limits."""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

from bench.api import Outcome, Run, Status
from hostile.base import Hostile, honest_plan
from instances import Instance


class TakesMemory(Hostile):
    """Allocates until there is nothing left."""

    ENDS: ClassVar[tuple[str, str]] = ("memory_limit wall_limit", "")

    def attack(self, instance: Instance, run: Run) -> None:
        held = []
        while True:
            held.append(bytearray(2**26))


class LiftsItsLimit(Hostile):
    """Lifts its memory limit and lowers all others."""

    ENDS: ClassVar[tuple[str, str]] = ("finished crashed exception", "")

    def attack(self, instance: Instance, run: Run) -> None:
        with suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
            resource.setrlimit(limit, (0, 0))


class TakesDescriptors(Hostile):
    """Opens files until there is no descriptor left."""

    def attack(self, instance: Instance, run: Run) -> None:
        with suppress(OSError):
            while True:
                os.open(os.devnull, os.O_RDONLY)


class SearchesTheLedger(Hostile):
    """Looks for the ledger among what the worker has, and would overwrite it."""

    ENDS: ClassVar[tuple[str, str]] = ("finished", "^0 ledgers")

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        names = []
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                names.append(str(descriptor.readlink()))
        found = [name for name in (*names, *sys.argv, *os.environ.values()) if "sqlite" in name]
        for name in found:
            Path(name).write_bytes(b"")
        return Outcome(Status.FEASIBLE, honest_plan(instance), reason=f"{len(found)} ledgers")


class WritesModules(Hostile):
    """Leaves modules of the bench's names in the working folder."""

    def attack(self, instance: Instance, run: Run) -> None:
        for name in ("json", "bench", "instances", "sitecustomize"):
            Path(f"{name}.py").write_text("raise SystemExit('shadowed')\n")
