"""Watchdog process that kills the workers when the bench ends, whatever the cause.

A thread in the worker cannot do this: a scheduler that loops in C code holds the interpreter lock. The kernel's
parent-death signal cannot either: it kills only the worker, and then the worker's children can no longer be found.
"""

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from bench.runner.forkserver import start_process
from bench.runner.worker_limits import leave_forkserver

_MOST_ROUNDS = 50
"""Most rounds of listing new descendants; only a fork bomb needs more than two or three."""


def kill_tree(leader: int) -> None:
    """Send SIGKILL to the process group of ``leader`` and to its descendants in other groups or sessions.

    All processes are stopped before any is killed: a running process could fork during the listing, and the child of
    an ended process is no longer a descendant of ``leader``. SIGKILL can be neither caught nor blocked, so that it
    also ends processes that ignore SIGTERM or hold the interpreter lock.
    """
    _signal(os.killpg, leader, signal.SIGSTOP)
    stopped: set[int] = set()
    for _ in range(_MOST_ROUNDS):
        started = _descendants(leader) - stopped
        if not started:
            break
        for process in started:
            _signal(os.kill, process, signal.SIGSTOP)
        stopped |= started
    _signal(os.killpg, leader, signal.SIGKILL)
    for process in (leader, *stopped):  # the leader separately, since its group may not exist yet
        _signal(os.kill, process, signal.SIGKILL)


def _signal(send: Callable[[int, int], None], process: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        send(process, signum)


def _descendants(leader: int) -> set[int]:
    """Return the processes below ``leader`` or in its session; an empty set on systems without ``/proc``."""
    children: dict[int, list[int]] = defaultdict(list)
    found = []
    with suppress(FileNotFoundError), os.scandir("/proc") as processes:
        for entry in processes:
            if not entry.name.isdigit():
                continue
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except OSError:  # the process has ended meanwhile
                continue
            # The format is "pid (name) state ppid pgrp session ..."; the name may contain any character.
            process = int(entry.name)
            _, parent, _, session = stat.rpartition(b")")[2].split()[:4]
            children[int(parent)].append(process)
            if int(session) == leader and process != leader:
                found.append(process)
    below = [leader, *found]
    for process in below:  # the list grows during the iteration
        below += [child for child in children[process] if child not in below]
    return set(below[1:])


_JOIN_S = 5.0


class Warden:
    """Handle of the watchdog in the bench: it registers workers, and restarts a watchdog that was killed."""

    def __init__(self) -> None:
        self._guarded: set[int] = set()
        self._start()

    def _start(self) -> None:
        self._process, (self._outbox,) = start_process(watch, "bench warden", reads=1, writes=0)

    def guard(self, worker: int) -> None:
        """Register ``worker`` to be killed when the bench ends."""
        self._guarded.add(worker)
        self._tell(f"+{worker}\n")

    def release(self, worker: int) -> None:
        """Unregister ``worker``, which has ended."""
        self._guarded.discard(worker)
        self._tell(f"-{worker}\n")

    def _tell(self, line: str) -> None:
        try:
            os.write(self._outbox.fileno(), line.encode())
        except BrokenPipeError:  # the watchdog was killed
            self._outbox.close()
            self._start()
            for worker in self._guarded:
                os.write(self._outbox.fileno(), f"+{worker}\n".encode())

    def close(self) -> None:
        """End the watchdog; it kills the workers that are still registered."""
        self._outbox.close()
        self._process.join(_JOIN_S)


def watch(inbox: Connection) -> None:
    """Run the watchdog process: read registrations until the bench closes the pipe or ends, then kill the workers."""
    leave_forkserver()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    workers: set[int] = set()
    with open(inbox.fileno(), encoding="ascii", closefd=False) as lines:
        for line in lines:
            worker = int(line[1:])
            if line[0] == "+":
                workers.add(worker)
            else:
                workers.discard(worker)
    for worker in workers:
        kill_tree(worker)
