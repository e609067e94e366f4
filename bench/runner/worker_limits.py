"""Limits of a worker: the limits of its control group, and those that the worker sets before it runs a scheduler."""

import ctypes
import faulthandler
import multiprocessing
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from pathlib import Path

GROUP_PREFIX = "gpushare-bench"
"""Start of the names of control groups."""

ROOTS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/unified"))
"""Folders at which version 2 of the control groups may be mounted."""

MEMBERSHIP = Path("/proc/self/cgroup")
"""File with the control groups of this process."""

SAFE_PATH_MARK = "bench.runner.preload"
"""Value of ``PYTHONSAFEPATH`` for the forkserver only; the forkserver removes the variable for its children."""

LOG_VARIABLE = "GPUSHARE_BENCH_FORKSERVER_LOG"
"""Environment variable with the name of a file. A forkserver that cannot load writes the reason to this file."""

RUN_VARIABLE = "GPUSHARE_BENCH_RUN"
"""Environment variable that marks the processes of a run with the process id of its worker."""

THREAD_LIBRARIES = ("OMP", "OPENBLAS", "MKL", "NUMEXPR", "NUMBA", "RAYON")
"""Libraries whose environment variables ``*_NUM_THREADS`` are set."""

_PERIOD_US = 100_000
"""Period of the limit on CPU time, in microseconds; this is the kernel's default."""

_REMOVE_LIMIT_S = 1.0
"""Time after which the removal of a control group is given up."""

_PR_SET_CHILD_SUBREAPER = 36
"""Option of ``prctl`` from ``linux/prctl.h``."""


class ControlGroup:
    """Control group of one run. It limits memory (swap included), and CPU time to as many cores as threads.

    Parameters
    ----------
    folder
        Folder of the group in the kernel's file system; created here.
    memory_mb
        Memory limit in MiB.
    process
        Process to put into the group; the processes that it starts then belong to the group as well.

    Raises
    ------
    OSError
        If the group or its memory limit cannot be created.
    """

    def __init__(self, folder: Path, memory_mb: float, threads: int, process: int) -> None:
        self._folder = folder
        folder.mkdir()
        try:
            self._write("memory.max", f"{int(memory_mb * 2**20)}")
            self._write("cgroup.procs", str(process))
        except OSError:
            self.remove()
            raise
        # Under ``memory.oom.group``, the kernel kills all processes of the group. A scheduler that lost only a child
        # process would report another error.
        optional_limits = {
            "memory.swap.max": "0",
            "memory.oom.group": "1",
            "cpu.max": f"{threads * _PERIOD_US} {_PERIOD_US}",
        }
        for file, value in optional_limits.items():
            with suppress(OSError):  # the controller may not be delegated
                self._write(file, value)

    def ran_out_of_memory(self) -> bool:
        """Return whether the kernel has killed the processes because of the memory limit."""
        lines = _text(self._folder / "memory.events").splitlines()
        return any(line.startswith("oom_kill ") and int(line.split()[1]) > 0 for line in lines)

    def kill(self) -> None:
        """Kill all processes in the group at once; without effect on kernels before 5.14."""
        with suppress(OSError):
            self._write("cgroup.kill", "1")

    def remove(self) -> None:
        """Remove the group; its processes must be dead or dying."""
        deadline = time.monotonic() + _REMOVE_LIMIT_S
        while time.monotonic() < deadline:
            try:
                self._folder.rmdir()
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.001)

    def _write(self, file: str, value: str) -> None:
        (self._folder / file).write_text(value, encoding="ascii")


def control_group(process: int, memory_mb: float | None, threads: int) -> ControlGroup | None:
    """Return a group with ``process`` in it, or ``None`` if there is no limit or no group can be created."""
    if memory_mb is None:
        return None
    for parent in _parent_groups():
        with suppress(OSError):
            return ControlGroup(parent / f"{GROUP_PREFIX}-{os.getpid()}-{process}", memory_mb, threads, process)
    return None


def in_control_group() -> bool:
    """Return whether this process is in a group created by ``control_group``."""
    return f"/{GROUP_PREFIX}-" in _text(MEMBERSHIP)


def _parent_groups() -> Iterator[Path]:
    """Yield the groups in which groups with a memory limit can be created."""
    own_path = next((line[3:] for line in _text(MEMBERSHIP).splitlines() if line.startswith("0::")), None)
    if own_path is None:
        return
    for root in ROOTS:
        group = root / own_path.lstrip("/")
        for candidate in (group, group.parent) if group != root else (group,):
            if "memory" in _text(candidate / "cgroup.subtree_control").split():
                yield candidate


