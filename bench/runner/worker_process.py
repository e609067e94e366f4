"""Handle of one worker process in the bench: its start, messages, output, and end with all its children."""

import fcntl
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path

from bench.runner.forkserver import forkserver_pid, has_died, start_process
from bench.runner.messages import LineReader, Message
from bench.runner.watchdog import Watchdog, boot_ticks, kill_run

LOG_TAIL_BYTES = 4096
"""Number of bytes that are kept from the end of a run's output."""

_PIECE_BYTES = 2**16
"""Largest number of bytes in one read from a pipe."""

_LARGE_PIPE_BYTES = 2**20
"""Size of the buffer of an enlarged pipe."""

_MAX_PIECES = 32
"""Largest number of pieces that are read from a pipe before the bench turns to other runs."""

_JOIN_S = 5.0
"""Longest wait for the end of a killed worker."""

_NO_EXIT_CODE = 255
"""Exit code that multiprocessing returns for a process whose forkserver has died."""


def enlarge_pipe(descriptor: int) -> None:
    """Enlarge the buffer of a pipe, if the system permits it."""
    if sys.platform == "linux":
        with suppress(OSError):  # the number of large pipes per user is limited
            fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _LARGE_PIPE_BYTES)


class Worker:
    """Worker process that waits for orders; ``watchdog`` guards the process from its start.

    The process runs the function ``main``. The arguments of ``main`` are the pipes for orders, messages and output.
    """

    def __init__(self, main: Callable[[Connection, Connection, Connection], None], watchdog: Watchdog) -> None:
        self._born_ticks = boot_ticks()
        self._process, (self._inbox, self._outbox, self._log) = start_process(main, "bench worker", reads=1, writes=2)
        self._forkserver_pid = forkserver_pid()
        for pipe in (self._outbox, self._log):
            os.set_blocking(pipe.fileno(), False)
        enlarge_pipe(self._log.fileno())
        assert self._process.pid is not None
        self.pid = self._process.pid
        self._watchdog = watchdog
        watchdog.guard(self.pid)
        self._reader = LineReader()
        self._log_tail_bytes = b""
        self.emptied = True
        """Whether the latest call of ``messages`` read everything that had arrived."""
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
        """Return the messages that have arrived, without waiting, and read the worker's output.

        Raises
        ------
        InputError
            If the pipe contains data that is not a message.
        """
        self._read_log()
        pieces = list(self._pieces(self._outbox))
        self.emptied = len(pieces) < _MAX_PIECES
        return [message for piece in pieces for message in self._reader.feed(piece)]

    @property
    def silent(self) -> bool:
        """Whether no more messages can arrive, because the process has ended or closed its pipe."""
        return self._outbox not in self.readable

    def _read_log(self) -> None:
        for piece in self._pieces(self._log):
            self._log_tail_bytes = (self._log_tail_bytes + piece)[-LOG_TAIL_BYTES:]

    def _pieces(self, pipe: Connection) -> Iterator[bytes]:
        """Yield up to ``_MAX_PIECES`` pieces from ``pipe`` without waiting; the limit stops an endless stream."""
        with suppress(BlockingIOError):
            for _ in range(_MAX_PIECES):
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
        return self._log_tail_bytes.decode(errors="replace")

    def peak_memory_mb(self) -> float | None:
        """Return the largest resident memory of the process so far in MiB, or ``None`` if it is unknown."""
        try:
            lines = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8").splitlines()
        except OSError:
            return None
        return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:")), None)

    def end(self) -> int | None:
        """Kill the worker and all processes that it started, read the rest of its output, and return its exit code.

        A negative code is the signal that ended the process. ``None`` means that the process has not ended yet.
        """
        kill_run(self.pid, self._born_ticks, forkserver_pid())
        self._process.join(_JOIN_S)
        exit_code = self._process.exitcode
        self._watchdog.release(self.pid)
        self._read_log()
        for pipe in (self._inbox, self._outbox, self._log):
            pipe.close()
        if exit_code is not None:
            self._process.close()
        return exit_code

    @property
    def lost(self) -> bool:
        """Whether the end of the process is unknown because the forkserver was killed."""
        return self._process.exitcode == _NO_EXIT_CODE and has_died(self._forkserver_pid)

    def exit_code(self, wait_s: float) -> int | None:
        """Return the exit code of a worker that ends by itself, or ``None`` if it still runs after ``wait_s``."""
        self._process.join(wait_s)
        return self._process.exitcode
