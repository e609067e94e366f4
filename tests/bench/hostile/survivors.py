"""Schedulers that try to leave processes or threads behind."""

import atexit
import ctypes
import os
import signal
import subprocess
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from bench.api import Outcome, Run
from hostile.base import MAY_BE_MEMORY, Hostile
from instances import Instance

_SET_DUMPABLE, _SET_CHILD_SUBREAPER = 4, 36
_LIBC = ctypes.CDLL(None)


def wait_for_ever() -> None:
    while True:
        signal.pause()


@dataclass(frozen=True)
class Survivor(Hostile):
    """Starts processes that try to survive the run; its statistics have the worker's process id.

    Attributes
    ----------
    pids
        Folder with a file for each process, named by its id.
    count
        Number of processes.
    stay
        Whether the worker never returns.
    once
        Whether only the first attempt of the run starts processes.
    """

    ENDS: ClassVar = {
        "daemon": ("crashed", "exited with status 0 while scheduling" + MAY_BE_MEMORY),
        "children": ("finished", ""),
        "orphans": ("finished", ""),  # the worker stops being a subreaper, here and below
        "bare": ("finished", ""),  # without an environment
        "secret": ("finished", ""),  # with an environment that other processes cannot read
        "moving": ("finished", ""),  # that fork again and again, so their ids change
        "kills-the-forkserver": ("crashed", "the bench's forkserver was killed in each of 3 attempts"),
    }
    pids: str = ""
    count: int = 3
    stay: bool = False
    once: bool = False

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        return replace(super().schedule(instance, run), statistics={"worker": os.getpid()})

    def attack(self, instance: Instance, run: Run) -> None:
        folder = Path(self.pids or f"pids/{self.how}")
        if self.once and folder.exists():
            return
        folder.mkdir(parents=True, exist_ok=True)
        if self.how == "children":
            sleep = ["sh", "-c", "trap '' TERM; sleep 1000"]
            started = [subprocess.Popen(sleep).pid, subprocess.Popen(sleep, start_new_session=True).pid]
            started.append(int(subprocess.check_output(["sh", "-c", "setsid sleep 1000 >&2 & echo $!"])))
            for pid in started:
                Path(folder, str(pid)).touch()
        else:
            self._start_daemons(folder)
        if self.how == "kills-the-forkserver":
            os.kill(os.getppid(), signal.SIGKILL)
        if self.stay or self.how == "kills-the-forkserver":
            wait_for_ever()
        if self.how == "daemon":
            os._exit(0)

    def _start_daemons(self, folder: Path) -> None:
        if self.how != "daemon":
            _LIBC.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        for _ in range(self.count):
            if os.fork() == 0:
                os.setsid()
                child = os.fork()
                if child == 0:
                    self._survive(folder)
                while not Path(folder, str(child)).exists():  # its child would be killed if it ended earlier
                    time.sleep(0.001)
                os._exit(0)
        while len(list(folder.iterdir())) < self.count:
            time.sleep(0.001)

    def _survive(self, folder: Path) -> None:
        os.setsid()
        Path(folder, str(os.getpid())).touch()
        match self.how:
            case "bare":
                os.execve("/bin/sleep", ["sleep", "1000"], {})
            case "secret":
                _LIBC.prctl(_SET_DUMPABLE, 0, 0, 0, 0)
            case "moving":
                while os.fork() == 0:
                    os.setsid()
                os._exit(0)
        wait_for_ever()


class Leftover(Hostile):
    """Leaves non-daemon threads, an exit handler that takes an hour, or many children."""

    ENDS: ClassVar = dict.fromkeys(("threads", "exit-handler", "forks"), ("finished", ""))

    def attack(self, instance: Instance, run: Run) -> None:
        match self.how:
            case "threads":
                for _ in range(20):
                    threading.Thread(target=time.sleep, args=(3600.0,)).start()
            case "exit-handler":
                atexit.register(time.sleep, 3600.0)
            case "forks":
                for _ in range(50):
                    if os.fork() == 0:
                        wait_for_ever()
