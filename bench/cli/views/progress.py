"""Progress of runs: a line for each finished run, and a live table on a terminal."""

import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from math import fsum
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table

from bench.cli.terminal import one_line, say
from bench.cli.views.run_tables import scenarios_in_words
from bench.cli.views.tables import cell, console_on, mark
from bench.formatting import clock, gpu_count, objective_of, result, seconds, worth
from bench.judging.judge import judge
from bench.ledger.labels import labels
from bench.ledger.row import Row
from bench.runner.listener import Listener
from bench.runner.record import Incumbent
from bench.task import Task
from instances import InputError
from instances.files import plan_from_text

_MESSAGE_EVERY_S = 10.0
"""Least time between two messages about one scenario set."""


@dataclass
class _SetProgress:
    """Progress of a scenario set.

    Attributes
    ----------
    count
        Number of all scenarios.
    first, decided
        Number of decided scenarios at the first message, and now.
    since, told_at
        Times of the first message and of the last printed one, by ``time.monotonic()``.
    """

    count: int
    first: int
    decided: int
    since: float
    told_at: float

    def left_s(self) -> float | None:
        """Estimate the remaining seconds; ``None`` until scenarios are decided after the first message."""
        newly_decided = self.decided - self.first
        return (time.monotonic() - self.since) / newly_decided * (self.count - self.decided) if newly_decided else None

    def in_words(self) -> str:
        return f"{self.decided:,} of {self.count:,} scenarios"


class Progress(Listener):
    """Progress of runs, with a line for each finished run on standard error.

    Attributes
    ----------
    rows
        Rows of the finished runs and of the reused runs, by key.
    reused
        Number of rows that the ledger had.
    live
        Context in which the runs are executed.
    """

    live: AbstractContextManager[object] = nullcontext()

    def __init__(self, tasks: Sequence[Task], jobs: int) -> None:
        self.rows: dict[str, Row] = {}
        self.reused = 0
        self._unfinished = {task.key: task for task in tasks}
        self._names = labels(tasks)
        self._total = len(self._unfinished)
        self._jobs = jobs
        self._wall_s: dict[str, list[float]] = defaultdict(list)
        self._sets: dict[str, _SetProgress] = {}

    def advanced(self, task: Task, decided: int) -> None:
        """Record the progress of a scenario set, and print the progress every ``_MESSAGE_EVERY_S`` seconds."""
        assert task.scenarios is not None
        now = time.monotonic()
        new_progress = _SetProgress(len(task.scenarios), decided, decided, since=now, told_at=now)
        progress = self._sets.setdefault(task.key, new_progress)
        progress.decided = decided
        if now - progress.told_at >= _MESSAGE_EVERY_S and decided < progress.count:
            progress.told_at = now
            name = self._names[task.key]
            self.tell(one_line(f"{task.instance.name}, {name}: {progress.in_words()}{self._eta_in_words()}"))

    def skipped(self, task: Task, row: Row) -> None:
        """Count a run that is reused from the ledger."""
        if task.key not in self.rows:
            self.reused += 1
            self._add_row(task, row)

    def finished(self, task: Task, row: Row) -> None:
        """Count a finished run and print its result."""
        self._wall_s[task.scheduler].append(row.wall_s)
        self._add_row(task, row)
        count = f"{len(self.rows) - self.reused}/{self._total - self.reused}"
        self.tell(f"[{count}] {headline(row, self._names[task.key])}{self._eta_in_words()}")

    def repeated(self, task: Task, reason: str) -> None:
        """Print why a run is repeated."""
        run = f"{task.instance.name}, {self._names[task.key]}, seed {task.seed}"
        self.tell(one_line(f"{run}: made again, since {reason}"))

    def held_up(self, ledger: Path) -> None:
        """Print that finished runs wait for the ledger."""
        self.tell(one_line(f"{ledger} is locked by another process; finished runs are kept until it is free"))

    def tell(self, line: str) -> None:
        """Print a line."""
        say(line)

    def _add_row(self, task: Task, row: Row) -> None:
        self.rows[task.key] = row
        self._unfinished.pop(task.key, None)

    def eta_s(self) -> float | None:
        """Estimate the remaining seconds from the finished runs of the same schedulers, or of all schedulers."""
        means = {scheduler: fsum(times) / len(times) for scheduler, times in self._wall_s.items()}
        sets = {
            key: left_s
            for key in self._unfinished
            if key in self._sets and (left_s := self._sets[key].left_s()) is not None
        }
        if not means and not sets:
            return None
        typical = fsum([*means.values(), *sets.values()]) / (len(means) + len(sets))
        remaining_s = [sets.get(key, means.get(task.scheduler, typical)) for key, task in self._unfinished.items()]
        return max(fsum(remaining_s) / self._jobs, max(remaining_s, default=0.0))

    def _eta_in_words(self) -> str:
        eta_s = self.eta_s()
        if not self._unfinished or eta_s is None or eta_s < 1.0:
            return ""
        return f", about {f'{eta_s:.0f} s' if eta_s < 60.0 else clock(eta_s)} left"