def _text(file: Path) -> str:
    """Return the content of a file of the kernel; empty if the file cannot be read."""
    try:
        return file.read_text(encoding="ascii")
    except (OSError, UnicodeDecodeError):
        return ""


def mark(worker: int = 0) -> str:
    """Return the value of ``RUN_VARIABLE`` for the run of ``worker``; 0 stands for the forkserver."""
    return f"{worker:010d}"


def become_worker(log: Connection) -> None:
    """Make this process, which the forkserver started, the worker of a run; its output goes to ``log``."""
    leave_forkserver()
    _mark_run()
    adopt_orphans()
    _redirect_output(log.fileno())
    log.close()


def _mark_run() -> None:
    """Mark this process and those that it will start as processes of its run.

    The kernel shows the environment with which a process started. This function overwrites the forkserver's mark in
    that environment, so that forks of this process show the mark of this run as well.
    """
    own_mark = mark(os.getpid())
    if sys.platform == "linux":
        library = ctypes.CDLL(None)
        library.getenv.restype = ctypes.c_void_p
        address = library.getenv(RUN_VARIABLE.encode())
        if address and len(ctypes.string_at(address)) == len(own_mark):
            ctypes.memmove(address, own_mark.encode(), len(own_mark))
    os.environ[RUN_VARIABLE] = own_mark


def leave_forkserver(*, detach: bool = True) -> None:
    """Start a new session and process group, unblock signals, and detach from the forkserver.

    The forkserver ends when the last copy of its "alive" descriptor is closed. Every child inherits a copy: a worker
    that kept its copy open would keep the forkserver alive after the bench was killed. The watchdog keeps its copy,
    since the orphans of the runs are children of the forkserver.

    Processes that libraries start in a worker are forked from the worker and do not come from the forkserver. The
    objects that multiprocessing shares with forked processes have no names, so none outlives a killed worker.
    """
    os.setsid()
    multiprocessing.set_start_method("fork", force=True)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT, signal.SIGTERM])
    server = vars(forkserver._forkserver)
    alive = server.get("_forkserver_alive_fd")
    if detach and isinstance(alive, int):
        os.close(alive)
        server["_forkserver_alive_fd"] = None


def adopt_orphans() -> None:
    """Make this process the parent of its orphaned descendants, so that the watchdog finds them.

    If a scheduler undoes this in its worker, the forkserver adopts the orphans.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _redirect_output(log: int) -> None:
    """Redirect the output of this process and its children to the descriptor ``log``."""
    os.dup2(log, 1)
    os.dup2(log, 2)
    # The inherited streams may be closed or replaced. Every line is flushed, since a killed process loses its buffers.
    sys.stdout = open(1, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)  # noqa: SIM115
    faulthandler.enable(sys.stderr)


def limit_threads(threads: int) -> None:
    """Limit the threads of libraries through environment variables.

    Libraries that are imported later read the variables. Of those that are already imported, Numba reads them again;
    NumPy's BLAS keeps the one thread that ``bench.runner.warm_modules`` sets.
    """
    for library in THREAD_LIBRARIES:
        os.environ[f"{library}_NUM_THREADS"] = str(threads)
    if "numba" in sys.modules:
        from numba.core import config  # imported only if a scheduler or the preload has loaded Numba

        config.reload_config()  # type: ignore[no-untyped-call] # numba has no type information


def limit_memory(limit_mb: float | None) -> None:
    """Limit the address space of this process and of each of its children, and disable core files.

    Only the soft limit is set, since the worker later lifts the limit to report that it was reached.

    Raises
    ------
    MemoryError
        If the process is already larger than the limit, so that later code would fail unpredictably.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if limit_mb is None:
        return
    with suppress(OSError):  # the system may not report the address space
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        mapped_mb = pages * resource.getpagesize() / 2**20
        if mapped_mb > limit_mb:
            raise MemoryError(f"a worker needs {mapped_mb:.0f} MiB of address space before it loads a scheduler")
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = int(limit_mb * 2**20)
    resource.setrlimit(resource.RLIMIT_AS, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))


def lift_memory_limit() -> None:
    """Lift the soft limit, so that the worker can report after its measurement."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def peak_memory_mb() -> float:
    """Return the largest resident memory so far of this process or of one of its ended children, in MiB."""
    peaks = (resource.getrusage(processes).ru_maxrss for processes in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    unit = 1 if sys.platform == "darwin" else 1024  # bytes on macOS, KiB elsewhere
    return max(peaks) * unit / 2**20
