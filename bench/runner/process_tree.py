"""Killing a worker with everything it started."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

_MOST_ROUNDS = 50
"""Of listing what has been started since the last time; only a fork bomb needs more than two or three."""


def kill_tree(leader: int) -> None:
    """SIGKILL the process group of ``leader``, and its descendants that moved to groups or sessions of their own.

    All are stopped before any is killed: one that runs could fork while the others are listed, and the child of one
    that is gone is nobody's descendant. SIGKILL can be neither caught nor blocked, so that ignoring SIGTERM or holding
    the interpreter lock changes nothing.
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
    for process in (leader, *stopped):  # the leader by itself as well: it may not have made its group yet
        _signal(os.kill, process, signal.SIGKILL)


def _signal(send: Callable[[int, int], None], process: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        send(process, signum)


def _descendants(leader: int) -> set[int]:
    """Return the processes below ``leader`` or in its session, where the system lists processes in ``/proc``."""
    children: dict[int, list[int]] = defaultdict(list)
    found = []
    with suppress(FileNotFoundError), os.scandir("/proc") as processes:
        for entry in processes:
            if not entry.name.isdigit():
                continue
            try:
                stat = Path(entry.path, "stat").read_bytes()
            except OSError:  # gone meanwhile
                continue
            # "pid (name) state ppid pgrp session ...", where the name may hold anything
            process = int(entry.name)
            _, parent, _, session = stat.rpartition(b")")[2].split()[:4]
            children[int(parent)].append(process)
            if int(session) == leader and process != leader:
                found.append(process)
    below = [leader, *found]
    for process in below:  # grows while it is walked
        below += [child for child in children[process] if child not in below]
    return set(below[1:])
