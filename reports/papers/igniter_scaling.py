"""iGniter, Fig. 21: time and memory of a decision for 10 to 1,000 workloads."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from bench.ledger.row import Row
from instances.grouping import grouped
from reports.charts.page import COLUMN_IN, Artist, Axes, Page, mark_powers, page, stroke, with_legend
from reports.charts.palette import QUIET, STAR, scheduler_look
from reports.claim import Claim, Values, below, query
from reports.figure import Figure
from reports.need import Need
from reports.papers.igniter_plans import IGNITER, twelve
from reports.quantities import decision_ms, size_of
from reports.runs import Runs
from reports.selection import figure_rows, missing_notes
from reports.statistics.gaps import used_up_limit

_QUICK = "igniter-mix-10-s0,igniter-mix-20-s0,igniter-mix-50-s0"

_NEEDS = (
    Need("igniter-scaling", ("igniter", "ffd+", "ffd++"), seeds=(0, 1, 2, 3, 4), quick=_QUICK),
    Need("igniter-scaling", ("cpsat",), quick="igniter-mix-10-s0,igniter-mix-20-s0"),
)

PAPER_TIME_MS = {12: 3.64, 1000: 4610.0}
"""Times of Algorithm 1 by number of workloads (Sec. 5.4, on one p3.2xlarge)."""

PAPER_MEMORY_MB = {12: 53.17}

PAPER_MEMORY_BELOW_MB = (1000, 55.0)
"""Sec. 5.4: for 1,000 workloads "less than 55 MB"."""

_HEIGHT_IN = 3.4
THOUSAND = Need("igniter-mix-1000-s0", ("igniter",), parameters=IGNITER)


@dataclass(frozen=True, slots=True)
class SizePoint:
    """Times or memory of one scheduler at one number of workloads; ``at_limit`` if a run used up its time limit."""

    workloads: int
    least: float
    middle: float
    most: float
    at_limit: bool


def points(rows: Sequence[Row], figure_of: Callable[[Row], float | None]) -> list[SizePoint]:
    """Return, by number of workloads, the median and range of a figure over ``rows``; rows without it are left out."""
    known = [(row, value) for row in rows if (value := figure_of(row)) is not None]
    groups = grouped((size_of(row), (value, used_up_limit(row))) for row, value in known)
    found = []
    for size, taken in sorted(groups.items()):
        values, used_up = zip(*taken, strict=True)
        found.append(SizePoint(size, min(values), median(values), max(values), any(used_up)))
    return found


def _draw_lines(ax: Axes, rows: Sequence[Row], figure_of: Callable[[Row], float | None]) -> None:
    for scheduler in dict.fromkeys(row.scheduler for row in rows):
        look = scheduler_look(scheduler)
        found = points([row for row in rows if row.scheduler == scheduler], figure_of)
        sizes, middles = [point.workloads for point in found], [point.middle for point in found]
        ax.plot(sizes, middles, color=look.colour, linestyle=look.line, label=scheduler)
        for point in found:
            fill = "white" if point.at_limit else look.colour
            ax.plot(point.workloads, point.middle, look.marker, color=look.colour, markerfacecolor=fill)
        least, most = [point.least for point in found], [point.most for point in found]
        if len(found) == 1:  # a band of no width
            ax.vlines(sizes, least, most, color=look.colour)
        elif least != most:
            ax.fill_between(sizes, least, most, color=look.colour, alpha=0.25, linewidth=0.0)


def _draw_paper(time: Axes, memory: Axes) -> None:
    for ax, figures in ((time, PAPER_TIME_MS), (memory, PAPER_MEMORY_MB)):
        ax.plot(list(figures), list(figures.values()), **STAR, zorder=4)
    size, most_mb = PAPER_MEMORY_BELOW_MB
    memory.errorbar(size, most_mb, 0.3 * most_mb, uplims=True, color="black", linewidth=0.6, capsize=1.5, **STAR)


def _round_limits(time: Axes, memory: Axes) -> None:
    """End the scales at round numbers beyond all markers."""
    least, most = time.dataLim.minposy, time.dataLim.ymax
    steps = [step * 10.0**power for power in range(-6, 9) for step in (1, 2, 5)]
    low = max(step for step in steps if step <= least / 1.3 or step == steps[0])
    high = min(step for step in steps if step >= most * 1.3 or step == steps[-1])
    time.set_ylim(low, high)
    memory.set_ylim(30.0, max(200.0, 1.3 * memory.dataLim.ymax))


def _label(time: Axes, memory: Axes) -> None:
    time.set(xscale="log", yscale="log", xlim=(8, 1250), ylabel="Decision time (ms)")
    memory.set(yscale="log", ylabel="Peak memory (MiB)", xlabel="Number of workloads")
    for axis, steps in ((memory.xaxis, (1, 2, 5)), (time.yaxis, (1,)), (memory.yaxis, (1, 2, 5))):
        mark_powers(axis, steps)
        axis.set_minor_formatter("")
    for ax in (time, memory):
        ax.grid()


def _legend(timed: Sequence[Row]) -> list[Artist]:
    schedulers = dict.fromkeys(row.scheduler for row in timed)
    handles = [stroke(scheduler, **scheduler_look(scheduler).marked) for scheduler in schedulers]
    if any(used_up_limit(row) for row in timed):
        handles.append(stroke("used up its time limit", color=QUIET, marker="o", markerfacecolor="white", linestyle=""))
    handles.append(stroke("the paper, another machine", **STAR))
    return handles


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    own = figure_rows(figure, rows)
    timed = [row for row in own if row.decision_s is not None and row.termination in ("finished", "wall_limit")]
    notes = missing_notes(figure, own, [row for row in own if row not in timed])
    sheet = page(COLUMN_IN, _HEIGHT_IN, notes)
    time, memory = sheet.subplots(2, 1, sharex=True, height_ratios=(1.6, 1.0))
    _label(time, memory)
    _draw_lines(time, timed, decision_ms)
    _draw_lines(memory, timed, lambda row: row.peak_memory_mb)
    _draw_paper(time, memory)
    _round_limits(time, memory)
    return with_legend(sheet, _legend(timed), 3)


@query
def _decision_ms(runs: Runs, need: Need) -> Values:
    return (decision_ms(runs.row(need)),)


FIG21 = Figure(
    name="igniter-fig21",
    title="Decision time and peak memory against the number of workloads",
    paper="iGniter, Fig. 21",
    shows="Algorithm 1 takes 3.64 ms and 53.17 MB for 12 workloads, 4.61 s and less than 55 MB for 1,000. The "
    "analysis says quadratic time (from 12 to 1,000 it grows with the power 1.6); memory hardly grows.",
    look_for="Compare the slopes rather than the levels: the paper's stars are from another machine and another "
    "program; ours is compiled. Memory is that of the whole process, mostly the interpreter and its libraries. Lines "
    "are medians over the seeds; bands span the least to the largest value. Hollow marks used up the time limit.",
    cost="112 runs: about 10 seconds on two cores, and at most the time limit for each of the 7 of cpsat",
    needs=_NEEDS,
    draws=_draw,
    claims=tuple(
        Claim(
            what=f"Decision time, {workloads:,} workloads",
            paper=(PAPER_TIME_MS[workloads],),
            ours=_decision_ms(need),
            form="{:,.4g} ms",
            within=0.2,
            better=below(PAPER_TIME_MS[workloads]),
            note="compiled code on another machine",
        )
        for workloads, need in ((12, twelve("igniter")), (1000, THOUSAND))
    ),
)

FIGURES = (FIG21,)
