"""Start of processes from the forkserver, which has loaded the bench's libraries; a killed forkserver is replaced."""

import multiprocessing.process
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from types import ModuleType

from bench.runner.worker_limits import RUN_VARIABLE, SAFE_PATH_MARK, mark
from instances import InputError

_ATTEMPTS = 5
_PAUSE_S = 0.05
_DYING_S = 0.2


@cache
def forkserver_context() -> ForkServerContext:
    """Return the context whose forkserver preloads ``bench.runner.preload``.

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


def start_process(
    target: Callable[..., None], name: str, reads: int, writes: int
) -> tuple[ForkServerProcess, list[Connection]]:
    """Start a process from the forkserver; one that dies meanwhile is replaced.

    Returns
    -------
    process, pipes
        The process, and the bench's ends of its pipes. The arguments of ``target`` are the other ends: the ``reads``
        from which it reads, then the ``writes`` to which it writes.

    Raises
    ------
    InputError
        If the forkserver dies again and again.
    """
    context = forkserver_context()
    for _ in range(_ATTEMPTS):
        # Every attempt has its own pipes: a process of the previous one may be alive, although its id is unknown.
        inward, outward = ([context.Pipe(duplex=False) for _ in range(count)] for count in (reads, writes))
        mine = [ours for _, ours in inward] + [ours for ours, _ in outward]
        theirs = [end for end, _ in inward] + [end for _, end in outward]
        # Not a daemon: schedulers may start processes, which daemons may not.
        process = context.Process(target=target, args=tuple(theirs), name=name)
        try:
            with _clean_start():
                process.start()
        except (EOFError, ConnectionError):
            for pipe in mine:
                pipe.close()
            time.sleep(_PAUSE_S)
        else:
            return process, mine
        finally:
            for pipe in theirs:
                pipe.close()
    raise InputError("bench", f"the forkserver, which starts the workers, was killed {_ATTEMPTS} times in a row")


def forkserver_pid() -> int | None:
    """Return the process id of the current forkserver, which may have ended."""
    return vars(forkserver._forkserver)["_forkserver_pid"]


@contextmanager
def own_processes() -> Iterator[set[int]]:
    """Yield the ids of all processes that multiprocessing has started here; meanwhile this module starts none."""
    with _ONE_START_AT_A_TIME:
        started = vars(multiprocessing.process)["_children"].copy()
        yield {process.pid for process in started if process.pid is not None}


def has_died(server: int | None) -> bool:
    """Return whether the forkserver with this process id has ended or ends within ``_DYING_S``."""
    deadline = time.monotonic() + _DYING_S
    while server is not None and server == forkserver_pid():
        try:
            # WNOWAIT leaves the exit status, so that multiprocessing notices the end as well.
            if os.waitid(os.P_PID, server, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None:
                return True
        except ChildProcessError:
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


_ONE_START_AT_A_TIME = threading.RLock()
"""Lock around ``_clean_start``, which temporarily changes the state of the whole process."""


@contextmanager
def _clean_start() -> Iterator[None]:
    """Isolate new processes from the bench's signals, arguments, working directory and main program."""
    with _ONE_START_AT_A_TIME:
        # Terminals and ``timeout`` send Ctrl-C and SIGTERM to the whole process group, but only the bench may react.
        # The forkserver inherits the signals blocked; ``leave_forkserver`` unblocks them in workers.
        resource_tracker.ensure_running()  # started before, because its start unblocks the signals
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
        arguments, sys.argv = sys.argv, sys.argv[:1]  # workers would find the path of the ledger in the arguments
        # The forkserver would import folders called ``instances`` or ``bench`` in the working directory.
        safe_path = os.environ.setdefault("PYTHONSAFEPATH", SAFE_PATH_MARK)
        run = os.environ.setdefault(RUN_VARIABLE, mark())  # workers overwrite this mark with their own
        # ``multiprocessing`` would import the main program again in every worker, in case it defines the target. It
        # never does here, and the import would cost a third of a second per run on the command line.
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            sys.argv = arguments
            if safe_path == SAFE_PATH_MARK:
                del os.environ["PYTHONSAFEPATH"]
            if run == mark():
                del os.environ[RUN_VARIABLE]
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
