"""A node of a cluster: inside a Dask worker, which runs a task in a limited process of its own as the bench does."""

import multiprocessing
import platform
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from distributed import Worker, get_worker

from bench.code_version import solver_versions, sources_hash
from bench.ledger.row import Row
from bench.provenance import usable_cores
from bench.runner.runner import Interruption, run_tasks
from bench.task import Task
from instances import InputError


@dataclass(frozen=True, slots=True)
class Node:
    """A Dask worker as the bench sees it.

    Attributes
    ----------
    address, host
        Of the worker and of its machine; of the bench itself they are empty.
    slots, cores
        Threads that it may run at a time, and cores of the machine that it may use.
    versions
        Of all that can change a plan: Python, solvers, and the sources of the packages asked for.
    """

    address: str
    host: str
    slots: int
    cores: int
    versions: Mapping[str, str | None]

    def difference(self, other: "Node") -> str | None:
        """Say in which version this node differs from ``other``; ``None`` if in none."""
        for name, version in other.versions.items():
            if self.versions.get(name) != version:
                if name == "code":
                    return "has other code of the bench or of a scheduler; install the same everywhere"
                return f"has {name} {self.versions.get(name)}, here it is {version}; install the same everywhere"
        return None


def describe(packages: Sequence[str], dask_worker: Worker | None = None) -> Node:
    """Return what this process is; ``packages`` are those whose sources matter.

    Where Dask runs this by itself it fills in ``dask_worker``; the bench has none.
    """
    versions = {"python": platform.python_version(), **solver_versions(), "code": sources_hash(packages)}
    if dask_worker is None:
        return Node("", "", usable_cores(), usable_cores(), versions)
    return Node(dask_worker.address, socket.gethostname(), dask_worker.state.nthreads, usable_cores(), versions)


def run_on_node(task: Task, packages: Sequence[str], here: Node, batch: str) -> Row:
    """Run ``task`` and return its row.

    Parameters
    ----------
    task
        To be run.
    packages, here
        What the bench that asks has described itself by, and as what.
    batch
        By which ``stop_runs`` knows what to stop.

    Raises
    ------
    InputError
        If this node has other versions than ``here``: it joined after the bench had looked.
    RuntimeError
        If the batch is stopped.
    """
    node = describe(packages, get_worker())
    difference = node.difference(here)
    if difference is not None:
        raise InputError(f"--cluster: {node.address}", difference)
    # Dask's nanny marks its workers as daemons, which may not have children lest these outlive them. The warden sees to
    # that here.
    vars(multiprocessing.current_process())["_config"]["daemon"] = False
    with _UNDER_WAY.slots(task.threads, node.slots, batch) as interruption:
        try:
            (row,) = run_tasks([task], None, 1, interruption=interruption)
        except KeyboardInterrupt:
            raise RuntimeError("stopped") from None  # not for the process of this thread
    return row


def stop_runs(batch: str) -> None:
    """Stop the runs of a batch that go on in this process, and let none begin."""
    _UNDER_WAY.stop(batch)


class _UnderWay:
    """The runs in this process: never of more threads than it has, and stopped together."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._threads = 0
        self._stopped: set[str] = set()
        self._runs: dict[str, list[Interruption]] = {}

    @contextmanager
    def slots(self, threads: int, most: int, batch: str) -> Iterator[Interruption]:
        """Wait for ``threads`` of ``most`` to be free and hold them; a run that is too large waits to be alone."""
        with self._changed:
            self._changed.wait_for(
                lambda: batch in self._stopped or self._threads == 0 or self._threads + threads <= most
            )
            if batch in self._stopped:
                raise RuntimeError("stopped")
            self._threads += threads
            interruption = Interruption()
            self._runs.setdefault(batch, []).append(interruption)
        try:
            yield interruption
        finally:
            with self._changed:
                self._threads -= threads
                self._runs[batch].remove(interruption)
                interruption.close()
                self._changed.notify_all()

    def stop(self, batch: str) -> None:
        with self._changed:
            self._stopped.add(batch)
            for interruption in self._runs.get(batch, ()):
                interruption.come()
            self._changed.notify_all()


_UNDER_WAY = _UnderWay()
