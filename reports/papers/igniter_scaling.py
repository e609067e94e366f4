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
from reports.papers.igniter_plans import IGNITER_PARAMETERS, need_on_twelve
from reports.quantities import decision_ms, power_of_growth, workload_count
from reports.runs import Runs
from reports.selection import figure_rows, missing_notes
from reports.statistics.gaps import used_up_limit

_QUICK = "igniter-mix-10-s0,igniter-mix-20-s0,igniter-mix-50-s0"

_NEEDS = (
    Need("igniter-scaling", ("igniter", "ffd+", "ffd++"), seeds=(0, 1, 2, 3, 4), quick=_QUICK),
    Need("igniter-scaling", ("cpsat",), quick="igniter-mix-10-s0,igniter-mix-20-s0"),
)

PAPER_TIME_MS = {12: 3.64, 1000: 4610.0}
"""Times of Algorithm 1 in ms, by number of workloads (Sec. 5.4, on one p3.2xlarge)."""

PAPER_MEMORY_MB = {12: 53.17}
"""Memory of Algorithm 1 in MB, by number of workloads."""

PAPER_MEMORY_BELOW_MB = (1000, 55.0)
"""Number of workloads and upper limit in MB: "less than 55 MB" for 1,000 workloads (Sec. 5.4)."""

_HEIGHT_IN = 3.4
THOUSAND = Need("igniter-mix-1000-s0", ("igniter",), parameters=IGNITER_PARAMETERS)


@dataclass(frozen=True, slots=True)
class SizePoint:
    """Range and median of a scheduler's times or memory at one number of workloads.

    ``at_limit`` tells whether a run used up its time limit.
    """

    workloads: int
    smallest: float
    median_value: float
    largest: float
    at_limit: bool


def points(rows: Sequence[Row], quantity: Callable[[Row], float | None]) -> list[SizePoint]:
    """Return range and median of a quantity at each number of workloads; rows without the quantity are left out."""
    rows_and_values = [(row, value) for row in rows if (value := quantity(row)) is not None]
    groups = grouped((workload_count(row), (value, used_up_limit(row))) for row, value in rows_and_values)
    size_points = []
    for size, values_and_limits in sorted(groups.items()):
        values, used_up = zip(*values_and_limits, strict=True)
        size_points.append(SizePoint(size, min(values), median(values), max(values), any(used_up)))
    return size_points


def _draw_lines(ax: Axes, rows: Sequence[Row], quantity: Callable[[Row], float | None]) -> None:
    for scheduler in dict.fromkeys(row.scheduler for row in rows):
        look = scheduler_look(scheduler)
        size_points = points([row for row in rows if row.scheduler == scheduler], quantity)
        sizes, medians = [point.workloads for point in size_points], [point.median_value for point in size_points]
        ax.plot(sizes, medians, color=look.colour, linestyle=look.line, label=scheduler)
        for point in size_points:
            fill = "white" if point.at_limit else look.colour
            ax.plot(point.workloads, point.median_value, look.marker, color=look.colour, markerfacecolor=fill)
        smallest, largest = [point.smallest for point in size_points], [point.largest for point in size_points]
        if len(size_points) == 1:  # a band would have no width
            ax.vlines(sizes, smallest, largest, color=look.colour)
        elif smallest != largest:
            ax.fill_between(sizes, smallest, largest, color=look.colour, alpha=0.25, linewidth=0.0)


def _draw_paper(time_axes: Axes, memory_axes: Axes) -> None:
    for ax, values_by_size in ((time_axes, PAPER_TIME_MS), (memory_axes, PAPER_MEMORY_MB)):
        ax.plot(list(values_by_size), list(values_by_size.values()), **STAR, zorder=4)
    size, limit_mb = PAPER_MEMORY_BELOW_MB
    memory_axes.errorbar(size, limit_mb, 0.3 * limit_mb, uplims=True, color="black", linewidth=0.6, capsize=1.5, **STAR)


def _round_limits(time_axes: Axes, memory_axes: Axes) -> None:
    """Set limits of the vertical axes beyond all markers; those of the time axis are round numbers."""
    smallest_ms, largest_ms = time_axes.dataLim.minposy, time_axes.dataLim.ymax
    round_numbers = [factor * 10.0**power for power in range(-6, 9) for factor in (1, 2, 5)]
    low = max(number for number in round_numbers if number <= smallest_ms / 1.3 or number == round_numbers[0])
    high = min(number for number in round_numbers if number >= largest_ms * 1.3 or number == round_numbers[-1])
    time_axes.set_ylim(low, high)
    memory_axes.set_ylim(30.0, max(200.0, 1.3 * memory_axes.dataLim.ymax))


def _label(time_axes: Axes, memory_axes: Axes) -> None:
    time_axes.set(xscale="log", yscale="log", xlim=(8, 1250), ylabel="Decision time (ms)")
    memory_axes.set(yscale="log", ylabel="Peak memory (MiB)", xlabel="Number of workloads")
    for axis, steps in ((memory_axes.xaxis, (1, 2, 5)), (time_axes.yaxis, (1,)), (memory_axes.yaxis, (1, 2, 5))):
        mark_powers(axis, steps)
        axis.set_minor_formatter("")
    for ax in (time_axes, memory_axes):
        ax.grid()


