"""Data of the library's page: its entries, and their marks in a drawing of the gap over the number of workloads."""

from dataclasses import dataclass
from math import log10

from bench.formatting import percent, worth
from instances.library import LIBRARY, LibraryLine
from instances.library.entry import NONE

WIDTH, HEIGHT = 640.0, 240.0
"""Size of the drawing in its own units."""

_LEFT, _RIGHT, _TOP, _BOTTOM = 70.0, 20.0, 16.0, 200.0
_LEAST, _MOST = 1e-3, 1.0
"""Gaps at the lower and the upper end of the axis."""

_CLOSED_Y, _NO_BOUND_Y = _BOTTOM - 8.0, _TOP + 8.0


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """Line of the table: an entry, its texts, and the place of its mark in the drawing."""

    line: LibraryLine
    gpus: str
    value: str
    bound: str
    gap: str
    x: float
    y: float


def library_rows() -> list[LibraryRow]:
    """Return all entries of the library."""
    lines = LIBRARY.summaries()
    largest = max([2, *(line.workloads for line in lines)])  # the axis begins at 1, so it must end beyond 1
    return [_row(line, largest) for line in lines]


def ticks() -> list[tuple[str, float]]:
    """Return the labels of the gaps and their places."""
    return [("no bound", _NO_BOUND_Y), *((f"{100.0 * gap:g} %", _place(gap)) for gap in (0.1, 0.01)), ("0", _CLOSED_Y)]


def _row(line: LibraryLine, largest: int) -> LibraryRow:
    bound = line.bound or "-"
    x = _LEFT + (WIDTH - _LEFT - _RIGHT) * log10(line.workloads) / log10(largest)
    y = _CLOSED_Y if line.closed else _NO_BOUND_Y if line.gap is None else _place(line.gap)
    return LibraryRow(
        line=line,
        gpus=", ".join(gpu if count is None else f"{count} {gpu}" for gpu, count in line.gpus.items()),
        value=worth(line.value, line.objective),
        bound=bound if bound in ("-", NONE) else worth(float(bound), line.objective),
        gap=percent(line.gap),
        x=round(x, 1),
        y=round(y, 1),
    )


def _place(gap: float) -> float:
    part = (log10(min(max(gap, _LEAST), _MOST)) - log10(_LEAST)) / (log10(_MOST) - log10(_LEAST))
    return _CLOSED_Y - 16.0 - part * (_CLOSED_Y - _NO_BOUND_Y - 32.0)
