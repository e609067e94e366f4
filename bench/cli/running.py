"""Execution of tasks with progress: a live table on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from bench.cli.options import DEFAULT_LEDGER
from bench.cli.terminal import say
from bench.cli.views.progress import Progress
from bench.extras import how_to_install
from bench.formatting import short
from bench.ledger.row import Row
from bench.ledger.store import Ledger
from bench.runner.runner import run_tasks
from bench.task import Task
from instances import InputError

if TYPE_CHECKING:
    from bench.runner.cluster import DaskCluster


def run_with_progress(
    tasks: Sequence[Task], ledger: Ledger, jobs: int, cluster_address: str | None = None, retry: bool = False
) -> tuple[list[Row], int, bool]:
    """Run ``tasks``, ``jobs`` at a time or on a Dask cluster, and report progress on standard error.

    Runs in the ledger are reused. With ``retry``, failed ones are repeated.

    Returns
    -------
    rows, reused, interrupted
        The rows in the order of ``tasks``; the number of rows that the ledger had; whether Ctrl-C interrupted the
        execution. After an interruption, rows of unfinished runs are missing.
    """
    with ExitStack() as stack:
        cluster = None if cluster_address is None else stack.enter_context(_cluster(cluster_address))
        jobs = jobs if cluster is None else cluster.jobs(tasks)
        if sys.stderr.isatty():
            from bench.cli.views.live import LiveTable  # imports rich's widgets, which a pipe does not need

            progress: Progress = LiveTable(tasks, jobs)
        else:
            progress = Progress(tasks, jobs)
        interrupted = False
        try:
            with progress:
                if cluster is None:
                    run_tasks(tasks, ledger, jobs, progress, retry=retry)
                else:
                    cluster.run(tasks, ledger, progress, retry)
        except KeyboardInterrupt:
            interrupted = True
    keys = dict.fromkeys(task.key for task in tasks)
    return [progress.rows[key] for key in keys if key in progress.rows], progress.reused, interrupted


def tell_failures(rows: Sequence[Row], ledger_file: Path) -> int:
    """Report every failed run with its reason and the command that shows it; return the number of failures."""
    ledger = "" if ledger_file == DEFAULT_LEDGER else f" --ledger {ledger_file}"
    failed = [row for row in rows if row.failed]
    for row in failed:
        say(
            f"failed: {row.instance}, {row.scheduler}, seed {row.seed}: {row.termination}: {row.reason}"
            f" (bench show {short(row)}{ledger})"
        )
    return len(failed)


def _cluster(address: str) -> "DaskCluster":
    try:
        from bench.runner.cluster import DaskCluster  # dask is an extra
    except ModuleNotFoundError as error:
        if (problem := how_to_install(error)) is None:
            raise
        raise InputError("--cluster", problem) from None
    return DaskCluster(address)
