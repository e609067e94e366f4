"""Start of processes from the forkserver, which has the bench's libraries loaded. A killed forkserver is replaced."""

import multiprocessing.process
import os
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from multiprocessing import forkserver, get_context, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from types import ModuleType
from uuid import uuid4

from bench.runner.worker_limits import LOG_VARIABLE, RUN_VARIABLE, SAFE_PATH_MARK, mark
from instances import InputError

_ATTEMPTS = 5
"""Number of attempts to start a process."""

_RETRY_PAUSE_S = 0.05
"""Pause after a failed attempt."""

_DEATH_WAIT_S = 0.2
"""Time in which the forkserver must end if it is dying."""


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
    """Start a process from the forkserver; repeat the start if the process dies meanwhile.

    Returns
    -------
    process, pipes
        The process, and the bench's ends of its pipes. The arguments of ``target`` are the other ends: first the
        ``reads`` pipes from which it reads, then the ``writes`` pipes to which it writes.

    Raises
    ------
    InputError
        If the forkserver cannot load its modules, or dies in every attempt.
    """
    context = forkserver_context()
    for _ in range(_ATTEMPTS):
        _check_log()
        # Every attempt has its own pipes, since a process of the previous attempt may be alive with an unknown id.
        inward, outward = ([context.Pipe(duplex=False) for _ in range(count)] for count in (reads, writes))
        bench_ends = [bench_end for _, bench_end in inward] + [bench_end for bench_end, _ in outward]
        process_ends = [process_end for process_end, _ in inward] + [process_end for _, process_end in outward]
        # Schedulers may start processes, but daemons may not; so the process is no daemon.
        process = context.Process(target=target, args=tuple(process_ends), name=name)
        try:
            with _clean_start():
                process.start()
        except (EOFError, ConnectionError):
            for pipe in bench_ends:
                pipe.close()
            time.sleep(_RETRY_PAUSE_S)
        else:
            return process, bench_ends
        finally:
            for pipe in process_ends:
                pipe.close()
    _check_log()
    raise InputError("bench", f"the forkserver, which starts the workers, was killed {_ATTEMPTS} times in a row")


@cache
def _log() -> Path:
    """Return the file to which a forkserver of this process writes an exception. Its name cannot be guessed."""
    return Path(tempfile.gettempdir(), f"gpushare-bench-forkserver-{uuid4().hex}.log")


def _check_log() -> None:
    """Raise an ``InputError`` if a forkserver has ended with an exception; the next forkserver gets another log."""
    log = _log()
    if log.exists():
        _log.cache_clear()
        reason = log.read_text(encoding="utf-8").partition("\n")[0]
        problem = f"the forkserver, which starts the workers, does not load: {reason}; traceback in {log}"
        raise InputError("bench", problem)


def forkserver_pid() -> int | None:
    """Return the process id of the current forkserver, which may have ended."""
    return vars(forkserver._forkserver)["_forkserver_pid"]


@contextmanager
def processes_of_bench() -> Iterator[set[int]]:
    """Yield the ids of all processes that multiprocessing started here; none starts in the ``with`` block."""
    with _ONE_START_AT_A_TIME:
        started = vars(multiprocessing.process)["_children"].copy()
        yield {process.pid for process in started if process.pid is not None}


def has_died(server: int | None) -> bool:
    """Return whether the forkserver with this process id has ended or ends within ``_DEATH_WAIT_S``."""
    deadline = time.monotonic() + _DEATH_WAIT_S
    while server is not None and server == forkserver_pid():
        try:
            # WNOWAIT keeps the exit status, so that multiprocessing also detects the end.
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
        # The forkserver inherits the blocked signals; ``leave_forkserver`` unblocks them in workers.
        resource_tracker.ensure_running()  # started before, because its start unblocks the signals
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT, signal.SIGTERM])
        arguments, sys.argv = sys.argv, sys.argv[:1]  # workers would find the path of the ledger in the arguments
        # The forkserver would import folders called ``instances`` or ``bench`` in the working directory.
        safe_path = os.environ.setdefault("PYTHONSAFEPATH", SAFE_PATH_MARK)
        run_mark = os.environ.setdefault(RUN_VARIABLE, mark())  # workers overwrite this mark with their own
        os.environ[LOG_VARIABLE] = str(_log())
        # ``multiprocessing`` would import the main program again in every worker, since the main program may define the
        # target. The bench's targets are never defined there, and the import would take a third of a second per run.
        main, sys.modules["__main__"] = sys.modules["__main__"], ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main
            sys.argv = arguments
            if safe_path == SAFE_PATH_MARK:
                del os.environ["PYTHONSAFEPATH"]
            del os.environ[LOG_VARIABLE]
            if run_mark == mark():
                del os.environ[RUN_VARIABLE]
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
