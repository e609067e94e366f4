"""Every figure from a small ledger and a few measurements: three files, no empty axes, looks that differ in grey.

None is drawn empty: without results it says so.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure as Page
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from bench.ledger.row import Termination, columns
from reports.charts.palette import QUIET, lightness
from reports.measured import VARIABLE
from reports.need import NothingToDrawError
from reports.papers import figure, figure_names
from tests.reports.model_costs import made_up_costs
from tests.reports.rows import rows_of

STEP = 8.0
"""Of CIE L*, in which black and white are 100 apart: neighbours that differ by this do so in a grey print."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory, few_measurements: Path) -> Callable[[str], tuple[Page, list[Path]]]:
    """Draw a figure, once, and return its page and its files."""
    known: dict[str, tuple[Page, list[Path]]] = {}
    folder = tmp_path_factory.mktemp("figures")

    def draw(name: str) -> tuple[Page, list[Path]]:
        if name not in known:
            pages = []
            with pytest.MonkeyPatch.context() as patch:
                as_it_is = Page.savefig

                def saved(page: Page, *given: Any, **options: Any) -> None:
                    pages.append(page)
                    as_it_is(page, *given, **options, dpi=40)  # coarse, for speed

                patch.setattr(Page, "savefig", saved)
                patch.setenv(VARIABLE, str(few_measurements))
                patch.setattr("reports.papers.hold_robustness.SIMULATIONS", 1)  # for speed
                patch.setattr("reports.papers.model_error.model_costs", lambda gpu, margins: made_up_costs(margins))
                chosen = figure(name)
                files = chosen.draw(rows_of(chosen), folder)
            known[name] = pages[0], files
        return known[name]

    return draw


NO_RESULT = {column.name: None for column in columns() if column.name.startswith("sim_")} | {
    **dict.fromkeys(("value", "feasible", "bound", "bound_certified", "violations", "gpus_used", "cost_per_hour")),
    **dict.fromkeys(("throughput_rps", "fragments_pct", "over_capacity_pct", "decision_s", "peak_memory_mb")),
    **dict.fromkeys(("plan", "simulation", "scenarios")),
    "status": "unknown",
    "termination": Termination.CRASHED,
    "trajectory": [],
}


def test_none_is_drawn_empty(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name in figure_names():
        chosen = figure(name)
        if chosen.needs:
            with subtests.test(name), pytest.raises(NothingToDrawError, match=rf"^{name}: no "):
                chosen.draw([replace(row, **NO_RESULT) for row in rows_of(chosen)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def visible(page: Page) -> list[Axes]:
    return [ax for ax in page.axes if ax.axison and ax.get_visible()]


@pytest.mark.parametrize("name", figure_names())
def test_it_is_written_and_readable(
    name: str, drawn: Callable[[str], tuple[Page, list[Path]]], subtests: pytest.Subtests
) -> None:
    page, files = drawn(name)
    with subtests.test("as PDF, SVG and PNG"):
        check_files(name, files)
    with subtests.test("no axes are empty and all have labels"):
        check_axes(page)
    with subtests.test("neighbours differ in a grey print"):
        check_grey_print(page)


def check_files(name: str, files: list[Path]) -> None:
    assert [file.name for file in files] == [f"{name}.{suffix}" for suffix in ("pdf", "svg", "png")]
    pdf, svg, png = (file.read_bytes() for file in files)
    assert (pdf[:5], svg[:5], png[1:4]) == (b"%PDF-", b"<?xml", b"PNG")
    assert b"/CIDFontType2" in pdf  # TrueType, which printers and editors take
    assert svg.count(b"<text") > 5  # text that can be searched and edited
    assert b"mathdefault" not in svg
    assert b"CreationDate" not in pdf
    assert b"<dc:date>" not in svg


def check_axes(page: Page) -> None:
    assert visible(page) or page.axes[0].tables
    for ax in visible(page):
        shown = [line for line in ax.lines if len(line.get_xdata()) > 0]
        assert shown or ax.patches or ax.collections or ax.tables or ax.texts, "empty axes"
        for axis in (ax.xaxis, ax.yaxis):
            ticks = [tick for tick in axis.get_ticklabels() if tick.get_visible() and tick.get_text()]
            if ticks and axis.get_visible():
                numbers = all(tick.get_text().strip("−-.,0123456789eE×%kM ") == "" for tick in ticks)
                shared = any(other.get_ylabel() for other in visible(page)) if axis is ax.yaxis else True
                assert axis.get_label_text() or not numbers or shared, f"numbers without a label: {axis}"


def check_grey_print(page: Page) -> None:
    for ax in visible(page):
        bars = sorted((bar for bar in ax.patches if isinstance(bar, Rectangle)), key=lambda bar: bar.get_x())
        for left, right in pairwise(bars):
            touching = abs(left.get_x() + left.get_width() - right.get_x()) < 0.02 * abs(left.get_width())
            if touching and abs(left.get_y() - right.get_y()) < 1e-9:
                assert bar_differs(left, right), (left, right)
        lines = [line for line in ax.lines if len(line.get_xdata()) > 1 and line.get_linestyle() != "None"]
        lines = [line for line in lines if to_hex(line.get_color()).upper() != QUIET]  # guides
        for one, other in combinations(lines, 2):
            assert line_differs(one, other), (one.get_color(), other.get_color())


def grey(colour: Any) -> float:
    return lightness(to_hex(colour))


def bar_differs(one: Rectangle, other: Rectangle) -> bool:
    same = one.get_facecolor() == other.get_facecolor()
    apart = abs(grey(one.get_facecolor()) - grey(other.get_facecolor())) >= STEP
    return same or apart or one.get_hatch() != other.get_hatch()


def line_differs(one: Line2D, other: Line2D) -> bool:
    same = one.get_color() == other.get_color()
    apart = abs(grey(one.get_color()) - grey(other.get_color())) >= STEP
    looks = [(line.get_linestyle(), line.get_marker()) for line in (one, other)]
    return same or apart or looks[0] != looks[1]
