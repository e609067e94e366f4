"""Scorer: a process that judges and simulates plans, so that no plan can block the bench or fill its memory."""

import atexit
import math
import os
import resource
import signal
import time
import traceback
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from bench.runner.forkserver import start_process
from bench.runner.watchdog import Watchdog
from bench.runner.worker_limits import leave_forkserver
from instances import InputError

LIMIT_S = 300.0
"""Time limit for the judgement and the simulation of a run, or for the judgement of a chunk of scenarios."""

MEMORY_LIMIT_MB = 8192
"""Memory limit of the process."""

_STARTUP_LIMIT_S = 600.0
"""Time limit for the start of the process; on a new host, the forkserver compiles the shared kernels first."""

_MOST_STARTS = 3
_JOIN_S = 5.0


@dataclass(frozen=True, slots=True)
class _Job:
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    done: Callable[[Any], None]
    failed: Callable[[str], None]


class Scorer:
    """Handle of the process in the bench; the process does one piece of work after another, in the order of submission.

    The ``watchdog`` kills the process if the bench dies.
    """

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._waiting: deque[_Job] = deque()
        self._failed_starts = 0
        self._repeated = False
        self._start()

    def _start(self) -> None:
        self._process, (self._inbox, self._outbox) = start_process(_serve, "bench scorer", reads=1, writes=1)
        assert self._process.pid is not None
        self._pid = self._process.pid
        self._watchdog.guard(self._pid)
        self._idle = self._ready = False
        self._due = time.monotonic() + _STARTUP_LIMIT_S

    def __len__(self) -> int:
        """Number of pieces of work that are not finished."""
        return len(self._waiting)

    @property
    def sources(self) -> list[int]:
        """Descriptors that become readable when the process has a result or ends."""
        return [self._outbox.fileno()]  # not the sentinel, which becomes readable when the forkserver ends as well

    @property
    def due(self) -> float:
        """Time at which the process is killed, on the monotonic clock."""
        return self._due if self._waiting or not self._ready else math.inf

    def submit(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        done: Callable[[Any], None],
        failed: Callable[[str], None],
    ) -> None:
        """Have the process call ``function``; ``look`` calls ``done`` with the result or ``failed`` with a reason."""
        self._waiting.append(_Job(function, arguments, done, failed))
        self._order()

    def drop_work(self) -> None:
        """Abandon all work without an answer, and replace the process."""
        self._waiting.clear()
        self._replace("")

    def look(self) -> None:
        """Take a result if there is one, and replace a process that has ended or is overdue.

        Raises
        ------
        InputError
            If the process does not start.
        """
        try:
            message = self._outbox.recv() if self._outbox.poll() else None
        except (EOFError, OSError):
            self._process.join(_JOIN_S)
            self._replace(f"its process ended with exit code {self._process.exitcode}", repeat=not self._repeated)
            return
        if message is not None:
            self._take(message)
        elif self.due <= time.monotonic():
            self._replace(f"took more than {LIMIT_S:g} s")

    def _order(self) -> None:
        if not self._idle or not self._waiting:
            return
        self._idle = False
        work = self._waiting[0]
        self._due = time.monotonic() + LIMIT_S
        with suppress(BrokenPipeError):  # the process has ended; its pipe is readable
            self._inbox.send((work.function, work.arguments))

    def _take(self, message: tuple[str, Any]) -> None:
        kind, content = message
        self._idle = True
        if kind == "ready":
            self._ready, self._failed_starts = True, 0
        else:
            work = self._waiting.popleft()
            self._repeated = False
            (work.done if kind == "done" else work.failed)(content)
        self._order()

    def _replace(self, reason: str, repeat: bool = False) -> None:
        was_ready = self._ready
        self.release()
        self.end()
        if not was_ready:
            self._failed_starts += 1
            if self._failed_starts == _MOST_STARTS:
                raise InputError("judge", f"does not start: {reason}")
        self._start()
        if not was_ready or not self._waiting:
            return
        # The work is repeated once, because the process may have been killed from outside; a plan that ended it does
        # so again.
        self._repeated = repeat
        if not repeat:
            self._waiting.popleft().failed(reason)

    def guard(self, watchdog: Watchdog) -> None:
        """Have a watchdog kill the process if the bench dies."""
        self._watchdog = watchdog
        watchdog.guard(self._pid)

    def release(self) -> None:
        """Unregister the process from its watchdog; it also ends by itself when the bench ends."""
        self._watchdog.release(self._pid)

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join(_JOIN_S)
        self._inbox.close()
        self._outbox.close()


_IDLE: list[Scorer] = []
"""Processes that wait for the next runs and still hold the tables of the last instances."""


@contextmanager
def borrowed_scorer(watchdog: Watchdog) -> Iterator[Scorer]:
    """Yield an idle or a new process; afterwards it is kept unless it still has work."""
    try:
        process = _IDLE.pop()
        process.guard(watchdog)
    except IndexError:
        process = Scorer(watchdog)
    try:
        yield process
    finally:
        process.release()
        if process:
            process.end()
        else:
            _IDLE.append(process)


@atexit.register  # runs before multiprocessing waits for its processes
def _end_idle() -> None:
    while _IDLE:
        _IDLE.pop().end()


def _serve(inbox: Connection, outbox: Connection) -> None:
    """Run the process: call the functions that arrive until the bench closes the pipes."""
    leave_forkserver()
    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, signal.SIG_IGN)
    limit = MEMORY_LIMIT_MB * 2**20
    resource.setrlimit(resource.RLIMIT_DATA, (limit, limit))
    answer: tuple[str, Any] = "ready", os.getpid()
    while True:
        try:
            outbox.send(answer)
            function, arguments = inbox.recv()
        except (EOFError, OSError):
            return
        try:
            answer = "done", function(*arguments)
        except Exception as error:  # noqa: BLE001 - a bug in the judge costs only this run
            answer = "failed", f"{type(error).__name__}: {error}\n{traceback.format_exc()}"
