"""Watchdog process that kills the workers when the bench ends, whatever the cause.

A thread in the worker cannot do this: a scheduler that loops in C code holds the interpreter lock. The kernel's
parent-death signal cannot either: it kills only the worker, and then the worker's children can no longer be found.
"""

import os
import signal
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

from bench.runner.process_tree import kill_tree
from bench.runner.worker_limits import leave_forkserver

_JOIN_S = 5.0


class Warden:
    """Handle of the watchdog in the bench: it registers workers, and restarts a watchdog that was killed."""

    def __init__(self, context: ForkServerContext) -> None:
        self._context = context
        self._guarded: set[int] = set()
        self._start()

    def _start(self) -> None:
        inbox, self._outbox = self._context.Pipe(duplex=False)
        self._process = self._context.Process(target=watch, args=(inbox,), name="bench warden")
        self._process.start()
        inbox.close()

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
