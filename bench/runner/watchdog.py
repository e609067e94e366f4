"""A process that outlives the bench by a moment: when the bench is gone, however it died, it kills the workers.

A thread in the worker could not: a scheduler that spins in C holds the interpreter lock. The kernel's parent-death
signal could not: it kills the worker alone, and then nobody knows any more which processes were its children.
"""

import os
import signal
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext

from bench.runner.process_tree import kill_tree
from bench.runner.worker_limits import leave_forkserver

_JOIN_S = 5.0


class Warden:
    """The bench's side: tells the warden which workers there are, and starts another if it is killed."""

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
        """Have ``worker`` killed if the bench dies."""
        self._guarded.add(worker)
        self._tell(f"+{worker}\n")

    def release(self, worker: int) -> None:
        """Forget ``worker``: it is gone."""
        self._guarded.discard(worker)
        self._tell(f"-{worker}\n")

    def _tell(self, line: str) -> None:
        try:
            os.write(self._outbox.fileno(), line.encode())
        except BrokenPipeError:  # somebody killed the warden
            self._outbox.close()
            self._start()
            for worker in self._guarded:
                os.write(self._outbox.fileno(), f"+{worker}\n".encode())

    def close(self) -> None:
        """End the warden; it kills what it still guards."""
        self._outbox.close()
        self._process.join(_JOIN_S)


def watch(inbox: Connection) -> None:
    """Be the warden: read who is to be guarded until the bench closes the pipe or dies, then kill them."""
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
