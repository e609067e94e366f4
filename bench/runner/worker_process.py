"""The bench's side of one worker process: starting it, reading what it tells, killing it with all it started."""

import fcntl
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from types import ModuleType

from bench.runner.messages import LineReader, Message
from bench.runner.process_tree import kill_tree
from bench.runner.watchdog import Warden
from bench.runner.worker_limits import SAFE_PATH_MARK

LOG_TAIL_BYTES = 4096
"""Of what a run printed, this much is kept."""

_PIECE_BYTES = 2**16
_LOG_PIPE_BYTES = 2**20
_PIECES = 32
_JOIN_S = 5.0

WorkerMain = Callable[[Connection, Connection, Connection], None]


@cache
def forkserver_context() -> ForkServerContext:
    """Return the context whose forkserver has ``bench.runner.preload`` loaded, once per process.

    Never plain ``fork``: a bench that has used torch, HiGHS or Numba cannot be forked safely.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["bench.runner.preload"])
    return context


def start_forkserver() -> None:
    """Have the forkserver load what it preloads, in the background."""
    forkserver_context()
    with _clean_start():
        forkserver.ensure_running()


def start_warden() -> Warden:
    """Start the process that kills the workers should the bench die."""
    with _clean_start():
        return Warden(forkserver_context())


class Worker:
    """One worker process, started but idle until it gets its order.

    Parameters
    ----------
    main
        What it runs: takes the orders, the way to answer, and where to print.
    warden
        Guards it from here on.
    """

    def __init__(self, main: WorkerMain, warden: Warden) -> None:
        context = forkserver_context()
        their_inbox, self._inbox = context.Pipe(duplex=False)
        self._outbox, their_outbox = context.Pipe(duplex=False)
        self._log, their_log = context.Pipe(duplex=False)
        for mine in (self._outbox, self._log):
            os.set_blocking(mine.fileno(), False)
        if sys.platform == "linux":
            with suppress(OSError):  # a user has only so many large pipes
                fcntl.fcntl(self._log.fileno(), fcntl.F_SETPIPE_SZ, _LOG_PIPE_BYTES)
        # Not a daemon: those may not have children, and schedulers may.
        self._process = context.Process(target=main, args=(their_inbox, their_outbox, their_log), name="bench worker")
        try:
            with _clean_start():
                self._process.start()
        finally:
            for theirs in (their_inbox, their_outbox, their_log):
                theirs.close()
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._warden = warden
        warden.guard(self.pid)
        self._reader = LineReader()
        self._tail = b""
        self.readable: list[Connection] = [self._outbox, self._log]

    @property
    def sentinel(self) -> int:
        """Becomes readable when the process ends."""
        return self._process.sentinel

    def order(self, order: object) -> None:
        """Send the worker what it is to do."""
        with suppress(BrokenPipeError):  # it died already, as its sentinel will tell
            self._inbox.send_bytes(pickle.dumps(order))

    def messages(self) -> list[Message]:
        """Return the messages that have arrived, without waiting; keep the log's tail up to date.

        Raises
        ------
        InputError
            If something arrived that is no message.
        """
        self._read_log()
        return [message for piece in self._pieces(self._outbox) for message in self._reader.feed(piece)]

    @property
    def silent(self) -> bool:
        """Whether no more messages can come: the process ended or closed its side."""
        return self._outbox not in self.readable

    def _read_log(self) -> None:
        for piece in self._pieces(self._log):
            self._tail = (self._tail + piece)[-LOG_TAIL_BYTES:]

    def _pieces(self, pipe: Connection) -> Iterator[bytes]:
        """Yield what can be read from ``pipe`` without waiting, but not for ever if it comes faster than we read."""
        with suppress(BlockingIOError):
            for _ in range(_PIECES):
                if pipe not in self.readable:
                    return
                piece = os.read(pipe.fileno(), _PIECE_BYTES)
                if not piece:
                    self.readable.remove(pipe)
                    return
                yield piece

    @property
    def log_tail(self) -> str:
        """The last of what the worker and its children printed."""
        return self._tail.decode(errors="replace")

    def peak_memory_mb(self) -> float | None:
        """Return the largest resident memory of the process so far, in MiB, where the system tells."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="utf-8") as status:  # noqa: PTH123 - no path to compute with
                kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        except (OSError, StopIteration):
            return None
        return kib / 1024

    def end(self) -> int | None:
        """Kill the worker and all it started, read what is left to read of its log, and return its exit code.

        A negative code is the signal that ended it, ``None`` a process that the kernel does not let go.
        """
        kill_tree(self.pid)
        self._process.join(_JOIN_S)
        exit_code = self._process.exitcode
        self._warden.release(self.pid)
        self._read_log()
        for mine in (self._inbox, self._outbox, self._log):
            mine.close()
        if exit_code is not None:
            self._process.close()
        return exit_code

    def exit_code(self, patience_s: float) -> int | None:
        """Return the exit code of a worker that is ending by itself, or ``None`` if it does not end in time."""
        self._process.join(patience_s)
        return self._process.exitcode


_ONE_START_AT_A_TIME = threading.RLock()
"""What ``_clean_start`` changes for a moment concerns the whole process."""


@contextmanager
def _clean_start() -> Iterator[None]:
    """Keep what surrounds the bench from new processes.

    The program that started it: ``multiprocessing`` would run that again in every worker in case the target was defined
    there. Ours never is, and for the command line that would be a third of a second per run.

    Folders of the working directory that happen to be called ``instances`` or ``bench``: the forkserver would take them
    for our packages.

    Ctrl-C and SIGTERM, which terminals and ``timeout`` send to the whole process group: only the bench decides what
    they mean. The forkserver inherits that they are blocked; ``leave_forkserver`` lets workers have them again.
    """
    with _ONE_START_AT_A_TIME:
        main = sys.modules["__main__"]
        resource_tracker.ensure_running()  # it would unblock the signals if it were started below
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
        safe_path = os.environ.setdefault("PYTHONSAFEPATH", SAFE_PATH_MARK)
        sys.modules["__main__"] = ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            if safe_path == SAFE_PATH_MARK:
                del os.environ["PYTHONSAFEPATH"]
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
