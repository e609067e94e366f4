"""Tables on a terminal: their cells, and how they are printed."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from itertools import groupby
from textwrap import fill
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from bench.cli.terminal import draws_unicode, emit, one_line

_PIPE_WIDTH = 500
"""Columns of a table in a pipe or file, wide enough that no cell is folded."""

_LEAST_WIDTH = 24
"""Least width of a text column, so that shorter names are never folded."""

_NARROW = 16
"""The same where a terminal is narrow."""

_MOST_LINES = 56
"""Lines of a table or a list that a terminal shows; a pipe or file gets all."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Table, as ``table`` returns it, that omits the ``spare`` columns, the first ones first, on a narrow terminal."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    groups: Sequence[object] | None
    spare: Sequence[str]

    def within(self, console: Console) -> tuple[Table, list[str]]:
        """Return the table as it fits on a console, and the names of the omitted columns.

        If it is too wide without them, too, the first column becomes a line above each group.
        """
        columns, rows, omitted = list(self.columns), list(self.rows), list[str]()
        made = table(columns, rows, self.groups)
        for name in self.spare:
            if _least_width(made) <= console.width:
                return made, omitted
            at = next((at for at, column in enumerate(columns) if column.lstrip(_MARKS) == name), None)
            if at is not None:
                omitted.append(name)
                del columns[at]
                rows = [[*row[:at], *row[at + 1 :]] for row in rows]
                made = table(columns, rows, self.groups)
        if _least_width(made) > console.width:
            made = table(columns, rows, least_width=_NARROW) if self.groups is None else self._headed(columns, rows)
        return made, omitted

    def _headed(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
        lines: list[Sequence[object]] = []
        groups: list[object] = []
        for group, row in zip(self.groups or (), rows, strict=True):
            if not groups or groups[-1] != group:
                lines.append([row[0], *[""] * (len(row) - 2)])
                groups.append(group)
            lines.append([f"  {cell(row[1])}", *row[2:]])
            groups.append(group)
        return table([columns[0], *columns[2:]], lines, groups, least_width=_NARROW)


_MARKS = ">="


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    groups: Sequence[object] | None = None,
    least_width: int = _LEAST_WIDTH,
) -> Table:
    """Return a table; a blank line separates rows of different ``groups``.

    A column whose name starts with ``>`` is right-aligned, one whose name starts with ``=`` left-aligned. Neither is
    folded; the other columns may be folded to ``least_width``.
    """
    cells = [[cell(value) for value in row] for row in rows]
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for position, column in enumerate(columns):
        whole = column.startswith(tuple(_MARKS))
        widest = max([len(column.lstrip(_MARKS)), *(len(row[position]) for row in cells)])
        made.add_column(
            column.lstrip(_MARKS),
            justify="right" if column.startswith(">") else "left",
            no_wrap=whole,
            overflow="fold",
            min_width=widest if whole else min(widest, least_width),
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


def show(*things: RenderableType | Fitted, stream: TextIO | None = None, every_line: bool = False) -> None:
    """Print tables and text on standard output or on ``stream``, without interpreting markup in text.

    A terminal shows the first ``_MOST_LINES`` lines of each table and of each list of texts, unless ``every_line``.
    """
    stream = stream or sys.stdout
    most = _MOST_LINES if stream.isatty() and not every_line else None
    shown = []
    for texts, group in groupby(things, key=lambda thing: isinstance(thing, str)):
        parts = [_rendered(thing, stream) for thing in group]
        shown += [_beginning(part, most) for part in (["".join(parts)] if texts else parts)]
    emit("".join(shown), stream)


def _rendered(thing: RenderableType | Fitted, stream: TextIO) -> str:
    sheet = _Sheet(stream)
    console = console_on(sheet)
    if isinstance(thing, str):
        console.print(thing, soft_wrap=not stream.isatty())
        return sheet.getvalue()
    note = ""
    if isinstance(thing, Fitted):
        thing, omitted = thing.within(console)
        if omitted:
            hint = f"(too narrow for {', '.join(omitted)}; a wider terminal or `| less -S` shows these columns)"
            note = fill(hint, max(_NARROW, console.width)) + "\n"
    # If the terminal is too narrow even for folded cells, let lines wrap instead of cutting them off.
    console.width = max(console.width, _least_width(thing))
    console.print(thing)
    return "\n".join(line.rstrip() for line in sheet.getvalue().split("\n")) + note


def _least_width(made: RenderableType) -> int:
    """Return the width that a table needs for whole unfoldable columns and the least widths of the others."""
    if not isinstance(made, Table):
        return 0
    return sum((column.min_width or 1) + 2 for column in made.columns) - 1


def _beginning(text: str, most: int | None) -> str:
    lines = text.splitlines(keepends=True)
    if most is None or len(lines) <= most:
        return text
    return "".join(lines[:most]) + f"... and {len(lines) - most:,} more lines; `| less -S` shows all\n"


class _Sheet(StringIO):
    """Buffer with the properties of ``stream``; rich's own capture would write to the stream, which may be full."""

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
