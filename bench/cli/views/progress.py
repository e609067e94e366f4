"""Progress of tasks as plain lines, one per finished run; ``bench.cli.views.live`` has the live table."""

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum
from typing import Self

from bench.cli.terminal import one_line, say
from bench.cli.views.run_tables import set_in_words
from bench.formatting import clock, objective_of, result, seconds, worth
from bench.labels import labels
from bench.ledger.row import Row
from bench.runner.runner import Listener
from bench.task import Task

_TELL_EVERY_S = 10.0


@dataclass
class _SetUnderWay:
    """Progress of a scenario set.

    Attributes
    ----------
    first, since
        Number of decided scenarios after the first judged chunk, and its time.
    told_at
        Time of the last message.
    decided, count
        Number of decided scenarios, and of all scenarios.
    """

    first: int
    since: float
    told_at: float
    decided: int = 0
    count: int = 0

    def left_s(self) -> float | None:
        """Estimate the remaining seconds; ``None`` before the second chunk."""
        gained = self.decided - self.first
        return (time.monotonic() - self.since) / gained * (self.count - self.decided) if gained else None

    def in_words(self) -> str:
        return f"{self.decided:,} of {self.count:,} scenarios"


class Progress(Listener):
    """Counter of runs that prints a line for each on standard error.

    Attributes
    ----------
    rows
        Rows of the finished runs and of those that the ledger had, by key.
    reused
        Number of rows that the ledger had.
    """

    def __init__(self, tasks: Sequence[Task], jobs: int) -> None:
        self.rows: dict[str, Row] = {}
        self.reused = 0
        self._left = {task.key: task for task in tasks}
        self._names = labels(tasks)
        self._total = len(self._left)
        self._jobs = jobs
        self._wall_s: dict[str, list[float]] = defaultdict(list)
        self._sets: dict[str, _SetUnderWay] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave; plain lines need no cleanup."""

    def advanced(self, task: Task, decided: int) -> None:
        """Note the progress of a scenario set, and print it every ``_TELL_EVERY_S`` seconds."""
        assert task.scenarios is not None
        under_way = self._sets.setdefault(task.key, _SetUnderWay(decided, time.monotonic(), time.monotonic()))
        under_way.decided, under_way.count = decided, len(task.scenarios)
        if time.monotonic() - under_way.told_at >= _TELL_EVERY_S and decided < under_way.count:
            under_way.told_at = time.monotonic()
            name = self._names[task.key]
            self.tell(one_line(f"{task.instance.name}, {name}: {under_way.in_words()}{self._eta_in_words()}"))

    def skipped(self, task: Task, row: Row) -> None:
        """Count a run that is reused from the ledger."""
        if task.key not in self.rows:
            self.reused += 1
            self._count(task, row)

    def finished(self, task: Task, row: Row) -> None:
        """Count a finished run and print its result."""
        self._wall_s[task.scheduler].append(row.wall_s)
        self._count(task, row)
        count = f"{len(self.rows) - self.reused}/{self._total - self.reused}"
        self.tell(f"[{count}] {headline(row, self._names[task.key])}{self._eta_in_words()}")

    def tell(self, line: str) -> None:
        """Print a line."""
        say(line)

    def _count(self, task: Task, row: Row) -> None:
        self.rows[task.key] = row
        self._left.pop(task.key, None)

    def eta_s(self) -> float | None:
        """Estimate the remaining seconds from the finished runs, by scheduler where it has finished runs."""
        means = {scheduler: fsum(times) / len(times) for scheduler, times in self._wall_s.items()}
        sets = {key: s for key in self._left if (s := self._set_left_s(key)) is not None}
        if not means and not sets:
            return None
        typical = fsum([*means.values(), *sets.values()]) / (len(means) + len(sets))
        left = [sets.get(key, means.get(task.scheduler, typical)) for key, task in self._left.items()]
        return max(fsum(left) / self._jobs, max(left, default=0.0))

    def _set_left_s(self, key: str) -> float | None:
        under_way = self._sets.get(key)
        return None if under_way is None else under_way.left_s()

    def _eta_in_words(self) -> str:
        eta_s = self.eta_s()
        if not self._left or eta_s is None or eta_s < 1.0:
            return ""
        return f", about {f'{eta_s:.0f} s' if eta_s < 60.0 else clock(eta_s)} left"


def headline(row: Row, scheduler: str) -> str:
    """Return a run and its result on one line; ``scheduler`` is the name to show."""
    told = [f"{result(row)}: {row.reason}" if row.reason and row.value is None else result(row)]
    if row.scenarios is not None:
        told = [
            f"{row.termination}: {row.reason}" if row.reason else str(row.termination),
            *set_in_words(row.scenarios),
        ]
    elif row.value is not None:
        told.append(worth(row.value, objective_of(row)))
    if row.gpus_used is not None:
        told.append(f"{row.gpus_used} GPU{'s' * (row.gpus_used != 1)}")
    if row.violations and row.scenarios is None:
        told.append(f"{row.violations} violation{'s' * (row.violations != 1)}")
    if row.decision_s is not None:
        told.append(seconds(row.decision_s))
    return one_line(f"{row.instance}, {scheduler}, seed {row.seed}: {', '.join(told)}")
