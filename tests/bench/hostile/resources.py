"""Schedulers that exhaust memory, files or the log, lift limits, or look for files of the bench."""

import os
import resource
import sys
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import numpy as np
from toy_schedulers import honest_plan

from bench.api import Outcome, Run, Status
from hostile.base import Hostile
from instances import Instance


class Greedy(Hostile):
    """Takes all memory, all file descriptors or all space in the log."""

    ENDS: ClassVar = {
        "memory": ("memory_limit", "limit 4096 MiB: ...MemoryError: Unable to allocate 64.0 MiB for an array ..."),
        "array": ("memory_limit", "limit 4096 MiB: ...MemoryError: Unable to allocate 8.00 TiB for an array ..."),
        "bad-alloc": ("memory_limit", "limit 4096 MiB: died of SIGABRT while scheduling"),
        "descriptors": ("finished", ""),
        "log": ("exception", "RuntimeError: done printing"),
    }

    def attack(self, instance: Instance, run: Run) -> None:
        run.report(honest_plan(instance))
        held = []
        match self.how:
            case "memory":
                while True:
                    held.append(np.empty(2**23))
            case "array":
                np.ones((2**20, 2**20))
            case "bad-alloc":  # as a C++ program ends without memory
                os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
                os.abort()
            case "descriptors":
                with suppress(OSError):
                    while True:
                        os.open(os.devnull, os.O_RDONLY)
            case "log":
                for _ in range(25):
                    os.write(1, b"x" * 2**20)
                    os.write(2, b"\xff\n" * 2**19)
                print("the last line")
                raise RuntimeError("done printing")


class LiftsLimits(Hostile):
    """Lifts its memory limit and lowers all others."""

    def attack(self, instance: Instance, run: Run) -> None:
        with suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_FSIZE, resource.RLIMIT_NPROC):
            resource.setrlimit(limit, (0, 0))


class SearchesTheLedger(Hostile):
    """Looks for ledgers in the worker's open files, arguments and environment, and overwrites those that it finds."""

    ENDS: ClassVar = {"": ("finished", "0 ledgers")}

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        names = []
        for descriptor in Path("/proc/self/fd").iterdir():
            with suppress(OSError):
                names.append(str(descriptor.readlink()))
        ledgers = [name for name in (*names, *sys.argv, *os.environ.values()) if "sqlite" in name]
        for name in ledgers:
            Path(name).write_bytes(b"")
        return Outcome(Status.FEASIBLE, honest_plan(instance), reason=f"{len(ledgers)} ledgers")


class WritesModules(Hostile):
    """Writes modules with names that the bench imports into the working folder."""

    def attack(self, instance: Instance, run: Run) -> None:
        for name in ("json", "bench", "instances", "sitecustomize"):
            Path(f"{name}.py").write_text("raise SystemExit('shadowed')\n")
