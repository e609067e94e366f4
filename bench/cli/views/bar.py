"""Progress of one long computation: a bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from bench.cli.terminal import say
from bench.cli.views.tables import console_on
from bench.formatting import clock

_LINE_EVERY_S = 10.0
"""Least time between two lines where there is no terminal."""


@contextmanager
def progress_bar(label: str, total: float = 1.0) -> Iterator[Callable[..., None]]:
    """Show the progress of a computation; yield the function that updates it.

    The function takes the finished part of ``total`` as ``completed``, or the growth of that part as ``advance``, and a
    new label as ``description``.
    """
    if not sys.stderr.isatty():
        yield _Lines(label, total)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console_on(sys.stderr), transient=True) as bar:
        yield partial(bar.update, bar.add_task(label, total=total))


class _Lines:
    """Progress in lines on standard error; a short computation prints none."""

    def __init__(self, label: str, total: float) -> None:
        self._label, self._total, self._completed = label, total, 0.0
        self._start_s = self._told_s = time.monotonic()

    def __call__(self, *, advance: float = 0.0, completed: float | None = None, description: str | None = None) -> None:
        self._label = description or self._label
        self._completed = self._completed + advance if completed is None else completed
        now_s = time.monotonic()
        if now_s - self._told_s >= _LINE_EVERY_S:
            self._told_s = now_s
            say(f"{self._label}: {100.0 * self._completed / self._total:.0f} % after {clock(now_s - self._start_s)}")
