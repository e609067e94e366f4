"""Robustness of plans to wrong coefficients of the performance model, with and without headroom."""

from collections.abc import Callable, Sequence
from itertools import product
from statistics import fmean

from bench.command_text import option
from bench.evaluation import Trial
from bench.ledger.row import Row
from bench.simulation.arrivals import Arrivals, Process
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, stroke, with_legend
from reports.charts.palette import scheduler_look
from reports.figure import Figure
from reports.need import Need, has_conditions
from reports.quantities import not_in_time_pct, size_of
from reports.selection import figure_rows, missing_notes

HEADROOMS = (1.0, 1.1, 1.25)
ERRORS = (0.0, 0.1, 0.2, 0.3, 0.5)
SEEDS = (0, 1, 2)

ROUNDS_LIMIT_S = 120.0
"""Time limit that local search does not reach; its rounds end it."""

SCHEDULERS = ("igniter", "ffd+", "gpu-lets+", "gslice+", "local-search")
CONSTANT, POISSON = Arrivals(Process.CONSTANT), Arrivals()

NEEDS = tuple(
    Need(
        "64gpu-cost",
        SCHEDULERS,
        SEEDS,
        quick="exact-5-s1",
        trial=Trial(headroom, error=error, arrivals=arrivals),
        time_limit_s=ROUNDS_LIMIT_S,
    )
    for arrivals, headroom, error in product((CONSTANT, POISSON), HEADROOMS, ERRORS)
)

_HEIGHT_IN = 4.6


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    own = figure_rows(figure, rows)
    (name, *_) = [
        each for each in (figure.needs[0].instances, figure.needs[0].quick) if each in {row.instance for row in own}
    ]
    misled = {row.scheduler for row in own if row.truth is not None}
    own = [row for row in own if row.instance == name and row.scheduler in misled]
    notes = missing_notes(figure, own, [row for row in own if row.violations is None])
    notes.append("GPUs are in the order of the legend.")
    kinds: tuple[tuple[str, Callable[[Row], float | None], Arrivals], ...] = (
        ("Constraints broken,\nper 100 workloads", broken_per_100, POISSON),
        ("Not in time (%),\nconstant arrivals", not_in_time_pct, CONSTANT),
        ("Not in time (%),\nPoisson arrivals", not_in_time_pct, POISSON),
    )
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
    axes = sheet.subplots(len(kinds), len(HEADROOMS), sharex=True, sharey="row")
    for (label, figure_of, arrivals), line in zip(kinds, axes, strict=True):
        line[0].set_ylabel(label)
        for headroom, ax in zip(HEADROOMS, line, strict=True):
            _draw_lines(ax, _curves(own, figure_of, headroom, arrivals))
    for headroom, ax in zip(HEADROOMS, axes[0], strict=True):
        ax.set_title(f"headroom {headroom:g}")
        ax.set_title(_gpus(own, headroom), loc="right", fontweight="normal", fontsize=5.5)
    for ax in axes[-1]:
        ax.set(xlabel="Figures wrong by up to (%)", xlim=(0.0, 100.0 * ERRORS[-1]))
    for ax in axes.flat:
        ax.set_ylim(bottom=0.0)
        ax.grid()
    schedulers = dict.fromkeys(row.scheduler for row in own)
    handles = [stroke(scheduler, **scheduler_look(scheduler).marked) for scheduler in schedulers]
    return with_legend(sheet, handles)


def broken_per_100(row: Row) -> float | None:
    """Return the number of violations by the judge, per 100 workloads."""
    return None if row.violations is None else 100.0 * row.violations / size_of(row)


def _gpus(rows: Sequence[Row], headroom: float) -> str:
    """Return the number of GPUs of each scheduler in words; plans do not depend on the error."""
    found: dict[str, set[int]] = {}
    for row in rows:
        if (row.headroom or 1.0) == headroom and row.gpus_used is not None:
            found.setdefault(row.scheduler, set()).add(row.gpus_used)
    counts = ", ".join("–".join(map(str, sorted({min(gpus), max(gpus)}))) for gpus in found.values())
    return f"GPUs {counts}" if counts else ""


def _curves(
    rows: Sequence[Row], figure_of: Callable[[Row], float | None], headroom: float, arrivals: Arrivals
) -> dict[str, dict[float, list[float]]]:
    """Return the values of one metric by scheduler and error, one value per seed."""
    found: dict[str, dict[float, list[float]]] = {}
    for error in ERRORS:
        for row in rows:
            value = figure_of(row)
            if value is not None and has_conditions(row, Trial(headroom, error=error, arrivals=arrivals)):
                found.setdefault(row.scheduler, {}).setdefault(error, []).append(value)
    return found


def _draw_lines(ax: Axes, curves: dict[str, dict[float, list[float]]]) -> None:
    for scheduler, points in curves.items():
        look = scheduler_look(scheduler)
        errors = [100.0 * error for error in points]
        ax.plot(errors, [fmean(values) for values in points.values()], color=look.colour, linestyle=look.line)
        ax.plot(errors, [fmean(values) for values in points.values()], look.marker, color=look.colour, markersize=2.5)
        least, most = [min(values) for values in points.values()], [max(values) for values in points.values()]
        ax.fill_between(errors, least, most, color=look.colour, alpha=0.12, linewidth=0.0)


ROBUSTNESS = Figure(
    name="robustness",
    title="Violations and late requests where the figures of the GPUs are wrong",
    paper="ours",
    shows="No paper evaluates its plans under a wrong performance model; this figure is new.",
    look_for="Without headroom, plans are at their latency limits: coefficients that are wrong by up to 10 % break "
    "four in ten budgets of igniter and of local search. Headroom 1.1 costs a tenth more GPUs and absorbs that error "
    "completely; 1.25 costs three tenths and absorbs 20 %. Under random arrivals requests are late even with correct "
    "coefficients; headroom helps there, too. Local search with headroom 1.1 takes as many GPUs as igniter without. "
    "gpu-lets+ degrades most slowly, on 60 % more GPUs; gslice+ tunes itself back to its limits at any headroom. "
    "Lines are means over three seeds; bands span the least to the largest value.",
    cost=f"450 runs: about 7 minutes on two shared cores; as many runs of a second or less with {option('quick')}",
    needs=NEEDS,
    draws=_draw,
)

FIGURES = (ROBUSTNESS,)
