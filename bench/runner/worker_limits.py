"""Limits that a fresh worker process sets on itself before any code of a scheduler runs."""

import ctypes
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
from multiprocessing import forkserver
from pathlib import Path

MIB = 2**20

SAFE_PATH_MARK = "bench.runner.preload"
"""Value of ``PYTHONSAFEPATH`` that is meant for the forkserver alone, which removes it again."""

_PR_SET_CHILD_SUBREAPER = 36

THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "NUMBA_NUM_THREADS",
    "RAYON_NUM_THREADS",
)


def leave_forkserver() -> None:
    """Start a session and process group of its own, take signals again, and let go of the forkserver.

    The forkserver ends when the last copy of its "alive" descriptor is closed. Every child inherits one: a worker that
    kept it would keep the forkserver alive after the bench was killed. Nor do the libraries' own processes come from
    it: what multiprocessing shares with forked ones has no name that would outlive a worker that is killed.
    """
    os.setsid()
    multiprocessing.set_start_method("fork", force=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
    server = vars(forkserver._forkserver)
    alive = server.get("_forkserver_alive_fd")
    if isinstance(alive, int):
        os.close(alive)
        server["_forkserver_alive_fd"] = None


def adopt_orphans() -> None:
    """Become the parent of descendants whose own parent ends, so that ``kill_tree`` finds them below this process."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def redirect_output(log: int) -> None:
    """Send everything this process and its children print to the descriptor ``log``."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    # The streams that came through the fork may be closed or replaced; lines are passed on at once, since a killed
    # process flushes nothing.
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.enable(sys.stderr)


def limit_threads(threads: int) -> None:
    """Tell every library that reads it from the environment how many threads it may start.

    Libraries that are loaded later read it then. Of those that came through the fork, Numba is told; NumPy's own BLAS
    stays at the one thread of ``bench.runner.preload``.
    """
    for variable in THREAD_VARIABLES:
        os.environ[variable] = str(threads)
    if "numba" in sys.modules:
        from numba.core import config

        config.reload_config()  # type: ignore[no-untyped-call] # numba has no type information


def limit_memory(limit_mb: float | None) -> None:
    """Cap the address space of this process and of each of its children; no core files either.

    The soft limit only: the worker lifts it again to report that it was reached.

    Raises
    ------
    MemoryError
        If the process is larger already: whatever ran then would fail in odd ways.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit_mb is None:
        return
    mapped_mb = _address_space_mb()
    if mapped_mb is not None and mapped_mb > limit_mb:
        raise MemoryError(f"a worker takes {mapped_mb:.0f} MiB of address space before it loads a scheduler")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = int(limit_mb * MIB)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def _address_space_mb() -> float | None:
    """Return what this process has mapped, in MiB, where the system tells."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
    except OSError:
        return None
    return pages * resource.getpagesize() / MIB


def lift_memory_limit() -> None:
    """Make room to report: what was measured is over."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def peak_memory_mb() -> float:
    """Return the largest resident memory of this process or of one of its ended children so far, in MiB."""
    peaks = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB elsewhere
    return max(peaks) * unit / MIB
