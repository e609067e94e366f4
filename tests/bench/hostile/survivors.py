"""Plugins that try to leave processes or threads, or to end those of the bench."""

import atexit
import ctypes
import os
import signal
import threading
import time
from typing import ClassVar

from bench.api import Run
from hostile.base import Hostile
from instances import Instance


def survive() -> None:
    """Fork a process in a session of its own that never ends."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() != 0:
            os._exit(0)
        time.sleep(3600.0)
        os._exit(0)


class Daemon(Hostile):
    """Leaves a daemon, and exits at once."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "status 0")

    def attack(self, instance: Instance, run: Run) -> None:
        survive()
        os._exit(0)


class NoSubreaper(Hostile):
    """Leaves a daemon that the worker does not adopt."""

    def attack(self, instance: Instance, run: Run) -> None:
        ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER
        survive()


class LeavesThreads(Hostile):
    """Leaves threads that are no daemons."""

    def attack(self, instance: Instance, run: Run) -> None:
        for _ in range(20):
            threading.Thread(target=time.sleep, args=(3600.0,)).start()


class AtExit(Hostile):
    """Waits for ever when the interpreter exits."""

    def attack(self, instance: Instance, run: Run) -> None:
        atexit.register(time.sleep, 3600.0)


class Forks(Hostile):
    """Forks 200 processes."""

    ENDS: ClassVar[tuple[str, str]] = ("finished wall_limit", "")

    def attack(self, instance: Instance, run: Run) -> None:
        for _ in range(200):
            if os.fork() == 0:
                time.sleep(3600.0)
                os._exit(0)


class KillsTheForkserver(Hostile):
    """Kills its parent."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "forkserver was killed")

    def attack(self, instance: Instance, run: Run) -> None:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(2.0)


class KillsItsGroup(Hostile):
    """Kills its process group."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "SIGKILL")

    def attack(self, instance: Instance, run: Run) -> None:
        os.killpg(0, signal.SIGKILL)


class DiesInWarm(Hostile):
    """Exits while it is warmed."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "warming")

    def warm(self) -> None:
        os._exit(0)


class Segfault(Hostile):
    """Reads address 0."""

    ENDS: ClassVar[tuple[str, str]] = ("crashed", "SIGSEGV")

    def attack(self, instance: Instance, run: Run) -> None:
        ctypes.string_at(0)
