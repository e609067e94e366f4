"""Schedulers that end their worker, or break it."""

import ctypes
import json
import os
import pickle
import signal
import sys
from typing import Any, ClassVar

from toy_schedulers import honest_plan

from bench.api import Run
from hostile.base import MAY_BE_MEMORY, Hostile
from instances import Instance, Objective

NOT_BY_THE_BENCH = "; not killed by the bench; the host may have run out of memory"


class Crash(Hostile):
    """Raises at once, or reports a plan and then ends its process by a signal or an exit."""

    ENDS: ClassVar = {
        "raise": ("exception", "LookupError: no such thing"),
        "raise-oddly": ("exception", "LookupError: half a pair: ? and so on ..."),
        "quit": ("exception", "SystemExit: 3"),
        "exit": ("crashed", "exited with status 7 while scheduling" + MAY_BE_MEMORY),
        "exit-warm": ("crashed", "exited with status 0 while warming Crash" + MAY_BE_MEMORY),
        "hang-up": ("crashed", "closed its connection to the bench while scheduling" + MAY_BE_MEMORY),
        "close-all": ("crashed", "exited with status 1 while scheduling" + MAY_BE_MEMORY),
        "patch": ("crashed", "exited with status 1 while scheduling" + MAY_BE_MEMORY),
        "recurse": ("crashed", "died of SIGSEGV while scheduling" + MAY_BE_MEMORY),
        "segfault": ("crashed", "died of SIGSEGV while scheduling" + MAY_BE_MEMORY),
        "abort": ("crashed", "died of SIGABRT while scheduling" + MAY_BE_MEMORY),
        "kill": ("crashed", "died of SIGKILL while scheduling" + NOT_BY_THE_BENCH),
        "kill-group": ("crashed", "died of SIGKILL while scheduling" + NOT_BY_THE_BENCH),
    }
    name: ClassVar[str] = "crash"

    def warm(self, objective: Objective) -> None:
        if self.how == "exit-warm":
            os._exit(0)

    def attack(self, instance: Instance, run: Run) -> None:
        print("about to fail")
        match self.how:
            case "raise":
                raise LookupError("no such\nthing")
            case "raise-oddly":
                raise LookupError("half a pair: \udc80 " + "and so on " * 100)
            case "quit":
                sys.exit(3)
        run.report(honest_plan(instance))
        match self.how:
            case "exit":
                os._exit(7)
            case "hang-up":
                os.closerange(3, 256)
                signal.pause()
            case "close-all":
                os.closerange(0, 4096)
            case "patch":
                json.dumps = json.loads = pickle.loads = pickle.dumps = os.write = self._broken
            case "recurse":
                self._recurse()
            case "segfault":
                ctypes.string_at(0)
            case "abort":
                os.abort()
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "kill-group":
                os.killpg(0, signal.SIGKILL)

    def _broken(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("patched")

    def _recurse(self) -> None:
        sys.setrecursionlimit(10**9)
        nested: list[Any] = []
        for _ in range(10**6):
            nested = [nested]
        json.dumps(nested)
