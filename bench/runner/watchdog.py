"""Watchdog process that kills the workers when the bench ends, whatever the cause.

A thread in the worker cannot do this: a scheduler that loops in C code keeps the interpreter lock. The kernel's
parent-death signal cannot do it either: it kills only the worker, and the worker's children can no longer be found.
"""

import os
import signal
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection

from bench.runner.forkserver import processes_of_bench, start_process
from bench.runner.worker_limits import RUN_VARIABLE, leave_forkserver, mark

_MAX_LISTINGS = 50
"""Largest number of listings of new processes; only a fork bomb needs more than two or three."""

_KILL_LIMIT_S = 5.0
"""Time after which no further processes of a run are sought and killed."""

_JOIN_S = 5.0
"""Longest wait for the end of the watchdog."""

_MAX_FILE_BYTES = 2**20
"""Number of bytes that are read of a file in ``/proc``."""


def kill_tree(leader: int) -> None:
    """Send SIGKILL to the process group of ``leader`` and to its descendants in other groups or sessions.

    All processes are stopped before any is killed: a running process could fork during the listing, and the child of
    an ended process is no longer a descendant of ``leader``. SIGKILL cannot be caught or blocked, so it also
    ends processes that ignore SIGTERM or keep the interpreter lock.
    """
    _kill(leader, lambda: _descendants(leader))


def kill_run(worker: int, born_ticks: int, server: int | None) -> None:
    """Kill a worker and the processes that its scheduler started. Repeat this until no process is found.

    Every process of a run has a mark in its environment, ``RUN_VARIABLE``. A process that is no longer a descendant of
    the worker is found by its mark. A process that has removed its mark is found as an orphan that the forkserver has
    adopted. Only processes of a scheduler that also kills the forkserver can escape.

    Parameters
    ----------
    worker
        Process id of the worker.
    born_ticks
        ``boot_ticks`` before the start of the worker; older processes are not examined.
    server
        Process id of the forkserver, or ``None``.
    """
    deadline = time.monotonic() + _KILL_LIMIT_S
    while _kill(worker, lambda: _processes_of_run(worker, born_ticks, server)) and time.monotonic() < deadline:
        time.sleep(0.001)  # the killed processes need a moment to disappear


def boot_ticks() -> int:
    """Return a time just before now, on the scale of the start times in ``/proc``; 0 on other systems than Linux."""
    if sys.platform != "linux":
        return 0
    return int(time.clock_gettime(time.CLOCK_BOOTTIME) * os.sysconf("SC_CLK_TCK")) - 1


def _kill(leader: int, list_others: Callable[[], set[int]]) -> bool:
    """Kill ``leader``, its group and the processes of ``list_others``; return whether ``list_others`` had any."""
    _signal(os.killpg, leader, signal.SIGSTOP)
    stopped: set[int] = set()
    for _ in range(_MAX_LISTINGS):
        running = list_others() - stopped
        if not running:
            break
        for process in running:
            _signal(os.kill, process, signal.SIGSTOP)
        stopped |= running
    _signal(os.killpg, leader, signal.SIGKILL)
    for process in (leader, *stopped):  # the leader separately, since its group may not exist yet
        _signal(os.kill, process, signal.SIGKILL)
    return bool(stopped)


def _signal(send: Callable[[int, int], None], process: int, signum: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        send(process, signum)


def _descendants(leader: int) -> set[int]:
    """Return the processes below ``leader`` or in its session; an empty set on systems without ``/proc``."""
    live = _processes()
    return _with_descendants(
        [leader, *(process for process, (_, session, _) in live.items() if session == leader)], live
    )


def _processes_of_run(worker: int, born_ticks: int, server: int | None) -> set[int]:
    """Return the processes of the run of ``worker``, without the worker."""
    with processes_of_bench() as bench_processes:
        live = _processes()
        session_of_server = None
        with suppress(ProcessLookupError):
            session_of_server = None if server is None else os.getsid(server)
        members = [worker]
        for process, (parent, session, started_ticks) in live.items():
            # The bench, its processes and older processes do not belong to the run.
            excluded = process in bench_processes or process == os.getpid() or started_ticks < born_ticks
            # Apart from the bench's processes, children of the forkserver outside its session are orphans, of this run
            # or of a parallel run.
            adopted = session_of_server is not None and parent == server and session != session_of_server
            if session == worker or (not excluded and (adopted or _has_mark(process, mark(worker)))):
                members.append(process)
        return _with_descendants(members, live)


def _with_descendants(roots: list[int], live: dict[int, tuple[int, int, int]]) -> set[int]:
    """Return the processes ``roots`` and their descendants, without the first of ``roots``."""
    children: dict[int, list[int]] = defaultdict(list)
    for process, (parent, _, _) in live.items():
        children[parent].append(process)
    result = dict.fromkeys(roots)
    queue = list(result)
    for process in queue:  # the list grows during the iteration
        new_children = [child for child in children[process] if child not in result]
        result |= dict.fromkeys(new_children)
        queue += new_children
    return set(result) - {roots[0]}


def _processes() -> dict[int, tuple[int, int, int]]:
    """Return parent, session and start time of every live process, in descending order of process ids.

    New processes thus come first, before they end: a scheduler may fork again and again and end the older process.
    """
    live = {}
    names: list[str] = []
    with suppress(FileNotFoundError), os.scandir("/proc") as entries:
        names = [entry.name for entry in entries]
    for name in reversed(names):
        if not name.isdigit():
            continue
        # The format is "pid (name) state ppid pgrp session ..."; the name may contain any character.
        fields = _bytes(f"/proc/{name}/stat").rpartition(b")")[2].split()
        if fields and fields[0] not in (b"Z", b"X"):
            live[int(name)] = int(fields[1]), int(fields[3]), int(fields[19])
    return live


def _has_mark(process: int, value: str) -> bool:
    """Return whether the environment of a process has ``value`` as the mark of its run."""
    return f"{RUN_VARIABLE}={value}\0".encode() in _bytes(f"/proc/{process}/environ")


def _bytes(file: str) -> bytes:
    """Return the content of a file in ``/proc``; empty if the process has ended or belongs to another user."""
    try:
        descriptor = os.open(file, os.O_RDONLY)
    except OSError:
        return b""
    try:
        return os.read(descriptor, _MAX_FILE_BYTES)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


class Watchdog:
    """Handle of the watchdog in the bench: it registers workers, and replaces a watchdog that was killed."""

    def __init__(self) -> None:
        self._guarded: set[int] = set()
        self._start()

    def _start(self) -> None:
        self._process, (self._outbox,) = start_process(watch, "bench watchdog", reads=1, writes=0)

    def guard(self, worker: int) -> None:
        """Register ``worker`` to be killed when the bench ends."""
        self._guarded.add(worker)
        self._write(f"+{worker}\n")

    def release(self, worker: int) -> None:
        """Unregister ``worker``, which has ended."""
        self._guarded.discard(worker)
        self._write(f"-{worker}\n")

    def _write(self, line: str) -> None:
        """Send a line to the watchdog; if the watchdog was killed, start another and register all workers there."""
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
    leave_forkserver(detach=False)
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
    server = os.getppid()  # the forkserver, or the process that adopted the watchdog after the forkserver's end
    for worker in workers:
        is_forkserver = _has_mark(server, mark())  # without an argument, ``mark`` returns the forkserver's mark
        kill_run(worker, 0, server if is_forkserver else None)
