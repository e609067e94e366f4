"""Performance profiles of schedulers on all instances: quality of the plans and time to a good plan."""

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from bench.ledger.row import Row
from reports.complete_table import NEEDS, Contest, contest, failures
from reports.figure import Figure
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, stroke, write_note
from reports.palette import scheduler_look
from reports.statistics.best_known import UNSOLVED, mean_gap
from reports.statistics.performance_profile import performance_profile, performance_ratios
from reports.statistics.primal_integral import gap_over_time

if TYPE_CHECKING:
    from matplotlib.axes import Axes


TARGET = 0.01
"""Gap to the best known value at which a plan counts as good in the profile of times."""

_HEIGHT_IN = 2.6
_LEAST_S = 1e-4
"""Resolution of the decision clock; shorter times count as equal."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the profiles of ``rows`` into ``folder``; see ``Figure.draw``."""
    from matplotlib.ticker import FuncFormatter

    found = contest(FIGURE.name, rows)
    notes = [*found.notes, *failures(found)]
    names = list(found.runs)
    with page(FULL_WIDTH_IN, _HEIGHT_IN + note_height_in(notes)) as sheet:
        quality, speed = sheet.subplots(1, 2, sharey=True)
        _draw_profiles(quality, names, performance_ratios(values(found)))
        _draw_profiles(speed, names, performance_ratios(times_s(found)))
        quality.set(xlabel="Value within this factor of the best", ylabel="Part of the instances (%)", ylim=(0, 103))
        speed.set(xlabel=f"Time to within {100.0 * TARGET:g} % of the best value, over the shortest", xscale="log")
        speed.xaxis.set_major_formatter(FuncFormatter(lambda factor, _: f"{factor:g}"))
        speed.xaxis.set_minor_formatter("")
        for ax in (quality, speed):
            ax.grid()
        looks = {name: scheduler_look(name) for name in names}
        handles = [
            stroke(name, color=look.colour, marker=look.marker, linestyle=look.line) for name, look in looks.items()
        ]
        sheet.legend(handles=handles, loc="outside upper center", ncols=min(7, len(handles)))
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def values(found: Contest) -> NDArray[np.float64]:
    """Return by instance and contestant the factor to the best known value, of the mean gap over the seeds."""

    def factor(rows: Sequence[Row], best: float | None) -> float:
        gap = mean_gap(rows, best)
        return 1.0 / (1.0 - gap) if gap < UNSOLVED else np.inf

    return _table(found, factor)


def times_s(found: Contest) -> NDArray[np.float64]:
    """Return by instance and contestant the mean seconds to a good plan, infinite where a seed finds none."""

    def time_s(rows: Sequence[Row], best: float | None) -> float:
        return fmean(
            next((max(t_s, _LEAST_S) for t_s, gap in gap_over_time(row, best) if gap <= TARGET), np.inf) for row in rows
        )

    return _table(found, time_s)


def _table(found: Contest, of: Callable[[Sequence[Row], float | None], float]) -> NDArray[np.float64]:
    return np.array([[of(runs[at], best) for runs in found.runs.values()] for at, best in found.best.items()])


def _draw_profiles(ax: "Axes", names: Sequence[str], ratios: NDArray[np.float64]) -> None:
    most = max(1.05, 1.1 * ratios[np.isfinite(ratios)].max(initial=1.0))
    for name, column in zip(names, ratios.T, strict=True):
        look = scheduler_look(name)
        tau, rho = performance_profile(column)
        heights = 100.0 * np.array([0.0, *rho, rho[-1] if rho.size else 0.0])
        ax.step([1.0, *tau, most], heights, where="post", color=look.colour, linestyle=look.line)
        ax.plot(tau, 100.0 * rho, look.marker, color=look.colour, markersize=2.5)
    ax.set_xlim(1.0, most)


FIGURE = Figure(
    name="performance-profiles",
    title="Performance profiles: quality of the plans, and time to a good plan",
    paper="ours",
    shows="Papers compare means over a few instances. A profile (Dolan and Moré 2002) shows the percentage of "
    "instances on which a scheduler is within a factor of the best. This figure is new.",
    look_for="Left: a line starts at the percentage of instances on which the scheduler has the best known value, and "
    "ends at the percentage that it solves at all. A run without a feasible plan is never within any factor. Right: "
    "the same for the time to a plan within 1 % of the best known value; a low end means that the scheduler seldom "
    "finds one.",
    cost="196 runs: up to the time limit for each of the 84 of local-search, cpsat and colgen; exact-scaling and "
    "exact-gap share those of the last two",
    needs=NEEDS,
    draw=draw,
)
