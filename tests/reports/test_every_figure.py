"""All figures, drawn from made-up rows and measurements: three files, no empty axes, looks that differ in grey.

Without results, a figure is not drawn, and the error says so.
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

LIGHTNESS_STEP = 8.0
"""Difference of CIE L* (0 is black, 100 white) by which neighbours are distinguishable in a grey print."""


LONG = ("gpulet-fig15", "gpulet-arxiv-fig5", "gpulet-arxiv-fig14", "hold-robustness", "inss-fig11")
"""Figures that take more than ten seconds, in `make soak` alone."""

WRITTEN = figure_names()[::8]
"""Figures whose PDF and SVG are written in `make test`, too: all figures have the same style and writer."""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory: pytest.TempPathFactory, few_measurements: Path) -> Callable[[str], tuple[Page, list[Path]]]:
    """Return a function that draws a figure on its first call, and returns its page and files."""
    drawn_figures: dict[str, tuple[Page, list[Path]]] = {}
    folder = tmp_path_factory.mktemp("figures")

    def draw(name: str) -> tuple[Page, list[Path]]:
        if name not in drawn_figures:
            pages = []
            with pytest.MonkeyPatch.context() as patch:
                savefig = Page.savefig

                def save_coarsely(page: Page, file: Path, **options: Any) -> None:
                    pages.append(page)
                    if name in WRITTEN or file.suffix == ".png":
                        savefig(page, file, **options, dpi=40)  # coarse, for speed
                    else:
                        file.touch()

                patch.setattr(Page, "savefig", save_coarsely)
                patch.setenv(VARIABLE, str(few_measurements))
                patch.setattr("reports.papers.hold_robustness.SIMULATIONS", 1)  # for speed
                patch.setattr("reports.papers.model_error.model_costs", lambda gpu, margins: made_up_costs(margins))
                chosen = figure(name)
                files = chosen.draw(rows_of(chosen), folder)
            drawn_figures[name] = pages[0], files
        return drawn_figures[name]

    return draw


WITHOUT_RESULT = {column.name: None for column in columns() if column.name.startswith("sim_")} | {
    **dict.fromkeys(("value", "feasible", "bound", "bound_certified", "violations", "gpus_used", "cost_per_hour")),
    **dict.fromkeys(("throughput_rps", "fragments_pct", "over_capacity_pct", "decision_s", "peak_memory_mb")),
    **dict.fromkeys(("plan", "simulation", "scenarios")),
    "status": "unknown",
    "termination": Termination.CRASHED,
    "trajectory": [],
}


def test_a_figure_without_results_is_not_drawn(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for name in figure_names():
        chosen = figure(name)
        if chosen.needs:
            with subtests.test(name), pytest.raises(NothingToDrawError, match=rf"^{name}: no "):
                chosen.draw([replace(row, **WITHOUT_RESULT) for row in rows_of(chosen)], tmp_path)
    assert list(tmp_path.iterdir()) == []


def visible(page: Page) -> list[Axes]:
    return [ax for ax in page.axes if ax.axison and ax.get_visible()]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak if name in LONG else ()) for name in figure_names()]
)
def test_every_figure_is_written_and_readable(
    name: str, drawn: Callable[[str], tuple[Page, list[Path]]], subtests: pytest.Subtests
) -> None:
    page, files = drawn(name)
    assert [file.name for file in files] == [f"{name}.{suffix}" for suffix in ("pdf", "svg", "png")]
    if name in WRITTEN:
        with subtests.test("as PDF, SVG and PNG"):
            check_files(files)
    with subtests.test("no axes are empty and all have labels"):
        check_axes(page)
    with subtests.test("neighbours differ in a grey print"):
        check_grey_print(page)


@pytest.mark.soak
@pytest.mark.parametrize("name", sorted({*figure_names()} - {*LONG, *WRITTEN}))
def test_the_files_of_the_other_figures_are_written(
    name: str, few_measurements: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, str(few_measurements))
    monkeypatch.setattr("reports.papers.model_error.model_costs", lambda gpu, margins: made_up_costs(margins))
    chosen = figure(name)
    check_files(chosen.draw(rows_of(chosen), tmp_path))


def check_files(files: list[Path]) -> None:
    pdf, svg, png = (file.read_bytes() for file in files)
    assert (pdf[:5], svg[:5], png[1:4]) == (b"%PDF-", b"<?xml", b"PNG")
    assert b"/CIDFontType2" in pdf  # TrueType fonts, for printers and editors
    assert svg.count(b"<text") > 5  # text that can be searched and edited
    assert b"mathdefault" not in svg
    assert b"CreationDate" not in pdf
    assert b"<dc:date>" not in svg


def check_axes(page: Page) -> None:
    assert visible(page) or page.axes[0].tables
    for ax in visible(page):
        nonempty_lines = [line for line in ax.lines if len(line.get_xdata()) > 0]
        assert nonempty_lines or ax.patches or ax.collections or ax.tables or ax.texts, "empty axes"
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
        for line, other in combinations(lines, 2):
            assert line_differs(line, other), (line.get_color(), other.get_color())


def grey(colour: Any) -> float:
    return lightness(to_hex(colour))


def bar_differs(one: Rectangle, other: Rectangle) -> bool:
    same = one.get_facecolor() == other.get_facecolor()
    grey_differs = abs(grey(one.get_facecolor()) - grey(other.get_facecolor())) >= LIGHTNESS_STEP
    return same or grey_differs or one.get_hatch() != other.get_hatch()


def line_differs(one: Line2D, other: Line2D) -> bool:
    same = one.get_color() == other.get_color()
    grey_differs = abs(grey(one.get_color()) - grey(other.get_color())) >= LIGHTNESS_STEP
    looks = [(line.get_linestyle(), line.get_marker()) for line in (one, other)]
    return same or grey_differs or looks[0] != looks[1]
