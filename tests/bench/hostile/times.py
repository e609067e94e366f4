"""Schedulers that falsify the clock, or never end."""

import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from toy_schedulers import honest_plan

from bench.api import Bound, Run
from hostile.base import KILLED, Hostile
from instances import Instance, Objective


class Clock(Hostile):
    """Stops the clock in every module, or sets the worker's clock an hour ahead."""

    ENDS: ClassVar = {
        "frozen": ("finished", "the scheduler's worker claimed 0 s where the bench saw ... s, which counts"),
        "ahead": ("wall_limit", KILLED + "; the scheduler's clock did not start when its worker claimed"),
    }

    def warm(self, objective: Objective) -> None:
        now, worker = time.monotonic(), sys.modules["bench.runner.worker"]
        if self.how == "frozen":
            for module in [*sys.modules.values()]:
                for name in ("monotonic", "perf_counter", "time"):
                    if callable(vars(module).get(name)):
                        setattr(module, name, lambda: now)
        elif self.how == "ahead":
            worker.monotonic = lambda: time.monotonic() + 3600.0  # type: ignore[attr-defined]

    def attack(self, instance: Instance, run: Run) -> None:
        while self.how == "ahead":
            pass
        time.sleep(1.5)
        run.report(honest_plan(instance))


@dataclass(frozen=True)
class Endless(Hostile):
    """Reports a plan and a bound, then never returns; makes a file in the folder ``pids``, named by its process id."""

    ENDS: ClassVar = {
        "ignores-signals": ("wall_limit", KILLED),
        "holds-the-lock": ("wall_limit", KILLED),
        "stops-itself": ("wall_limit", KILLED),
        "warms": ("wall_limit", "start-up took more than ... s (warming Endless)"),
    }
    pids: str = ""

    def warm(self, objective: Objective) -> None:
        while self.how == "warms":
            signal.pause()

    def attack(self, instance: Instance, run: Run) -> None:
        run.report(honest_plan(instance), Bound(5.0, certified=False))
        if self.pids:
            Path(self.pids, str(os.getpid())).touch()
        if self.how == "stops-itself":
            signal.raise_signal(signal.SIGSTOP)
        spin = signal.pause
        if self.how == "holds-the-lock":
            spin = ctypes.PyDLL(None).pause  # PyDLL keeps the interpreter lock
        else:
            for signum in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
                signal.signal(signum, signal.SIG_IGN)
        while True:
            spin()  # returns on signals only
