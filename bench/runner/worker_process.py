"""Handle of one worker process in the bench: start, messages, log, and termination with all its children."""

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
from bench.runner.watchdog import Warden, kill_tree
from bench.runner.worker_limits import SAFE_PATH_MARK

LOG_TAIL_BYTES = 4096
"""Bytes that are kept from the end of a run's output."""

_PIECE_BYTES = 2**16
_LOG_PIPE_BYTES = 2**20
_PIECES = 32
_JOIN_S = 5.0

WorkerMain = Callable[[Connection, Connection, Connection], None]


@cache
def forkserver_context() -> ForkServerContext:
    """Return the context whose forkserver preloads ``bench.runner.preload``; one per process.

    Plain ``fork`` is not an option: a bench that has used torch, HiGHS or Numba cannot be forked safely.
    """
    context = get_context("forkserver")
    context.set_forkserver_preload(["bench.runner.preload"])
    return context


def start_forkserver() -> None:
    """Start the forkserver, which loads its modules in the background."""
    forkserver_context()
    with _clean_start():
        forkserver.ensure_running()


def start_warden() -> Warden:
    """Start the watchdog, the process that kills the workers if the bench dies."""
    with _clean_start():
        return Warden(forkserver_context())


class Worker:
    """One worker process, which is idle until its first order.

    Parameters
    ----------
    main
        Function that the process runs; its arguments are the pipes for orders, for messages and for output.
    warden
        Watchdog that guards the process from its start.
    """

    def __init__(self, main: WorkerMain, warden: Warden) -> None:
        context = forkserver_context()
        their_inbox, self._inbox = context.Pipe(duplex=False)
        self._outbox, their_outbox = context.Pipe(duplex=False)
        self._log, their_log = context.Pipe(duplex=False)
        for mine in (self._outbox, self._log):
            os.set_blocking(mine.fileno(), False)
        if sys.platform == "linux":
            with suppress(OSError):  # the number of large pipes per user is limited
                fcntl.fcntl(self._log.fileno(), fcntl.F_SETPIPE_SZ, _LOG_PIPE_BYTES)
        # Not a daemon: schedulers may start processes, which daemons may not.
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
        self.emptied = True
        """Whether the latest call of ``messages`` has read all that had arrived."""
        self.readable: list[Connection] = [self._outbox, self._log]

    @property
    def sentinel(self) -> int:
        """Descriptor that becomes readable when the process ends."""
        return self._process.sentinel

    def order(self, order: object) -> None:
        """Send an order to the worker."""
        with suppress(BrokenPipeError):  # the worker has died; its sentinel is readable
            self._inbox.send_bytes(pickle.dumps(order))

    def messages(self) -> list[Message]:
        """Return the messages that have arrived without waiting, and update the log's tail.

        Raises
        ------
        InputError
            If the pipe contains data that is no message.
        """
        self._read_log()
        pieces = list(self._pieces(self._outbox))
        self.emptied = len(pieces) < _PIECES
        return [message for piece in pieces for message in self._reader.feed(piece)]

    @property
    def silent(self) -> bool:
        """Whether no more messages can arrive because the process ended or closed its pipe."""
        return self._outbox not in self.readable

    def _read_log(self) -> None:
        for piece in self._pieces(self._log):
            self._tail = (self._tail + piece)[-LOG_TAIL_BYTES:]

    def _pieces(self, pipe: Connection) -> Iterator[bytes]:
        """Yield up to ``_PIECES`` pieces from ``pipe`` without waiting; the limit stops an endless stream."""
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
        """End of the output of the worker and its children."""
        return self._tail.decode(errors="replace")

    def peak_memory_mb(self) -> float | None:
        """Return the largest resident memory of the process so far in MiB, or ``None`` if it is not known."""
        try:
            with open(f"/proc/{self.pid}/status", encoding="utf-8") as status:  # noqa: PTH123 - no path to compute with
                kib = next(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        except (OSError, StopIteration):
            return None
        return kib / 1024

    def end(self) -> int | None:
        """Kill the worker and all processes that it started, read the rest of its log, and return its exit code.

        A negative code is the signal that ended the process. ``None`` means that it has not ended yet.
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
        """Return the exit code of a worker that ends by itself, or ``None`` if it outlives ``patience_s``."""
        self._process.join(patience_s)
        return self._process.exitcode


_ONE_START_AT_A_TIME = threading.RLock()
"""Lock around ``_clean_start``, which temporarily changes the state of the whole process."""


@contextmanager
def _clean_start() -> Iterator[None]:
    """Isolate new processes from the bench's main program, its working directory and its signals.

    Main program: ``multiprocessing`` would import it again in every worker, in case it defines the target. The bench's
    targets are never defined there, and the import would cost a third of a second per run on the command line.

    Working directory: the forkserver would import folders called ``instances`` or ``bench`` there instead of this
    project's packages.

    Signals: terminals and ``timeout`` send Ctrl-C and SIGTERM to the whole process group, but only the bench may react
    to them. The forkserver inherits them blocked; ``leave_forkserver`` unblocks them in workers.
    """
    with _ONE_START_AT_A_TIME:
        main = sys.modules["__main__"]
        resource_tracker.ensure_running()  # started here, since its start unblocks the signals
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
