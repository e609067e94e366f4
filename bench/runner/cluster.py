"""Runs on an existing Dask cluster: the bench's side, which keeps the one ledger.

A Dask worker runs a task as the bench runs it locally (``bench.runner.dask_worker``) and sends the row back. When a
node dies, Dask runs its task again; a row that arrives twice is stored once, by its key.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import Self
from uuid import uuid4

from distributed import CancelledError, Client, Future, KilledWorker, Security
from distributed.comm.addressing import get_address_host_port

from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.runner.dask_worker import Node, describe, run_on_node, stop_runs
from bench.runner.runner import Interruption, Listener, known_rows, signals_noted, store
from bench.task import Task
from instances import InputError

CONNECT_S = 10.0
"""How long to wait for the scheduler of the cluster."""

Ended = tuple[str, "Future[Row]"]
"""The key of a task, and what became of it."""

_LOOK_EVERY_S = 0.1
_OPTION = "--cluster"
_PORTS = 65536


class DaskCluster:
    """A Dask cluster whose nodes all have this bench.

    Parameters
    ----------
    address
        Of its scheduler.

    Raises
    ------
    InputError
        If it cannot be reached, has no nodes, or one that lacks the bench or has other versions.
    """

    def __init__(self, address: str) -> None:
        _check_form(address)
        try:
            self._client = Client(address, timeout=CONNECT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            told = " ".join(str(error).split()) or "it does not answer"
            raise InputError(f"{_OPTION} {address}", f"cannot be reached: {told}") from None
        self.address = address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the cluster, which goes on."""
        self._client.close()

    def jobs(self, tasks: Sequence[Task]) -> int:
        """Return how many of ``tasks`` go on at a time, after checking the nodes; see ``nodes``."""
        threads = max(task.threads for task in tasks)
        return sum(node.slots // threads for node in self.nodes(_packages(tasks), threads))

    def nodes(self, packages: Sequence[str], threads: int) -> list[Node]:
        """Return the nodes there are, after checking that rows of them can stand side by side.

        Parameters
        ----------
        packages
            Whose code the runs depend on.
        threads
            Of a run.

        Raises
        ------
        InputError
            If there are none, one differs in versions from here, one is too small for a run, or a machine has more
            threads than cores.
        """
        answers = self._client.run(describe, packages, on_error="return")
        where = f"{_OPTION} {self.address}"
        if not answers:
            raise InputError(where, "has no workers; start some with `dask worker ADDRESS`")
        here = describe(packages)
        nodes: list[Node] = []
        for address, node in sorted(answers.items()):
            if not isinstance(node, Node):
                raise InputError(f"{where}: {address}", f"lacks this bench: {type(node).__name__}: {node}")
            difference = node.difference(here)
            if difference is not None:
                raise InputError(f"{where}: {address}", difference)
            if node.slots < threads:
                raise InputError(f"{where}: {address}", f"has {node.slots} threads; a run has {threads} (--threads)")
            nodes.append(node)
        for host in {node.host for node in nodes}:
            there = [node for node in nodes if node.host == host]
            slots, cores = sum(node.slots for node in there), there[0].cores
            if slots > cores:
                problem = f"its workers have {slots} threads for {cores} cores; start them with fewer"
                raise InputError(f"{where}: {there[0].address}", problem)
        return nodes

    def run(
        self, tasks: Sequence[Task], ledger: Ledger | None, listener: Listener | None = None, retry: bool = False
    ) -> list[Row]:
        """Run ``tasks`` on all nodes at once and return their rows in the order of ``tasks``; see ``run_tasks``.

        Raises
        ------
        InputError
            As ``nodes``; also later, if a node that joins differs; and if nodes die again and again under one task.
        KeyboardInterrupt
            On Ctrl-C or SIGTERM, after all runs under way were stopped. What had ended before is in the ledger.
        """
        listener = listener or Listener()
        rows, waiting = known_rows(tasks, ledger, listener, retry)
        if waiting:
            with signals_noted() as interrupted:
                rows |= self._run(waiting, ledger, listener, interrupted)
        return [rows[task.key] for task in tasks]

    def _run(
        self, waiting: dict[str, Task], ledger: Ledger | None, listener: Listener, interrupted: Interruption
    ) -> dict[str, Row]:
        packages = _packages(waiting.values())
        self.nodes(packages, max(task.threads for task in waiting.values()))
        rows: dict[str, Row] = {}
        with self._submitted(waiting.values(), packages) as ended:
            while waiting and not interrupted:
                try:
                    key, future = ended.get(timeout=_LOOK_EVERY_S)
                except Empty:
                    continue
                task = waiting.pop(key)
                rows[key] = store(_row(future, task), task, ledger, listener)
                future.release()
        if interrupted:
            listener.interrupted(list(waiting.values()))
            raise KeyboardInterrupt
        return rows

    @contextmanager
    def _submitted(self, tasks: Iterable[Task], packages: Sequence[str]) -> Iterator["SimpleQueue[Ended]"]:
        """Have the cluster work on ``tasks`` and yield a queue of what has ended; the rest is stopped at the end."""
        batch, here = uuid4().hex, describe(packages)
        ended: SimpleQueue[Ended] = SimpleQueue()
        futures = []
        for task in tasks:
            # A key of its own: another bench may have asked the cluster for the same run.
            key = f"bench-{task.key}-{batch}"
            future = self._client.submit(run_on_node, task, packages, here, batch, key=key, pure=False)
            future.add_done_callback(lambda future, key=task.key: ended.put((key, future)))
            futures.append(future)
        try:
            yield ended
        finally:
            self._client.cancel([future for future in futures if not future.done()], force=True)
            self._client.run(stop_runs, batch, on_error="ignore")


def _check_form(address: str) -> None:
    """Refuse what no client can be made for: Dask takes 20 s to close one that it could not start, and not quietly."""
    try:
        _, port = get_address_host_port(address)
        if not 0 < port < _PORTS:
            raise ValueError
    except (ValueError, NotImplementedError):
        raise InputError(f"{_OPTION} {address}", "is no address; expected one such as tcp://10.0.0.1:8786") from None
    if address.startswith("tls:") and Security().get_connection_args("client")["ssl_context"] is None:
        problem = "needs certificates, which Dask's configuration names under distributed.comm.tls"
        raise InputError(f"{_OPTION} {address}", problem)


def _packages(tasks: Iterable[Task]) -> list[str]:
    """Return those whose code ``tasks`` depend on."""
    return sorted({package for task in tasks for package in task.packages})


def _row(future: "Future[Row]", task: Task) -> Row:
    try:
        row: Row = future.result()
    except KilledWorker:
        raise InputError(
            f"{_OPTION}: {task.instance.name}, {task.scheduler}, seed {task.seed}",
            "the workers that ran it died, one after the other: look at their logs; the same command runs the rest",
        ) from None
    except CancelledError:
        raise InputError(_OPTION, "the scheduler of the cluster is gone; the same command runs the rest") from None
    return row