def headline(row: Row, scheduler: str) -> str:
    """Return a run and its result on one line; ``scheduler`` is the name to show."""
    parts = [f"{result(row)}: {row.reason}" if row.reason and row.value is None else result(row)]
    if row.scenarios is not None:
        termination = f"{row.termination}: {row.reason}" if row.reason else str(row.termination)
        parts = [termination, *scenarios_in_words(row.scenarios)]
    elif row.value is not None:
        parts.append(worth(row.value, objective_of(row)))
    if row.gpus_used is not None:
        parts.append(gpu_count(row.gpus_used))
    if row.violations and row.scenarios is None:
        parts.append(f"{row.violations} violation{'s' * (row.violations != 1)}")
    if row.decision_s is not None:
        parts.append(seconds(row.decision_s))
    return one_line(f"{row.instance}, {scheduler}, seed {row.seed}: {', '.join(parts)}")


_REFRESHES_PER_S = 4.0
_BAR_WIDTH = 30


@dataclass
class _Running:
    """Current run. Its newest plan is judged only when the table is redrawn, since plans may arrive more often."""

    task: Task
    since: float
    newest: Incumbent | None = None
    judged: Incumbent | None = None
    value_text: str = "-"

    def incumbent_text(self) -> str:
        newest = self.newest
        if newest is not None and newest.plan_text is not None and newest is not self.judged:
            instance = self.task.instance
            try:
                verdict = judge(plan_from_text(newest.plan_text), instance)
                broken = "" if verdict.feasible else f"{len(verdict.violations)} "
                self.value_text = f"{worth(verdict.value, instance.objective)}, {broken}{mark(verdict.feasible)}"
            except InputError:
                self.value_text = "invalid"
            self.judged = newest
        return self.value_text


class LiveTable(Progress):
    """Progress at the bottom of a terminal; the lines of finished runs appear above it."""

    def __init__(self, tasks: Sequence[Task], jobs: int) -> None:
        super().__init__(tasks, jobs)
        self._began_at = time.monotonic()
        self._running: dict[str, _Running] = {}
        self.live: Live = Live(
            console=console_on(sys.stderr),
            get_renderable=self._renderable,
            refresh_per_second=_REFRESHES_PER_S,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )

    def started(self, task: Task) -> None:
        """Add a line for the run."""
        self._running[task.key] = _Running(task, time.monotonic())

    def incumbent(self, task: Task, incumbent: Incumbent) -> None:
        """Record the newest plan of the run."""
        if incumbent.plan_text is not None:
            self._running[task.key].newest = incumbent

    def finished(self, task: Task, row: Row) -> None:
        """Remove the run's line and print its result above the table."""
        self._running.pop(task.key, None)
        super().finished(task, row)

    def tell(self, line: str) -> None:
        """Show a line above the table."""
        self.live.console.print(line, soft_wrap=True)
        self.live.refresh()

    def _renderable(self) -> RenderableType:
        done, total = len(self.rows) - self.reused, self._total - self.reused
        head = Table.grid(padding=(0, 1))
        elapsed = clock(time.monotonic() - self._began_at)
        bar = ProgressBar(max(1, total), done, width=_BAR_WIDTH)
        head.add_row(bar, f"{done}/{total} runs, {elapsed}{self._eta_in_words()}")
        runs = Table.grid(padding=(0, 2))
        for run in tuple(self._running.values()):
            set_progress = self._sets.get(run.task.key)
            time_text = f"{time.monotonic() - run.since:.0f} s"
            if run.task.scenarios is None:
                time_text += f" of {run.task.time_limit_s:g} s"
            name = one_line(f"{run.task.instance.name}, {self._names[run.task.key]}, seed {run.task.seed}")
            reached = run.incumbent_text() if set_progress is None else set_progress.in_words()
            runs.add_row("", name, time_text, cell(reached))
        return Group(head, runs)
