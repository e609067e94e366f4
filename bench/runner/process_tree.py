"""Termination of a worker with all processes that it started."""

import os
import signal
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

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
