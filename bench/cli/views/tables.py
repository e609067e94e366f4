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

_MIN_WIDTH = 21
"""Minimum width of a text column; names up to this length are never folded."""

_NARROW_MIN_WIDTH = 16
"""Minimum width of a text column on a narrow terminal."""

_LINES_SHOWN = 56
"""Number of lines of a table or list that a terminal shows; a pipe or file gets all lines."""


@dataclass(frozen=True, slots=True)
class Fitted:
    """Table that fits on a terminal: a narrow terminal omits ``spare`` columns, in their order.

    The other fields are the arguments of ``table``.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    groups: Sequence[object] | None
    spare: Sequence[str]

    def within(self, console: Console) -> tuple[Table, list[str]]:
        """Return the table in a form that fits on a console, and the names of the omitted columns.

        If the table is still too wide without any spare column, the first column becomes a line above each group.
        """
        columns, rows, omitted = list(self.columns), list(self.rows), list[str]()
        fitted = table(columns, rows, self.groups)
        for name in self.spare:
            if _needed_width(fitted) <= console.width:
                return fitted, omitted
            index = next(
                (index for index, column in enumerate(columns) if column.lstrip(_ALIGNMENT_MARKS) == name), None
            )
            if index is not None:
                omitted.append(name)
                del columns[index]
                rows = [[*row[:index], *row[index + 1 :]] for row in rows]
                fitted = table(columns, rows, self.groups)
        if _needed_width(fitted) > console.width:
            fitted = (
                table(columns, rows, min_width=_NARROW_MIN_WIDTH)
                if self.groups is None
                else self._with_group_lines(columns, rows)
            )
        return fitted, omitted

    def _with_group_lines(self, columns: Sequence[str], rows: Sequence[Sequence[object]]) -> Table:
        """Return the table with its first column as a line above each group."""
        lines: list[Sequence[object]] = []
        groups: list[object] = []
        for group, row in zip(self.groups or (), rows, strict=True):
            if not groups or groups[-1] != group:
                lines.append([row[0], *[""] * (len(row) - 2)])
                groups.append(group)
            lines.append([f"  {cell(row[1])}", *row[2:]])
            groups.append(group)
        return table([columns[0], *columns[2:]], lines, groups, min_width=_NARROW_MIN_WIDTH)


_ALIGNMENT_MARKS = ">="


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[object]],
    groups: Sequence[object] | None = None,
    min_width: int = _MIN_WIDTH,
) -> Table:
    """Return a table; a blank line separates rows of different ``groups``.

    A column whose name starts with ``>`` is right-aligned; a column whose name starts with ``=`` is left-aligned. Both
    are never folded. The other columns may be folded to ``min_width``.
    """
    cells = [[cell(value) for value in row] for row in rows]
    result = Table(box=box.SIMPLE_HEAD, show_edge=False, padding=(0, 1, 0, 0))
    for position, column in enumerate(columns):
        unfolded = column.startswith(tuple(_ALIGNMENT_MARKS))
        widest = max([len(column.lstrip(_ALIGNMENT_MARKS)), *(len(row[position]) for row in cells)])
        result.add_column(
            column.lstrip(_ALIGNMENT_MARKS),
            justify="right" if column.startswith(">") else "left",
            no_wrap=unfolded,
            overflow="fold",
            min_width=widest if unfolded else min(widest, min_width),
        )
    for position, row in enumerate(cells):
        ends_group = groups is not None and position + 1 < len(cells) and groups[position] != groups[position + 1]
        result.add_row(*row, end_section=ends_group)
    return result


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


def show(*parts: RenderableType | Fitted, stream: TextIO | None = None, every_line: bool = False) -> None:
    """Print tables and text on standard output or on ``stream``, without interpreting markup in text.

    A terminal shows the first ``_LINES_SHOWN`` lines of each table and of each list of texts, unless ``every_line``.
    """
    stream = stream or sys.stdout
    lines_shown = _LINES_SHOWN if stream.isatty() and not every_line else None
    shown = []
    for texts, group in groupby(parts, key=lambda part: isinstance(part, str)):
        rendered = [_rendered(part, stream) for part in group]
        shown += [_first_lines(text, lines_shown) for text in (["".join(rendered)] if texts else rendered)]
    emit("".join(shown), stream)


def _rendered(part: RenderableType | Fitted, stream: TextIO) -> str:
    buffer = _TableBuffer(stream)
    console = console_on(buffer)
    if isinstance(part, str):
        console.print(part, soft_wrap=not stream.isatty())
        return buffer.getvalue()
    note = ""
    if isinstance(part, Fitted):
        part, omitted = part.within(console)
        if omitted:
            hint = f"(too narrow for {', '.join(omitted)}; a wider terminal or `| less -S` shows these columns)"
            note = fill(hint, max(_NARROW_MIN_WIDTH, console.width)) + "\n"
    # If the terminal is too narrow even for folded cells, its lines wrap and are not cut off.
    console.width = max(console.width, _needed_width(part))
    console.print(part)
    return "\n".join(line.rstrip() for line in buffer.getvalue().split("\n")) + note


def _needed_width(rendered: RenderableType) -> int:
    """Return the width that a table needs: unfolded columns in full, other columns at their minimum width."""
    if not isinstance(rendered, Table):
        return 0
    return sum((column.min_width or 1) + 2 for column in rendered.columns) - 1


def _first_lines(text: str, limit: int | None) -> str:
    lines = text.splitlines(keepends=True)
    if limit is None or len(lines) <= limit:
        return text
    return "".join(lines[:limit]) + f"... and {len(lines) - limit:,} more lines; `| less -S` shows all\n"


class _TableBuffer(StringIO):
    """Buffer that looks like ``stream`` to rich; rich's own capture would write to the stream itself."""

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
