"""Plugins that lie about time, or never end."""

import signal
import sys
import time
from typing import ClassVar

from bench.api import Run
from hostile.base import Hostile, honest_plan
from instances import Instance


class FrozenClock(Hostile):
    """Stops the clock in every module."""

    ENDS: ClassVar[tuple[str, str]] = ("finished", "claimed .* where the bench saw")

    def warm(self) -> None:
        begin = time.monotonic()
        for module in [*sys.modules.values()]:
            for name in ("monotonic", "perf_counter", "time"):
                if callable(vars(module).get(name)):
                    setattr(module, name, lambda: begin)

    def attack(self, instance: Instance, run: Run) -> None:
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        signal.signal(signal.SIGALRM, lambda *_: None)
        signal.pause()


class FutureStart(Hostile):
    """Says that it starts in an hour, then never ends."""

    ENDS: ClassVar[tuple[str, str]] = ("wall_limit", "killed")

    def warm(self) -> None:
        clock, module = time.monotonic, sys.modules["bench.runner.worker"]
        module.monotonic = lambda: clock() + 3600.0  # type: ignore[attr-defined]

    def attack(self, instance: Instance, run: Run) -> None:
        while True:
            pass


class IgnoresSignals(Hostile):
    """Ignores all signals that can be ignored, and never ends."""

    ENDS: ClassVar[tuple[str, str]] = ("wall_limit", "killed")

    def attack(self, instance: Instance, run: Run) -> None:
        for signum in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(signum, signal.SIG_IGN)
        run.report(honest_plan(instance))
        while True:
            signal.pause()


class StopsItself(Hostile):
    """Sends SIGSTOP to itself."""

    ENDS: ClassVar[tuple[str, str]] = ("wall_limit", "killed")

    def attack(self, instance: Instance, run: Run) -> None:
        signal.raise_signal(signal.SIGSTOP)
        time.sleep(3600.0)


class NegativeTime(Hostile):
    """Reports results from before the start."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed wall_limit", "impossible message|killed")

    def attack(self, instance: Instance, run: Run) -> None:
        run.listener._start = time.monotonic() + 1e6  # type: ignore[attr-defined]
        run.report(honest_plan(instance))
