"""Pages of the figures in one style, drawn without a window; equal rows give equal files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from instances.errors import InputError
from reports.charts.palette import QUIET

if TYPE_CHECKING:
    from matplotlib.artist import Artist as Artist
    from matplotlib.axes import Axes as Axes
    from matplotlib.axis import Axis as Axis
    from matplotlib.figure import Figure
    from matplotlib.patches import Rectangle as Rectangle
    from matplotlib.text import Text as Text

    Page = Figure
else:  # The import of Matplotlib takes a second, and lists and descriptions of figures do not need it.
    Artist = Axes = Axis = Page = Rectangle = Text = Any

COLUMN_IN = 3.33
"""Width of one column of a two-column paper, in inches."""

FULL_WIDTH_IN = 7.0
"""Width of both columns, in inches."""

SMALLEST_WIDTH_IN, LARGEST_WIDTH_IN = 2.0, 20.0
"""Range of the widths that a user may choose, in inches."""


@dataclass(frozen=True, slots=True)
class PageFormat:
    """Choices for all pages: a width in inches instead of that of each figure, and whether notes are printed."""

    width_in: float | None = None
    notes: bool = True


OWN_FORMAT = PageFormat()
"""Format of a page as its figure draws it."""

_FORMAT: ContextVar[PageFormat] = ContextVar("page_format", default=OWN_FORMAT)

STYLE = Path(__file__).with_name("style.mplstyle")

_NOTE_PT = 6.0

# Without dates and versions, equal rows give equal files.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "gpushare-bench"},
    "svg": {"Date": None, "Creator": "gpushare-bench"},
    "png": {"Software": None},
}


@contextmanager
def styled(page_format: PageFormat = OWN_FORMAT) -> Iterator[None]:
    """Apply the style of all figures while pages are made, drawn and saved; the user's settings have no effect."""
    from matplotlib import style

    token = _FORMAT.set(page_format)
    try:
        with style.context(["default", STYLE], after_reset=True):
            yield
    finally:
        _FORMAT.reset(token)


def page(width_in: float, height_in: float, notes: Sequence[str] = ()) -> Page:
    """Return an empty page that is independent of windows and of Matplotlib's global state.

    Parameters
    ----------
    width_in, height_in
        Size in inches, without the notes. The page format may have another width.
    notes
        Notes at the bottom, each in a paragraph of its own; the page format may omit them.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    page_format = _FORMAT.get()
    width_in = width_in if page_format.width_in is None else page_format.width_in
    notes = notes if page_format.notes else ()
    # A letter is about 0.58 times as wide as its size, and a line is 1.3 times as high.
    characters_per_line = int(width_in * 72.0 / (0.58 * _NOTE_PT))
    lines = [
        line for note in notes for line in wrap(note.replace("`", ""), characters_per_line, break_on_hyphens=False)
    ]
    sheet = Figure(figsize=(width_in, height_in + len(lines) * _NOTE_PT * 1.3 / 72.0))
    FigureCanvasAgg(sheet)
    if lines:
        sheet.supxlabel("\n".join(lines), x=0.01, ha="left", fontsize=_NOTE_PT, color=QUIET)
    return sheet


def swatch(colour: str, label: str, **patch: Any) -> Artist:
    """Return a filled box for a legend."""
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, label=label, **patch)


def stroke(label: str, **line: Any) -> Artist:
    """Return a line with its marker for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **line)


def with_legend(sheet: Page, handles: Sequence[Artist], columns: int | None = None) -> Page:
    """Return a page with a legend above its panels; without ``columns``, the legend has one line.

    On a page of a chosen width, the legend has as many columns as fit.
    """
    legend = sheet.legend(handles=handles, loc="outside upper center", ncols=columns or len(handles))
    if _FORMAT.get().width_in is not None:
        for fewer in range((columns or len(handles)) - 1, 0, -1):
            if legend.get_window_extent().width <= sheet.bbox.width:
                break
            legend.remove()
            legend = sheet.legend(handles=handles, loc="outside upper center", ncols=fewer)
    return sheet


def mark_powers(axis: Axis, steps: Sequence[int]) -> None:
    """Write plain numbers on a logarithmic axis, at the multiples ``steps`` of each power of ten."""
    from matplotlib.ticker import LogLocator

    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(lambda value, _: f"{value:,.0f}" if value >= 1.0 else f"{value:g}")


def save(sheet: Page, name: str, folder: Path, suffixes: Sequence[str] = tuple(_METADATA)) -> list[Path]:
    """Write the page as ``<name>.pdf``, ``.svg`` and ``.png`` into ``folder``; create the folder if needed.

    Only the formats in ``suffixes`` are written.

    Raises
    ------
    InputError
        If the files cannot be written.
    """
    files = [folder / f"{name}.{suffix}" for suffix in suffixes]
    sheet.draw_without_rendering()
    sheet.set_layout_engine("none")  # so that all formats have the same layout
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            sheet.savefig(file, metadata=_METADATA[file.suffix[1:]])
    except OSError as error:
        raise InputError(str(error.filename or folder), f"cannot be written: {error.strerror}") from None
    return files
