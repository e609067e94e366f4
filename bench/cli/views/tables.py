"""Tables and their cells."""

from collections.abc import Sequence

from rich import box
from rich.table import Table

from bench.cli.terminal import draws_unicode, one_line

_LEAST_WIDTH = 24
"""Least width of a text column, so that shorter names are never folded."""


def table(columns: Sequence[str], rows: Sequence[Sequence[object]], groups: Sequence[object] | None = None) -> Table:
    """Return a table.

    Parameters
    ----------
    columns
        Column names. A name that starts with ``>`` makes a right-aligned column that is never folded.
    rows
        Values of the cells.
    groups
        Group of each row; a blank line separates groups.
    """
    cells = [[cell(value) for value in row] for row in rows]
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for position, column in enumerate(columns):
        number = column.startswith(">")
        widest = max((len(row[position]) for row in cells), default=0)
        made.add_column(
            column.lstrip(">"),
            justify="right" if number else "left",
            no_wrap=number,
            overflow="fold",
            min_width=min(widest, _LEAST_WIDTH),
        )
    for position, row in enumerate(cells):
        last = groups is not None and position + 1 < len(cells) and groups[position] != groups[position + 1]
        made.add_row(*row, end_section=last)
    return made


def cell(value: object) -> str:
    """Return a value as the text of a cell; ``None`` becomes a dash."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return mark(value)
    return one_line(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def mark(good: bool | None) -> str:
    """Return a tick, a cross, or a dash for ``None``."""
    if good is None:
        return "-"
    ticks = ("✓", "✗") if draws_unicode() else ("yes", "no")
    return ticks[0] if good else ticks[1]
