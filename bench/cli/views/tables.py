"""Tables on a terminal: their cells, and how they are printed."""

import sys
from collections.abc import Sequence
from io import StringIO
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from bench.cli.terminal import draws_unicode, emit, one_line

_PIPE_WIDTH = 500
"""Columns of a table in a pipe or file, wide enough that no cell is folded."""

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


def cell(value: object) -> str | Text:
    """Return a value as the text of a cell; ``None`` becomes a dash, and coloured text stays coloured."""
    if value is None:
        return "-"
    if isinstance(value, Text):
        return value
    if isinstance(value, bool):
        return mark(value)
    return one_line(", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value))


def coloured(text: str, good: bool | None) -> Text:
    """Return a text in green if it is good news, in red if it is bad, and in no colour for ``None``."""
    return Text(text, style={True: "green", False: "red", None: ""}[good])


def mark(good: bool | None) -> str:
    """Return a tick, a cross, or a dash for ``None``."""
    if good is None:
        return "-"
    ticks = ("✓", "✗") if draws_unicode() else ("yes", "no")
    return ticks[0] if good else ticks[1]


def show(*things: RenderableType, stream: TextIO | None = None) -> None:
    """Print tables and text on standard output or on ``stream``, without interpreting markup in text."""
    stream = stream or sys.stdout
    sheet = _Sheet(stream)
    console = console_on(sheet)
    for thing in things:
        if isinstance(thing, str):
            console.print(thing, soft_wrap=True)
        else:  # if the terminal is too narrow even for folded cells, let lines wrap instead of cutting them off
            least = Measurement.get(console, console.options.update(max_width=_PIPE_WIDTH), thing).minimum
            console.width = max(console.width, least)
            console.print(thing)
    emit("\n".join(line.rstrip() for line in sheet.getvalue().split("\n")), stream)


class _Sheet(StringIO):
    """Buffer with the properties of ``stream``, so that ``emit`` can write all output at once."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream

    @property
    def encoding(self) -> str:  # type: ignore[override]
        """Encoding of the stream."""
        return self._stream.encoding

    def isatty(self) -> bool:
        """Whether the stream is a terminal."""
        return self._stream.isatty()


def console_on(stream: TextIO) -> Console:
    """Return a console without markup, since names from files may look like markup."""
    width = None if stream.isatty() else _PIPE_WIDTH
    return Console(file=stream, width=width, markup=False, emoji=False, highlight=False)
