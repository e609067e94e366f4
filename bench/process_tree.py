"""Killing a worker with everything it started."""

import os
import signal
from collections import defaultdict
from contextlib import suppress
from pathlib import Path


def kill_tree(leader: int) -> None:
    """SIGKILL the process group of ``leader``, and its descendants that moved to groups or sessions of their own.

    Stopping the group first keeps it from forking on while the descendants are listed. SIGKILL can be neither caught nor
    blocked, so that ignoring SIGTERM or holding the interpreter lock changes nothing.
    """
    _signal_group(leader, signal.SIGSTOP)
    others = _descendants(leader)
    _signal_group(leader, signal.SIGKILL)
    for process in (leader, *others):  # the leader by itself as well: it may not have made its group yet
        with suppress(ProcessLookupError, PermissionError):
            os.kill(process, signal.SIGKILL)


def _signal_group(leader: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signum)


def _descendants(leader: int) -> list[int]:
    """Return the processes below ``leader`` or in its session, where the system lists processes in ``/proc``."""
    children: dict[int, list[int]] = defaultdict(list)
    found = []
    with suppress(FileNotFoundError), os.scandir("/proc") as processes:
        for process in processes:
            if not process.name.isdigit():
                continue
            try:
                stat = Path(process.path, "stat").read_bytes()
            except OSError:  # gone meanwhile
                continue
            # "pid (name) state ppid pgrp session ...", where the name may hold anything
            _, parent, _, session = stat.rpartition(b")")[2].split()[:4]
            children[int(parent)].append(int(process.name))
            if int(session) == leader and int(process.name) != leader:
                found.append(int(process.name))
    below = [leader, *found]
    for process in below:  # grows while it is walked
        below += [child for child in children[process] if child not in below]
    return below[1:]
