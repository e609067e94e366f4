"""Pages of the figures in one style, without a window; the same rows give the same files."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from instances.errors import InputError
from reports.palette import QUIET

if TYPE_CHECKING:  # Matplotlib takes a second to import: import it only for drawing
    from matplotlib.artist import Artist
    from matplotlib.figure import Figure as Page

COLUMN_IN = 3.33
"""Width of one column of a two-column paper."""

FULL_WIDTH_IN = 7.0
"""Width of both columns."""

STYLE = Path(__file__).with_name("style.mplstyle")

_NOTE_PT = 6.0

# Dates and versions would change the file although the rows are the same.
_METADATA: dict[str, dict[str, Any]] = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": "gpushare-bench"},
    "svg": {"Date": None, "Creator": "gpushare-bench"},
    "png": {"Software": None},
}


@contextmanager
def page(width_in: float, height_in: float) -> "Iterator[Page]":
    """Yield an empty page of the given size in inches, in this style, independent of the user's own settings.

    It belongs to no window and no global state. Draw and save it inside the ``with`` block.
    """
    from matplotlib import style
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure as Page

    with style.context(["default", STYLE], after_reset=True):
        sheet = Page(figsize=(width_in, height_in))
        FigureCanvasAgg(sheet)
        yield sheet


def note_height_in(lines: Sequence[str], width_in: float = FULL_WIDTH_IN) -> float:
    """Return the height of the text of ``write_note``."""
    return len(_wrapped(lines, width_in)) * _NOTE_PT * 1.3 / 72.0


def write_note(sheet: "Page", lines: Sequence[str]) -> None:
    """Write notes at the bottom of the page; without lines, do nothing."""
    if lines:
        text = "\n".join(_wrapped(lines, sheet.get_figwidth()))
        sheet.supxlabel(text, x=0.01, ha="left", fontsize=_NOTE_PT, color=QUIET)


def _wrapped(lines: Sequence[str], width_in: float) -> list[str]:
    characters = int(width_in * 72.0 / (0.58 * _NOTE_PT))
    return [part for line in lines for part in wrap(line, characters)]


def swatch(colour: str, label: str, **patch: Any) -> "Artist":
    """Return a filled box for a legend."""
    from matplotlib.patches import Patch

    return Patch(facecolor=colour, label=label, **patch)


def stroke(label: str, **line: Any) -> "Artist":
    """Return a line with its marker for a legend."""
    from matplotlib.lines import Line2D

    return Line2D([], [], label=label, **line)


def save(sheet: "Page", name: str, folder: Path, suffixes: Sequence[str] = tuple(_METADATA)) -> list[Path]:
    """Write the page as ``<name>.pdf``, ``.svg`` and ``.png`` into ``folder``; create the folder if needed.

    Only the formats in ``suffixes`` are written.

    Raises
    ------
    InputError
        If the files cannot be written.
    """
    files = [folder / f"{name}.{suffix}" for suffix in suffixes]
    sheet.draw_without_rendering()
    sheet.set_layout_engine("none")  # one layout for all formats
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            sheet.savefig(file, metadata=_METADATA[file.suffix[1:]])
    except OSError as error:
        raise InputError(str(error.filename or folder), f"cannot be written: {error.strerror}") from None
    return files
