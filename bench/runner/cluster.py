"""Client of an existing Dask cluster: the bench submits tasks and stores all rows in its ledger.

A Dask worker runs a task as the bench runs it locally (``bench.runner.dask_worker``) and returns the row. If a node
dies, Dask repeats its task. A row that arrives twice is stored once, because its key identifies it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Self
from uuid import uuid4

from distributed import CancelledError, Client, Future, KilledWorker, Security
from distributed.comm.addressing import get_address_host_port

from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.ledger.writer import Writer
from bench.runner.dask_worker import Node, describe, run_on_node, stop_runs
from bench.runner.interruption import Interruption, signals_noted
from bench.runner.listener import Listener
from bench.runner.runner import known_rows
from bench.task import Task
from instances import InputError
from instances.errors import FieldName

CONNECT_LIMIT_S = 10.0
"""Time limit in seconds for connecting to the Dask scheduler."""

ANSWER_LIMIT_S = 30.0
"""Time limit in seconds for the answers of all nodes."""

EndedTask = tuple[str, "Future[Row]"]
"""Key of a task, and its future."""

_RETRY_INTERVAL_S = 0.1
"""Longest wait for an ended task; then the writer tries again, and a Ctrl-C takes effect."""

_PORTS = 65536
"""Number of TCP ports."""


class DaskCluster:
    """Dask cluster whose nodes all have this bench installed. ``address`` is the address of its Dask scheduler.

    Raises
    ------
    InputError
        If the address is wrong or the Dask scheduler cannot be reached.
    """

    def __init__(self, address: str) -> None:
        _check_form(address)
        try:
            self._client = Client(address, timeout=CONNECT_LIMIT_S, set_as_default=False)
        except (OSError, ValueError, TimeoutError) as error:
            problem = " ".join(str(error).split()) or "no answer from a Dask scheduler"
            raise InputError(_place(address), f"cannot be reached: {problem}") from None
        self.address = address

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Disconnect from the cluster, which keeps running."""
        self._client.close()

    def jobs(self, tasks: Sequence[Task]) -> int:
        """Check the nodes (see ``nodes``) and return how many of ``tasks`` can run in parallel."""
        threads = max(task.threads for task in tasks)
        return sum(node.threads // threads for node in self.nodes(_packages(tasks), threads))

    def nodes(self, packages: Sequence[str], threads: int) -> list[Node]:
        """Return the nodes after a check of their versions (``packages`` included) and of the ``threads`` for a run.

        Raises
        ------
        InputError
            If there are no nodes, a node lacks the bench or has other versions than this process, a node has too few
            threads for a run, or the nodes on a machine have more threads than the machine has cores.
        """
        answers = self._on_all(describe, packages)
        where = _place(self.address)
        if answers is None:
            raise InputError(where, f"a worker has not answered in {ANSWER_LIMIT_S:g} s; end it and repeat the command")
        if not answers:
            raise InputError(where, "has no workers; start some with `dask worker ADDRESS`")
        this_process = describe(packages)
        nodes: list[Node] = []
        for address, node in sorted(answers.items()):
            problem = None
            if not isinstance(node, Node):
                problem = f"does not have this bench installed: {type(node).__name__}: {node}"
            elif (difference := node.difference(this_process)) is not None:
                problem = difference
            elif node.threads < threads:
                problem = f"has {node.threads} threads; a run needs {threads} (`threads`)"
            if problem is not None:
                raise InputError(where + f": {address}", problem)
            nodes.append(node)
        for host in {node.host for node in nodes}:
            nodes_of_host = [node for node in nodes if node.host == host]
            total, cores = sum(node.threads for node in nodes_of_host), nodes_of_host[0].cores
            if total > cores:
                problem = f"its workers have {total} threads for {cores} cores; start them with fewer threads"
                raise InputError(where + f": {nodes_of_host[0].address}", problem)
        return nodes

    def run(
        self, tasks: Sequence[Task], ledger: Ledger | None, listener: Listener | None = None, retry: bool = False
    ) -> list[Row]:
        """Run ``tasks`` in parallel on all nodes and return their rows in the order of ``tasks``; see ``run_tasks``.

        Raises
        ------
        InputError
            As in ``nodes``; also if a node that joins later has other versions, or if a task kills its node repeatedly.
        KeyboardInterrupt
            On Ctrl-C or SIGTERM, after all current runs are stopped. Runs that ended before are in the ledger.
        """
        listener = listener or Listener()
        rows, unfinished = known_rows(tasks, ledger, listener, retry)
        if unfinished:
            with signals_noted() as interrupted:
                rows |= self._run(unfinished, ledger, listener, interrupted)
        return [rows[task.key] for task in tasks]

    def _run(
        self, unfinished: dict[str, Task], ledger: Ledger | None, listener: Listener, interrupted: Interruption
    ) -> dict[str, Row]:
        """Run the ``unfinished`` tasks, remove each from the mapping when it ends, and return their rows by key."""
        packages = _packages(unfinished.values())
        self.nodes(packages, max(task.threads for task in unfinished.values()))
        rows: dict[str, Row] = {}
        writer = Writer(ledger, listener.held_up)

        def take_row(task: Task, row: Row) -> None:
            rows[row.key] = row
            listener.finished(task, row)

        try:
            with self._submitted(unfinished.values(), packages) as ended_tasks:
                while unfinished and not interrupted:
                    writer.retry()
                    try:
                        key, future = ended_tasks.get(timeout=_RETRY_INTERVAL_S)
                    except Empty:
                        continue
                    writer.add(
                        _row(future, unfinished[key]), unfinished[key].instance, partial(take_row, unfinished.pop(key))
                    )
                    future.release()
        finally:
            writer.settle(interrupted.wakeup)
        if interrupted:
            listener.interrupted(list(unfinished.values()))
            raise KeyboardInterrupt
        return rows

    @contextmanager
    def _submitted(self, tasks: Iterable[Task], packages: Sequence[str]) -> Iterator["SimpleQueue[EndedTask]"]:
        """Submit ``tasks`` and yield a queue of the ended tasks; on exit, stop all others."""
        submission, this_process = uuid4().hex, describe(packages)
        ended_tasks: SimpleQueue[EndedTask] = SimpleQueue()
        futures = []
        for task in tasks:
            # The key is unique to this call, because another bench may submit the same run to the cluster.
            key = f"bench-{task.key}-{submission}"
            future = self._client.submit(run_on_node, task, packages, this_process, submission, key=key, pure=False)
            future.add_done_callback(lambda future, key=task.key: ended_tasks.put((key, future)))
            futures.append(future)
        try:
            yield ended_tasks
        finally:
            if running := [future for future in futures if not future.done()]:
                self._on_all(stop_runs, submission, cancelled=running)

    def _on_all(
        self, function: Callable[..., Any], *arguments: object, cancelled: Sequence[Future[Row]] = ()
    ) -> dict[str, Any] | None:
        """Cancel futures, then call a function on all nodes; return the results by node.

        The result is ``None`` if a node does not answer in ``ANSWER_LIMIT_S``, or the Dask scheduler has ended.
        """
        answers: SimpleQueue[dict[str, Any]] = SimpleQueue()

        def call() -> None:
            with suppress(Exception):  # Dask raises exceptions of many types when its scheduler ends
                if cancelled:
                    self._client.cancel(cancelled, force=True)
                answers.put(self._client.run(function, *arguments, on_error="return"))

        # The thread may outlive this call, since Dask waits for a dead node until its scheduler detects the death.
        Thread(target=call, daemon=True).start()
        try:
            return answers.get(timeout=ANSWER_LIMIT_S)
        except Empty:
            return None


def _check_form(address: str) -> None:
    """Refuse addresses that Dask cannot use.

    Otherwise a client that could not start would need 20 s to close, and would print messages.
    """
    try:
        _, port = get_address_host_port(address)
        if not 0 < port < _PORTS:
            raise ValueError
    except (ValueError, NotImplementedError):
        problem = "is not an address; expected one such as tcp://10.0.0.1:8786"
        raise InputError(_place(address), problem) from None
    if address.startswith("tls:") and Security().get_connection_args("client")["ssl_context"] is None:
        problem = "needs certificates; set them in Dask's configuration under distributed.comm.tls"
        raise InputError(_place(address), problem)


def _place(address: str) -> FieldName:
    return FieldName("cluster", f" {address}")


def _packages(tasks: Iterable[Task]) -> list[str]:
    """Return the packages whose code ``tasks`` depend on."""
    return sorted({package for task in tasks for package in task.packages})


def _row(future: Future[Row], task: Task) -> Row:
    """Return the row of an ended task; raise an ``InputError`` if the cluster could not run it."""
    try:
        row: Row = future.result()
    except KilledWorker:
        raise InputError(
            FieldName("cluster", f": {task.instance.name}, {task.scheduler}, seed {task.seed}"),
            "repeatedly killed its Dask worker; see the workers' logs; repeat the command for the remaining runs",
        ) from None
    except CancelledError:
        problem = "the Dask scheduler has ended; restart it and repeat the command for the rest"
        raise InputError(FieldName("cluster"), problem) from None
    return row
