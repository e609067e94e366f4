"""Code inside a Dask worker (a node of a cluster); the node runs a task in a limited process, as the bench does."""

import multiprocessing
import platform
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from distributed import Worker, get_worker

from bench.ledger.row import Row
from bench.provenance import solver_versions, sources_hash, usable_cores
from bench.runner.interruption import Interruption
from bench.runner.runner import run_tasks
from bench.task import Task
from instances import InputError
from instances.errors import FieldName


@dataclass(frozen=True, slots=True)
class Node:
    """Description of a Dask worker or of the bench itself; ``address`` and ``host`` of the bench are empty.

    Attributes
    ----------
    threads, cores
        Threads of the worker, and cores of the machine that the worker may use.
    versions
        Versions of everything that can change a plan: Python, solvers, and a hash of the relevant packages' sources.
    """

    address: str
    host: str
    threads: int
    cores: int
    versions: Mapping[str, str | None]

    def difference(self, other: "Node") -> str | None:
        """Return a message about a version in which this node differs from ``other``, or ``None``."""
        for name, version in other.versions.items():
            if self.versions.get(name) != version:
                if name == "code":
                    return "has different code of the bench or of a scheduler; install the same version everywhere"
                return f"has {name} {self.versions.get(name)}, here it is {version}; install the same everywhere"
        return None


def describe(packages: Sequence[str], dask_worker: Worker | None = None) -> Node:
    """Return the description of this process; the sources of ``packages`` are hashed.

    Dask passes ``dask_worker`` when it calls this function on a node; the bench omits it.
    """
    versions = {"python": platform.python_version(), **solver_versions(), "code": sources_hash(packages)}
    if dask_worker is None:
        return Node("", "", usable_cores(), usable_cores(), versions)
    return Node(dask_worker.address, socket.gethostname(), dask_worker.state.nthreads, usable_cores(), versions)


def run_on_node(task: Task, packages: Sequence[str], bench_node: Node, submission: str) -> Row:
    """Run ``task`` and return its row.

    Parameters
    ----------
    packages, bench_node
        Argument and result of ``describe`` in the bench that submits the task.
    submission
        Name of the submission, that is, of all runs of one call of ``DaskCluster.run``; ``stop_runs`` takes it.

    Raises
    ------
    InputError
        If this node has other versions than ``bench_node``, because the node joined after the check by the bench.
    RuntimeError
        If the submission is stopped.
    """
    node = describe(packages, get_worker())
    difference = node.difference(bench_node)
    if difference is not None:
        raise InputError(FieldName("cluster", f": {node.address}"), difference)
    # Dask's nanny marks its workers as daemons. Daemons may not start processes, since these could outlive them. Here
    # the watchdog kills such processes.
    vars(multiprocessing.current_process())["_config"]["daemon"] = False
    with _CURRENT_RUNS.with_threads(task.threads, node.threads, submission) as interruption:
        try:
            (row,) = run_tasks([task], None, 1, interruption=interruption)
        except KeyboardInterrupt:
            raise RuntimeError("stopped") from None  # a KeyboardInterrupt would stop the Dask worker
    return row


def stop_runs(submission: str) -> None:
    """Stop the runs of a submission in this process, and prevent further ones."""
    _CURRENT_RUNS.stop(submission)


class _CurrentRuns:
    """Current runs in this Dask worker. They share its threads; ``stop`` stops all runs of a submission."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reserved = 0
        self._stopped: set[str] = set()
        self._runs: dict[str, list[Interruption]] = {}

    @contextmanager
    def with_threads(self, threads: int, total: int, submission: str) -> Iterator[Interruption]:
        """Reserve ``threads`` of ``total`` once these are free; a run that needs more waits until it is alone."""
        with self._changed:
            self._changed.wait_for(
                lambda: submission in self._stopped or self._reserved == 0 or self._reserved + threads <= total
            )
            if submission in self._stopped:
                raise RuntimeError("stopped")
            self._reserved += threads
            interruption = Interruption()
            self._runs.setdefault(submission, []).append(interruption)
        try:
            yield interruption
        finally:
            with self._changed:
                self._reserved -= threads
                self._runs[submission].remove(interruption)
                interruption.close()
                self._changed.notify_all()

    def stop(self, submission: str) -> None:
        with self._changed:
            self._stopped.add(submission)
            for interruption in self._runs.get(submission, ()):
                interruption.set()
            self._changed.notify_all()


_CURRENT_RUNS = _CurrentRuns()
