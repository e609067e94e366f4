"""Progress bar of one long computation."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from bench.cli.views.tables import console_on


@contextmanager
def progress_bar(label: str, total: float = 1.0) -> Iterator[Callable[..., None]]:
    """Show a bar on a terminal; yield the function that updates the bar.

    The function takes the finished part of ``total`` as ``completed``, or the growth of that part as ``advance``, and a
    new label as ``description``.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console_on(sys.stderr), transient=True, disable=not sys.stderr.isatty()) as bar:
        yield partial(bar.update, bar.add_task(label, total=total))