def _legend(timed: Sequence[Row]) -> list[Artist]:
    schedulers = dict.fromkeys(row.scheduler for row in timed)
    handles = [stroke(scheduler, **scheduler_look(scheduler).marked) for scheduler in schedulers]
    if any(used_up_limit(row) for row in timed):
        handles.append(stroke("used up its time limit", color=QUIET, marker="o", markerfacecolor="white", linestyle=""))
    handles.append(stroke("the paper, another machine", **STAR))
    return handles


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    used_rows = figure_rows(figure, rows)
    timed = [row for row in used_rows if row.decision_s is not None and row.termination in ("finished", "wall_limit")]
    notes = missing_notes(figure, used_rows, [row for row in used_rows if row not in timed])
    sheet = page(COLUMN_IN, _HEIGHT_IN, notes)
    time_axes, memory_axes = sheet.subplots(2, 1, sharex=True, height_ratios=(1.6, 1.0))
    _label(time_axes, memory_axes)
    _draw_lines(time_axes, timed, decision_ms)
    _draw_lines(memory_axes, timed, lambda row: row.peak_memory_mb)
    _draw_paper(time_axes, memory_axes)
    _round_limits(time_axes, memory_axes)
    return with_legend(sheet, _legend(timed), 3)


@query
def _decision_ms(runs: Runs, need: Need) -> Values:
    return (decision_ms(runs.row(need)),)


def _power_of_growth(runs: Runs) -> Values:
    """Return the power of the number of workloads with which the decision time grows from 12 to 1,000 workloads."""
    return (power_of_growth(runs.row(need_on_twelve("igniter")), runs.row(THOUSAND), 1000 / 12),)


_MB_PER_MIB = 1.048576
"""A row's ``peak_memory_mb`` counts MiB, the paper MB."""


@query
def _peak_memory_mb(runs: Runs, need: Need) -> Values:
    memory_mib = runs.row(need).peak_memory_mb
    return (None if memory_mib is None else _MB_PER_MIB * memory_mib,)


def _memory_growth_mb(runs: Runs) -> Values:
    (small,), (large,) = _peak_memory_mb(need_on_twelve("igniter"))(runs), _peak_memory_mb(THOUSAND)(runs)
    return (None if small is None or large is None else large - small,)


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
    claims=(
        *(
            Claim(
                what=f"Decision time, {workloads:,} workloads",
                paper=(PAPER_TIME_MS[workloads],),
                ours=_decision_ms(need),
                form="{:,.4g} ms",
                within=0.2,
                better=below(PAPER_TIME_MS[workloads]),
                note="compiled code on another machine; tables of inference times are filled before the clock starts",
            )
            for workloads, need in ((12, need_on_twelve("igniter")), (1000, THOUSAND))
        ),
        Claim(
            what="– power with which the time grows from 12 to 1,000 workloads",
            paper="quadratic; by the two printed times 1.6",
            ours=_power_of_growth,
            form="{:.2g}",
            supports=lambda power: power <= 2.0,
            criterion="at most quadratic",
            reason="unexplained",
            note="Sec. 4.1 and Sec. 5.4",
        ),
        *(
            Claim(
                what=f"Memory, {workloads:,} workloads",
                paper=paper,
                ours=_peak_memory_mb(need),
                form=form,
                supports=lambda memory_mb, limit_mb=limit_mb: memory_mb <= limit_mb,
                criterion="at most the paper's",
                reason="memory of the whole process, mostly Python, NumPy and compiled code (next line)",
            )
            for workloads, need, paper, limit_mb, form in (
                (12, need_on_twelve("igniter"), (PAPER_MEMORY_MB[12],), PAPER_MEMORY_MB[12], "{:.4g} MB"),
                (1000, THOUSAND, f"below {PAPER_MEMORY_BELOW_MB[1]:g} MB", PAPER_MEMORY_BELOW_MB[1], "{:.4g} MB"),
            )
        ),
        Claim(
            what="– growth of the memory from 12 to 1,000 workloads",
            paper="below 1.83 MB",
            ours=_memory_growth_mb,
            form="{:.3g} MB",
            supports=lambda growth_mb: growth_mb < PAPER_MEMORY_BELOW_MB[1] - PAPER_MEMORY_MB[12],
            criterion="below 1.83 MB",
            reason="unexplained",
        ),
        Claim(
            what="– the same for each workload",
            paper="linear in the number of workloads",
            ours=lambda runs: tuple(
                None if mb is None else 1000.0 * mb / (1000 - 12) for mb in _memory_growth_mb(runs)
            ),
            form="{:.3g} kB",
            not_comparable="the memory of the process hardly depends on the workloads",
            note="Sec. 4.1 and Sec. 5.4",
        ),
    ),
)

FIGURES = (FIG21,)
