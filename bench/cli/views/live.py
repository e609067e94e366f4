"""Live table on a terminal: current runs, their progress, and the expected end of all runs."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from bench.cli.terminal import console_on, one_line
from bench.cli.views.progress import Progress
from bench.cli.views.tables import cell, mark
from bench.formatting import clock, worth
from bench.judging.judge import judge
from bench.ledger.row import JsonObject, Row
from bench.runner.record import Incumbent
from bench.task import Task
from instances import InputError
from instances.files import plan_from_json

_REFRESHES_PER_S = 4.0
_BAR_WIDTH = 30


@dataclass
class _Running:
    """A current run. Its newest plan is judged only when the table is redrawn, since plans may come more often."""

    task: Task
    since: float
    newest: JsonObject | None = None
    judged: JsonObject | None = None
    worth: str = "-"

    def incumbent_worth(self) -> str:
        newest = self.newest
        if newest is not None and newest is not self.judged:
            instance = self.task.instance
            try:
                verdict = judge(plan_from_json(newest), instance)
                broken = "" if verdict.feasible else f"{len(verdict.violations)} "
                self.worth = f"{worth(verdict.value, instance.objective)}, {broken}{mark(verdict.feasible)}"
            except InputError:
                self.worth = "invalid"
            self.judged = newest
        return self.worth


class LiveTable(Progress):
    """Progress at the bottom of a terminal; finished runs scroll by above it."""

    def __init__(self, tasks: Sequence[Task], jobs: int) -> None:
        super().__init__(tasks, jobs)
        self._begin = time.monotonic()
        self._running: dict[str, _Running] = {}
        self._live = Live(
            console=console_on(sys.stderr),
            get_renderable=self._picture,
            refresh_per_second=_REFRESHES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the table."""
        self._live.stop()

    def started(self, task: Task) -> None:
        """Add a line for the run."""
        self._running[task.key] = _Running(task, time.monotonic())

    def incumbent(self, task: Task, incumbent: Incumbent) -> None:
        """Note the newest plan."""
        if incumbent.plan is not None:
            self._running[task.key].newest = incumbent.plan

    def finished(self, task: Task, row: Row) -> None:
        """Remove the run's line and print its result above the table."""
        self._running.pop(task.key, None)
        super().finished(task, row)

    def tell(self, line: str) -> None:
        """Show a line above the table."""
        self._live.console.print(line, soft_wrap=True)
        self._live.refresh()

    def _picture(self) -> RenderableType:
        done, total = len(self.rows) - self.reused, self._total - self.reused
        head = Table.grid(padding=(0, 1))
        elapsed = clock(time.monotonic() - self._begin)
        head.add_row(
            ProgressBar(max(1, total), done, width=_BAR_WIDTH), f"{done}/{total} runs, {elapsed}{self._eta_in_words()}"
        )
        runs = Table.grid(padding=(0, 2))
        for run in tuple(self._running.values()):
            under_way = self._sets.get(run.task.key)
            limit = f"{time.monotonic() - run.since:.0f} s"
            if run.task.scenarios is None:
                limit += f" of {run.task.time_limit_s:g} s"
            name = one_line(f"{run.task.instance.name}, {self._names[run.task.key]}, seed {run.task.seed}")
            reached = run.incumbent_worth() if under_way is None else under_way.in_words()
            runs.add_row("", name, limit, cell(reached))
        return Group(head, runs)
