"""Gaps of schedulers over time, averaged over all instances, and their primal integrals."""

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np

from bench.ledger.row import Row
from reports.complete_table import NEEDS, contest, failures
from reports.figure import Figure
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, write_note
from reports.palette import scheduler_look
from reports.statistics.bootstrap import mean_interval
from reports.statistics.primal_integral import gap_at, gap_over_time, primal_integral

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_HEIGHT_IN = 2.6
_FIRST_S = 1e-3
_POINTS = 60

Steps = list[tuple[float, float]]


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the gaps of ``rows`` over time into ``folder``; see ``Figure.draw``."""
    found = contest(FIGURE.name, rows)
    horizon_s = min(row.time_limit_s for runs in found.runs.values() for seeds in runs.values() for row in seeds)
    steps = {
        name: [[gap_over_time(row, found.best[at]) for row in seeds] for at, seeds in runs.items()]
        for name, runs in found.runs.items()
    }
    notes = [*found.notes, *failures(found), "Bands and whiskers: 95 % bootstrap intervals of the means."]
    with page(FULL_WIDTH_IN, _HEIGHT_IN + note_height_in(notes)) as sheet:
        over_time, integrals = sheet.subplots(1, 2, width_ratios=(1.5, 1.0))
        _draw_gaps(over_time, steps, horizon_s)
        _draw_integrals(integrals, steps, horizon_s)
        sheet.legend(*over_time.get_legend_handles_labels(), loc="outside upper center", ncols=min(7, len(steps)))
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def _draw_gaps(ax: "Axes", steps: dict[str, list[list[Steps]]], horizon_s: float) -> None:
    from matplotlib.ticker import FuncFormatter

    times = np.geomspace(_FIRST_S, horizon_s, _POINTS)
    for position, (name, by_instance) in enumerate(steps.items()):
        look = scheduler_look(name)
        gaps = [[100.0 * fmean(gap_at(each, t_s) for each in seeds) for seeds in by_instance] for t_s in times.tolist()]
        means = [fmean(values) for values in gaps]
        bands = [mean_interval(values) or (mean, mean) for values, mean in zip(gaps, means, strict=True)]
        low, high = zip(*bands, strict=True)
        ax.fill_between(times, low, high, color=look.colour, alpha=0.15, linewidth=0.0, step="post")
        ax.plot(
            times,
            means,
            color=look.colour,
            linestyle=look.line,
            marker=look.marker,
            markevery=(position, 12),
            drawstyle="steps-post",
            label=name,
        )
    ax.set(xscale="log", xlim=(_FIRST_S, horizon_s), ylim=(0.0, 103.0))
    ax.set(xlabel="Decision time (s)", ylabel="Mean gap to the best known (%)")
    ax.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))
    ax.grid()


def _draw_integrals(ax: "Axes", steps: dict[str, list[list[Steps]]], horizon_s: float) -> None:
    for position, (name, by_instance) in enumerate(steps.items()):
        look = scheduler_look(name)
        values = [fmean(primal_integral(each, horizon_s) for each in seeds) for seeds in by_instance]
        mean = fmean(values)
        low, high = mean_interval(values) or (mean, mean)
        whiskers = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
        ax.errorbar(mean, position, xerr=whiskers, fmt=look.marker, color=look.colour, capsize=2.0, linewidth=0.8)
    ax.set_yticks(range(len(steps)), list(steps))
    ax.set(ylim=(len(steps) - 0.5, -0.5), xlabel=f"Primal integral over {horizon_s:g} s (s)", xscale="log")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")


FIGURE = Figure(
    name="primal-integral",
    title="Gaps over time, and primal integrals",
    paper="ours",
    shows="A value does not show the time it took, and a time does not show the value. The primal integral (Berthold "
    "2013) is the gap to the best known plan, integrated over the time limit. This figure is new.",
    look_for="Left: a line falls from 100 % (no plan) with the first plans. Heuristics fall first and stay constant; "
    "methods that continue to search cross them. Right: a small integral means good plans early; 0.1 s may be a "
    "perfect plan after 0.1 s, or a plan with a gap of 1 % at once, over 10 s.",
    cost="the runs of performance-profiles",
    needs=NEEDS,
    draw=draw,
)
