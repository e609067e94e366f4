"""Figure of the library: gaps of the entries over their size, and numbers of best-known plans by finder."""

from collections import Counter
from collections.abc import Mapping, Sequence

from bench.ledger.row import Row
from instances.library import LIBRARY, LibraryLine
from instances.library.difficulty import counted
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, stroke, with_legend
from reports.charts.palette import DEEP_BLUE, QUIET, SERIES
from reports.figure import Figure

_HEIGHT_IN = 3.4
_SMALLEST_TICK_PCT, _NO_BOUND_PCT = 0.1, 100.0
"""Smallest gap with a tick of its own, and the drawn gap of entries without a bound, in percent."""

LOOKS = dict(zip(("cost", "capacity", "goodput", "scale"), SERIES, strict=False))
"""Styles of the entries by objective."""

SIZE_TITLE, GAP_TITLE = "Number of workloads", "Gap to the proven bound (%)"
"""Titles of the axes of the gaps."""


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    lines = LIBRARY.summaries()
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, [summary_sentence(lines)])
    gap_axes, finder_axes = sheet.subplots(1, 2, width_ratios=(3, 2))
    draw_gaps(gap_axes, lines)
    gap_axes.set(xlabel=SIZE_TITLE, ylabel=GAP_TITLE)
    _draw_finders(finder_axes, plans_by_finder(lines))
    handles = [
        stroke(objective, color=look.colour, marker=look.marker, linestyle="") for objective, look in LOOKS.items()
    ]
    return with_legend(sheet, handles, 4)


def summary_sentence(lines: Sequence[LibraryLine]) -> str:
    """Return sentences on the numbers of proven, open and bounded entries, and of entries of each difficulty."""
    closed, bounded = sum(line.closed for line in lines), sum(line.bound is not None for line in lines)
    difficulties = counted(line.difficulty for line in lines)
    return (
        f"{len(lines)} entries: {closed} proven best, {len(lines) - closed} open; {bounded} have a checked bound."
        f" Difficulty: {difficulties}."
    )


def plans_by_finder(lines: Sequence[LibraryLine]) -> Mapping[str, int]:
    """Return the number of best-known plans by finder, the largest number first."""
    return dict(Counter(line.plan_by for line in lines if line.plan_by is not None).most_common())


def draw_gaps(ax: Axes, lines: Sequence[LibraryLine]) -> None:
    """Draw the gaps of the entries with a plan; the gid of an objective's marks is the objective's name."""
    for objective, look in LOOKS.items():
        planned_lines = [line for line in lines if line.objective == objective and line.value is not None]
        sizes = [line.workloads for line in planned_lines]
        gaps = [
            _NO_BOUND_PCT if line.gap is None else max(_SMALLEST_TICK_PCT / 3.0, 100.0 * line.gap)
            for line in planned_lines
        ]
        ax.scatter(sizes, gaps, s=14, color=look.colour, marker=look.marker, alpha=0.7, linewidths=0.0, gid=objective)
    ax.axhline(_SMALLEST_TICK_PCT / 1.7, color=QUIET, linewidth=0.6, linestyle=":")
    ax.set(xscale="log", yscale="log")
    ax.set_yticks([_SMALLEST_TICK_PCT / 3.0, 0.1, 1.0, 10.0, _NO_BOUND_PCT], ["closed", "0.1", "1", "10", "no bound"])
    ax.minorticks_off()
    ax.xaxis.set_major_formatter("{x:,g}")


def _draw_finders(ax: Axes, plan_counts: Mapping[str, int]) -> None:
    names = list(plan_counts)[::-1]
    ax.barh(names, [plan_counts[name] for name in names], color=DEEP_BLUE, height=0.6)
    for position, name in enumerate(names):
        ax.text(plan_counts[name], position, f" {plan_counts[name]}", va="center")
    ax.set(xlabel="Best-known plans", xlim=(0, 1.2 * max(plan_counts.values(), default=1)))


FIGURES = (
    Figure(
        name="library",
        title="The library: proven and open entries, and the finders of the best plans",
        paper="ours",
        shows="No paper has such a collection; this figure is new.",
        look_for="A mark is an entry. Marks on the lowest line are proven best. Marks above it are open: a better plan "
        "can gain at most the gap. Entries in the top line have a plan and no checked bound.",
        draws=_draw,
    ),
)
