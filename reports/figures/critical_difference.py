"""Average ranks of schedulers on all instances, and their significant differences."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.ledger.row import Row
from reports.complete_table import NEEDS, Contest, contest, failures, too_few
from reports.figure import Figure
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, write_note
from reports.palette import QUIET, scheduler_look
from reports.statistics.best_known import mean_gap
from reports.statistics.critical_difference import Ranking, rank_schedulers

if TYPE_CHECKING:
    from matplotlib.axes import Axes


ALPHA = 0.05

_LINE_IN = 0.17
_MARGINS_IN = 0.75


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the ranks of ``rows`` into ``folder``; see ``Figure.draw``."""
    found = contest(FIGURE.name, rows)
    names = list(found.runs)
    if len(names) < 2 or len(found.best) < 2:
        raise too_few(FIGURE.name, len(names), len(found.best))
    ranking = rank_schedulers(gap_table(found), ALPHA)
    notes = [
        *found.notes,
        *failures(found),
        f"Friedman's test that all are equal: p = {ranking.p:.2g} (Iman and Davenport's F). Nemenyi's critical "
        f"difference at {100.0 * ALPHA:g} %: {ranking.critical_difference:.2f}.",
    ]
    lines = len(names) // 2 + 2 + len(ranking.groups)
    with page(FULL_WIDTH_IN, _MARGINS_IN + _LINE_IN * lines + note_height_in(notes)) as sheet:
        _draw_ranks(sheet.subplots(), names, ranking)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def gap_table(found: Contest) -> NDArray[np.float64]:
    """Return by instance and contestant the mean gap to the best known value; ranks compare these."""
    return np.array([[mean_gap(runs[at], best) for runs in found.runs.values()] for at, best in found.best.items()])


def _draw_ranks(ax: "Axes", names: Sequence[str], ranking: Ranking) -> None:
    """Draw Demšar's diagram: a mark per scheduler, a bar under schedulers that do not differ significantly."""
    most, difference = len(names), ranking.critical_difference
    pad = 0.03 * (most - 1)
    below_bars = 0.5 + 0.5 * len(ranking.groups)
    for position, index in enumerate(np.argsort(ranking.ranks, kind="stable").tolist()):
        rank, look = float(ranking.ranks[index]), scheduler_look(names[index])
        left = position < (most + 1) // 2
        level = below_bars + (position if left else most - 1 - position)
        end = 1.0 - pad if left else most + pad
        ax.plot([rank, rank, end], [0.0, level, level], color=QUIET, linewidth=0.6)
        ax.plot(rank, 0.0, look.marker, color=look.colour, clip_on=False, zorder=3)
        told = f"{names[index]}  {rank:.2f} " if left else f" {rank:.2f}  {names[index]}"
        ax.text(end, level, told, ha="right" if left else "left", va="center")
    for position, group in enumerate(ranking.groups):
        ends = [ranking.ranks[group[0]] - pad / 3.0, ranking.ranks[group[-1]] + pad / 3.0]
        ax.plot(ends, [0.5 + 0.5 * position] * 2, color="black", linewidth=2.5, solid_capstyle="butt")
    ax.errorbar(1.0 + difference / 2.0, -1.6, xerr=difference / 2.0, color="black", capsize=2.5, linewidth=0.8)
    ax.text(1.0 + difference + pad, -1.6, f"critical difference {difference:.2f}", va="center")
    ax.set(xlim=(1.0, most), ylim=(below_bars + (most + 1) // 2 - 0.5, -2.0))
    ax.set_xticks(range(1, most + 1))
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("Average rank by gap to the best known (1 is best)")
    ax.yaxis.set_visible(False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.spines["top"].set(visible=True, position=("data", 0.0))


FIGURE = Figure(
    name="critical-difference",
    title="Average ranks and significant differences",
    paper="ours",
    shows="Whether one scheduler is better than another beyond chance: Friedman's and Nemenyi's tests over all "
    "instances (Demšar 2006). This figure is new.",
    look_for="Schedulers under one black bar do not differ significantly; more instances may separate them. Ranks "
    "show how often a scheduler is ahead, not by how much; see performance-profiles for that.",
    cost="the runs of performance-profiles",
    needs=NEEDS,
    draw=draw,
)
