"""Run tasks and tell how it goes: a live table on a terminal, plain lines elsewhere."""

import sys
from collections.abc import Sequence

from bench.cli.progress import Progress
from bench.ledger import Ledger
from bench.row import Row
from bench.runner import run_tasks
from bench.task import Task


def run_with_progress(tasks: Sequence[Task], ledger: Ledger, jobs: int) -> tuple[list[Row], int, bool]:
    """Run ``tasks`` and tell how it goes on standard error.

    Returns
    -------
    rows, reused, interrupted
        The rows in the order of ``tasks``, how many of them the ledger had, and whether Ctrl-C came first: then only
        the rows that there are.
    """
    if sys.stderr.isatty():
        from bench.cli.live import LiveTable  # rich's widgets, which a pipe has no use for

        progress: Progress = LiveTable(tasks, jobs)
    else:
        progress = Progress(tasks, jobs)
    interrupted = False
    try:
        with progress:
            run_tasks(tasks, ledger, jobs, progress)
    except KeyboardInterrupt:
        interrupted = True
    keys = dict.fromkeys(task.key for task in tasks)
    return [progress.rows[key] for key in keys if key in progress.rows], progress.reused, interrupted
