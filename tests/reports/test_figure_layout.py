"""Layout of figures by bounding boxes: no axes are empty, and no text is clipped or overlaps another."""

from collections.abc import Callable, Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Page
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from reports.charts.palette import lightness
from reports.measured import VARIABLE
from reports.papers import figure
from tests.reports.rows import rows_of

NAMES = (
    *("exact-gap", "igniter-fig14-violations", "igniter-fig19", "inss-fig12", "gpulet-fig15", "gpulet-fig6"),
    *("gpulet-fig7", "igniter-fig11", "performance-profiles", "primal-integral"),
)
TOLERANCE_PX = 1.5


@pytest.fixture(scope="module")
def page_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Page]:
    """Return a function that draws a figure without measurements on its first call, and returns its page."""
    drawn_pages: dict[str, Page] = {}

    def draw_once(name: str) -> Page:
        if name not in drawn_pages:
            pages: list[Page] = []

            def record_page(page: Page, file: Path, **options: Any) -> None:
                pages.append(page)

            with pytest.MonkeyPatch.context() as patch:
                patch.delenv(VARIABLE, raising=False)
                patch.setattr(Page, "savefig", record_page)
                chosen = figure(name)
                chosen.draw(rows_of(chosen), tmp_path_factory.mktemp("layout"))
            drawn_pages[name] = pages[0]
        return drawn_pages[name]

    return draw_once


def visible(page: Page) -> list[Axes]:
    return [ax for ax in page.axes if ax.axison and ax.get_visible()]


def texts(page: Page) -> Iterator[tuple[Text, Bbox]]:
    """Yield every visible text with its bounding box in pixels."""
    for ax in visible(page):
        for axis in (ax.xaxis, ax.yaxis):
            low, high = sorted(axis.get_view_interval())
            for tick in axis.get_major_ticks():
                if low <= tick.get_loc() <= high and tick.label1.get_visible() and tick.label1.get_text():
                    yield tick.label1, tick.label1.get_window_extent()
            if axis.get_label_text():
                yield axis.label, axis.label.get_window_extent()
        titles = [ax.title, ax._left_title, ax._right_title]  # type: ignore[attr-defined]
        legend = ax.get_legend()
        for text in (*titles, *ax.texts, *(legend.get_texts() if legend else ())):
            if text.get_visible() and text.get_text():
                yield text, text.get_window_extent()
    for legend in page.legends:
        for text in legend.get_texts():
            yield text, text.get_window_extent()
    note = page._supxlabel  # type: ignore[attr-defined]
    if note is not None:
        yield note, note.get_window_extent()


@pytest.mark.parametrize("name", NAMES)
def test_no_axes_are_empty(name: str, page_of: Callable[[str], Page]) -> None:
    axes = visible(page_of(name))
    assert axes
    for ax in axes:
        lines = [line for line in ax.lines if len(line.get_xdata()) > 0]
        bars = [bar for bar in ax.patches if bar.get_width() * bar.get_height() > 0]
        assert len(lines) + len(bars) + len(ax.collections) > 0


@pytest.mark.parametrize("name", NAMES)
def test_texts_are_on_the_page_and_do_not_overlap(name: str, page_of: Callable[[str], Page]) -> None:
    page = page_of(name)
    boxes = list(texts(page))
    assert len(boxes) > 5
    for text, box in boxes:
        inside = box.x0 >= -TOLERANCE_PX and box.y0 >= -TOLERANCE_PX
        inside = inside and box.x1 <= page.bbox.x1 + TOLERANCE_PX and box.y1 <= page.bbox.y1 + TOLERANCE_PX
        assert inside, text.get_text()
    for (text, a), (other_text, b) in combinations(boxes, 2):
        intersection = Bbox.intersection(a, b)
        overlap = intersection is not None and min(intersection.width, intersection.height) > TOLERANCE_PX
        assert not overlap, (text.get_text(), other_text.get_text())


@pytest.mark.parametrize("name", [name for name in NAMES if name != "gpulet-fig7"])
def test_lines_are_inside_their_axes(name: str, page_of: Callable[[str], Page]) -> None:
    """gpulet's Fig. 7 is left out: its axis ends before the largest value, which a note states."""
    for ax in visible(page_of(name)):
        for line in ax.lines:
            if line.get_transform() != ax.transData or (line.get_color() == "black" and not line.get_marker()):
                continue  # guides in axes coordinates
            values = np.asarray(line.get_ydata(), dtype=float)
            low, high = sorted(ax.get_ylim())
            tolerance = 1e-6 * (high - low)
            assert ((values >= low - tolerance) & (values <= high + tolerance)).all(), line.get_label()


def test_texts_contrast_with_their_bars(page_of: Callable[[str], Page]) -> None:
    """The lightness of a text differs from that of the bar under it by more than 40."""
    from matplotlib.colors import to_hex

    for name in ("igniter-fig19", "igniter-fig14-violations"):
        for ax in visible(page_of(name)):
            for text in ax.texts:
                box = text.get_window_extent()
                centre = ((box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2)
                under = [bar for bar in ax.patches if bar.get_window_extent().contains(*centre)]
                for bar in under:
                    contrast = abs(lightness(to_hex(bar.get_facecolor())) - lightness(to_hex(text.get_color())))
                    assert contrast > 40, (name, text.get_text())


def test_values_beyond_the_axis_are_stated_in_a_note(page_of: Callable[[str], Page]) -> None:
    note = page_of("gpulet-fig7")._supxlabel.get_text()  # type: ignore[attr-defined]
    assert "the largest slowdown is 246 %" in " ".join(note.split())


@pytest.mark.parametrize("name", ["gpulet-fig7", "igniter-fig11"])
def test_restated_measurements_have_their_source(name: str, page_of: Callable[[str], Page]) -> None:
    page = page_of(name)
    note = " ".join(page._supxlabel.get_text().split())  # type: ignore[attr-defined]
    assert "restated" in note
    assert "icloud-ecnu/igniter" in note
    assert "`" not in note
