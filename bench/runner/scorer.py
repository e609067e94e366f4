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

_MAX_FAILED_STARTS = 3
"""Number of failed starts in a row after which the bench gives up."""

_JOIN_S = 5.0
"""Longest wait for the end of a killed process."""


@dataclass(frozen=True, slots=True)
class _Job:
    """Call of a function in the process, and the receivers of its result and of the reason of its failure."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    done: Callable[[Any], None]
    failed: Callable[[str], None]


class Scorer:
    """Handle of the scoring process in the bench. The process does its jobs one after another, in order of submission.

    ``watchdog`` kills the process if the bench dies.
    """

    def __init__(self, watchdog: Watchdog) -> None:
        self._watchdog = watchdog
        self._waiting: deque[_Job] = deque()
        self._failed_starts = 0
        self._job_repeated = False
        self._start()

    def _start(self) -> None:
        self._process, (self._inbox, self._outbox) = start_process(_serve, "bench scorer", reads=1, writes=1)
        assert self._process.pid is not None
        self._pid = self._process.pid
        self._watchdog.guard(self._pid)
        self._is_idle = self._is_ready = False
        self._due = time.monotonic() + _STARTUP_LIMIT_S

    def __len__(self) -> int:
        """Number of unfinished jobs."""
        return len(self._waiting)

    @property
    def sources(self) -> list[int]:
        """Descriptors that become readable when the process has a result or ends."""
        return [self._outbox.fileno()]  # not the sentinel: it also becomes readable when the forkserver ends

    @property
    def due(self) -> float:
        """Time at which the process is killed, on the monotonic clock."""
        return self._due if self._waiting or not self._is_ready else math.inf

    def submit(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        done: Callable[[Any], None],
        failed: Callable[[str], None],
    ) -> None:
        """Queue a call of ``function`` in the process.

        ``process_result`` later calls ``done`` with the result, or ``failed`` with a reason.
        """
        self._waiting.append(_Job(function, arguments, done, failed))
        self._order()

    def abandon_work(self) -> None:
        """Drop all jobs without a call of ``done`` or ``failed``, and replace the process."""
        self._waiting.clear()
        self._replace("")

    def process_result(self) -> None:
        """Process the next result, if there is one. Replace a process that has ended or is overdue.

        Raises
        ------
        InputError
            If the process does not start.
        """
        try:
            message = self._outbox.recv() if self._outbox.poll() else None
        except (EOFError, OSError):
            self._process.join(_JOIN_S)
            self._replace(f"its process ended with exit code {self._process.exitcode}", repeat=not self._job_repeated)
            return
        if message is not None:
            self._take(message)
        elif self.due <= time.monotonic():
            self._replace(f"took more than {LIMIT_S:g} s")

    def _order(self) -> None:
        """Send the first waiting job to the process if the process is idle."""
        if not self._is_idle or not self._waiting:
            return
        self._is_idle = False
        job = self._waiting[0]
        self._due = time.monotonic() + LIMIT_S
        with suppress(BrokenPipeError):  # the process has ended; its pipe is readable
            self._inbox.send((job.function, job.arguments))

    def _take(self, message: tuple[str, Any]) -> None:
        """Handle a message of the process: it is ready, or its job is done or has failed."""
        kind, content = message
        self._is_idle = True
        if kind == "ready":
            self._is_ready, self._failed_starts = True, 0
        else:
            job = self._waiting.popleft()
            self._job_repeated = False
            (job.done if kind == "done" else job.failed)(content)
        self._order()

    def _replace(self, reason: str, repeat: bool = False) -> None:
        """Replace the process; its job fails for this ``reason``, or goes to the new process with ``repeat``."""
        was_ready = self._is_ready
        self.release()
        self.end()
        if not was_ready:
            self._failed_starts += 1
            if self._failed_starts == _MAX_FAILED_STARTS:
                raise InputError("judge", f"does not start: {reason}")
        self._start()
        if not was_ready or not self._waiting:
            return
        # The job is repeated once, because something else may have killed the process. A job that ends the process
        # itself ends the new process as well.
        self._job_repeated = repeat
        if not repeat:
            self._waiting.popleft().failed(reason)

    def guard(self, watchdog: Watchdog) -> None:
        """Register the process with a watchdog, which kills it if the bench dies."""
        self._watchdog = watchdog
        watchdog.guard(self._pid)

    def release(self) -> None:
        """Unregister the process from its watchdog; the process also ends by itself when the bench ends."""
        self._watchdog.release(self._pid)

    def end(self) -> None:
        """Kill the process."""
        self._process.kill()
        self._process.join(_JOIN_S)
        self._inbox.close()
        self._outbox.close()


_IDLE_SCORERS: list[Scorer] = []
"""Idle scorers for the next runs; they still have the tables of the last instances in memory."""


@contextmanager
def borrowed_scorer(watchdog: Watchdog) -> Iterator[Scorer]:
    """Yield an idle or a new scorer. Afterwards it stays idle for the next runs, unless it still has jobs."""
    try:
        scorer = _IDLE_SCORERS.pop()
        scorer.guard(watchdog)
    except IndexError:
        scorer = Scorer(watchdog)
    try:
        yield scorer
    finally:
        scorer.release()
        if scorer:
            scorer.end()
        else:
            _IDLE_SCORERS.append(scorer)


@atexit.register  # runs before multiprocessing waits for its processes
def _end_idle() -> None:
    while _IDLE_SCORERS:
        _IDLE_SCORERS.pop().end()


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
