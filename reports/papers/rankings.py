"""Comparisons over all instances: complete tables, average ranks, performance profiles and primal integrals."""

from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from bench.ledger.labels import labels
from bench.ledger.row import Row
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, mark_powers, page, stroke, with_legend
from reports.charts.palette import QUIET, scheduler_look
from reports.figure import Figure
from reports.need import Need, NothingToDrawError, has_conditions
from reports.selection import instances_of, nothing_to_draw
from reports.statistics.complete_table import CompleteTable, complete_table
from reports.statistics.gaps import gap_at, gap_integral, gap_over_time
from reports.statistics.inference import ALPHA, Ranking, mean_interval, rank_schedulers
from reports.statistics.profiles import performance_profile, performance_ratios

_HEURISTICS = Need(
    "exact-scaling,64gpu",
    ("random", "ffd++", "mediator", "igniter"),
    quick="exact-5-s0,exact-5-s1,exact-5-s2,exact-10-s0",
)

_LONG_LIMIT_S = 300.0

NEEDS = (
    _HEURISTICS,
    replace(_HEURISTICS, schedulers=("local-search",), time_limit_s=_LONG_LIMIT_S),
    replace(_HEURISTICS, schedulers=("cpsat",), time_limit_s=_LONG_LIMIT_S, work_limit=2),
    replace(_HEURISTICS, schedulers=("colgen",), time_limit_s=_LONG_LIMIT_S, work_limit=2_000_000),
)
"""Needs of all figures over complete tables. Exact schedulers have a work limit of about ten seconds."""


def figure_table(figure: Figure, rows: Sequence[Row]) -> CompleteTable:
    """Return the largest complete table of the rows under the figure's conditions.

    A scheduler is several entrants if its runs differ in their parameters.

    Raises
    ------
    NothingToDrawError
        If there is no run, or no run with a feasible plan. Without runs, the error names the commands to run.
    """
    used_rows = [row for row in rows if row.termination != "skipped" and has_conditions(row, NEEDS[0].trial)]
    if not used_rows:
        raise nothing_to_draw(figure)
    suite_hashes = [instance.fingerprint for instance in instances_of(NEEDS).values()]
    table = complete_table(
        used_rows,
        labels(used_rows),
        list(dict.fromkeys([*suite_hashes, *(row.instance_hash for row in used_rows)])),
        scheduler_position,
    )
    if all(value is None for value in table.best.values()):
        raise NothingToDrawError(figure.name, "no run has a feasible plan")
    return table


def notes_on(table: CompleteTable) -> list[str]:
    """Return notes on the table's instances, on entrants that are left out, and on runs without a feasible plan."""
    instance_names = [rows[0].instance for rows in next(iter(table.runs.values())).values()]
    more_text = f" and {len(instance_names) - _INSTANCES_NAMED} more" if len(instance_names) > _INSTANCES_NAMED else ""
    notes = [f"{len(instance_names)} instances: {', '.join(instance_names[:_INSTANCES_NAMED])}{more_text}."]
    if table.left_out:
        notes.append(f"Not run on all of these: {', '.join(table.left_out)}.")
    if unsolved := table.unsolved():
        counts = ", ".join(f"{name} {count}" for name, count in unsolved.items())
        notes.append(f"Runs without a feasible plan, with a gap of 100 %: {counts}.")
    return notes


def scheduler_position(entrant: str) -> int:
    """Return the position of an entrant's scheduler in the needs; schedulers outside the needs come last."""
    schedulers = [scheduler for need in NEEDS for scheduler in need.schedulers]
    name = entrant.partition("[")[0]
    return schedulers.index(name) if name in schedulers else len(schedulers)


_INSTANCES_NAMED = 20
"""Largest number of instances that a note names."""

_LINE_HEIGHT_IN = 0.17
_MARGINS_HEIGHT_IN = 0.75

TARGET = 0.01
"""Largest gap to the best known value of a good plan, in the profile of times."""

_FIRST_S = 1e-3
_TIME_POINTS = 60
"""Start of the time axis in seconds, and number of times at which mean gaps are drawn."""

Steps = list[tuple[float, float]]
"""Gaps of a run over time: see ``gap_over_time``."""

_HEIGHT_IN = 2.6


def _draw_ranking(figure: Figure, rows: Sequence[Row]) -> Page:
    table = figure_table(figure, rows)
    names = list(table.runs)
    if len(names) < 2 or len(table.best) < 2:
        counts_text = f"{len(names)} schedulers on {len(table.best)} instances"
        raise NothingToDrawError(figure.name, f"{counts_text}; at least two of each are needed: `{NEEDS[0].command}`")
    ranking = rank_schedulers(table.gaps())
    notes = [
        *notes_on(table),
        f"Friedman's test that all are equal: p = {ranking.p:.2g} (Iman and Davenport's F). Nemenyi's critical "
        f"difference at {100.0 * ALPHA:g} %: {ranking.critical_difference:.2f}.",
    ]
    line_count = len(names) // 2 + 2 + len(ranking.groups)
    sheet = page(FULL_WIDTH_IN, _MARGINS_HEIGHT_IN + _LINE_HEIGHT_IN * line_count, notes)
    _draw_ranks(sheet.subplots(), names, ranking)
    return sheet


def _draw_ranks(ax: Axes, names: Sequence[str], ranking: Ranking) -> None:
    """Draw Demšar's diagram: a mark for each scheduler, and a bar under schedulers without significant differences."""
    count, difference = len(names), ranking.critical_difference
    pad = 0.03 * (count - 1)
    below_bars = 0.5 + 0.5 * len(ranking.groups)
    for position, index in enumerate(np.argsort(ranking.ranks, kind="stable").tolist()):
        rank, look = float(ranking.ranks[index]), scheduler_look(names[index])
        is_left_half = position < (count + 1) // 2
        level = below_bars + (position if is_left_half else count - 1 - position)
        text_x = 1.0 - pad if is_left_half else count + pad
        ax.plot([rank, rank, text_x], [0.0, level, level], color=QUIET, linewidth=0.6)
        ax.plot(rank, 0.0, look.marker, color=look.colour, clip_on=False, zorder=3)
        text = f"{names[index]}  {rank:.2f} " if is_left_half else f" {rank:.2f}  {names[index]}"
        ax.text(text_x, level, text, ha="right" if is_left_half else "left", va="center")
    for position, group in enumerate(ranking.groups):
        bar_ends = [ranking.ranks[group[0]] - pad / 3.0, ranking.ranks[group[-1]] + pad / 3.0]
        ax.plot(bar_ends, [0.5 + 0.5 * position] * 2, color="black", linewidth=2.5, solid_capstyle="butt")
    ax.errorbar(1.0 + difference / 2.0, -1.6, xerr=difference / 2.0, color="black", capsize=2.5, linewidth=0.8)
    ax.text(1.0 + difference + pad, -1.6, f"critical difference {difference:.2f}", va="center")
    ax.set(xlim=(1.0, count), ylim=(below_bars + (count + 1) // 2 - 0.5, -2.0))
    ax.set_xticks(range(1, count + 1))
    ax.xaxis.tick_top()
    ax.xaxis.set_label_position("top")
    ax.set_xlabel("Average rank by gap to the best known (1 is best)")
    ax.yaxis.set_visible(False)
    ax.spines[["left", "bottom"]].set_visible(False)
    ax.spines["top"].set(visible=True, position=("data", 0.0))


def _draw_quality_and_speed(figure: Figure, rows: Sequence[Row]) -> Page:
    table = figure_table(figure, rows)
    notes = notes_on(table)
    names = list(table.runs)
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
    quality_axes, speed_axes = sheet.subplots(1, 2, sharey=True)
    _draw_profiles(quality_axes, names, performance_ratios(table.factors()))
    _draw_profiles(speed_axes, names, performance_ratios(table.times_s(TARGET)))
    quality_axes.set(xlabel="Value within this factor of the best", ylabel="Part of the instances (%)", ylim=(0, 103))
    speed_axes.set(xlabel=f"Time to within {100.0 * TARGET:g} % of the best value, over the shortest", xscale="log")
    speed_axes.xaxis.set_major_formatter("{x:g}")
    speed_axes.xaxis.set_minor_formatter("")
    for ax in (quality_axes, speed_axes):
        ax.grid()
    handles = [stroke(name, **scheduler_look(name).marked) for name in names]
    return with_legend(sheet, handles, min(7, len(handles)))


def _draw_profiles(ax: Axes, names: Sequence[str], ratios: NDArray[np.float64]) -> None:
    largest_tau = max(1.05, 1.1 * ratios[np.isfinite(ratios)].max(initial=1.0))
    for name, solver_ratios in zip(names, ratios.T, strict=True):
        look = scheduler_look(name)
        tau, rho = performance_profile(solver_ratios)
        heights = 100.0 * np.array([0.0, *rho, rho[-1] if rho.size else 0.0])
        ax.step([1.0, *tau, largest_tau], heights, where="post", color=look.colour, linestyle=look.line)
        ax.plot(tau, 100.0 * rho, look.marker, color=look.colour, markersize=2.5)
    ax.set_xlim(1.0, largest_tau)


def _draw_over_time(figure: Figure, rows: Sequence[Row]) -> Page:
    table = figure_table(figure, rows)
    horizon_s = table.horizon_s
    steps = {
        name: [
            [gap_over_time(row, table.best[instance_hash]) for row in seed_rows]
            for instance_hash, seed_rows in runs.items()
        ]
        for name, runs in table.runs.items()
    }
    notes = [*notes_on(table), "Bands and whiskers: 95 % bootstrap intervals of the means."]
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
    over_time, integrals = sheet.subplots(1, 2, width_ratios=(1.5, 1.0))
    _draw_gaps(over_time, steps, horizon_s)
    _draw_integrals(integrals, steps, horizon_s)
    sheet.legend(*over_time.get_legend_handles_labels(), loc="outside upper center", ncols=min(7, len(steps)))
    return sheet


def _draw_gaps(ax: Axes, steps: dict[str, list[list[Steps]]], horizon_s: float) -> None:
    times = np.geomspace(_FIRST_S, horizon_s, _TIME_POINTS)
    for position, (name, runs_by_instance) in enumerate(steps.items()):
        look = scheduler_look(name)
        gaps = [
            [100.0 * fmean(gap_at(run_steps, t_s) for run_steps in seed_runs) for seed_runs in runs_by_instance]
            for t_s in times.tolist()
        ]
        means = [fmean(values) for values in gaps]
        bands = [mean_interval(values) or (mean, mean) for values, mean in zip(gaps, means, strict=True)]
        low, high = zip(*bands, strict=True)
        ax.fill_between(times, low, high, color=look.colour, alpha=0.15, linewidth=0.0, step="post")
        marks = {**look.marked, "markevery": (position, 12)}
        ax.plot(times, means, **marks, drawstyle="steps-post", label=name)
    ax.set(xscale="log", xlim=(_FIRST_S, horizon_s), ylim=(0.0, 103.0))
    ax.set(xlabel="Decision time (s)", ylabel="Mean gap to the best known (%)")
    ax.xaxis.set_major_formatter("{x:g}")
    ax.grid()


def _draw_integrals(ax: Axes, steps: dict[str, list[list[Steps]]], horizon_s: float) -> None:
    for position, (name, runs_by_instance) in enumerate(steps.items()):
        look = scheduler_look(name)
        values = [
            fmean(gap_integral(run_steps, horizon_s) for run_steps in seed_runs) for seed_runs in runs_by_instance
        ]
        mean = fmean(values)
        low, high = mean_interval(values) or (mean, mean)
        whiskers = [[max(0.0, mean - low)], [max(0.0, high - mean)]]
        ax.errorbar(mean, position, xerr=whiskers, fmt=look.marker, color=look.colour, capsize=2.0, linewidth=0.8)
    ax.set_yticks(range(len(steps)), list(steps))
    ax.set(ylim=(len(steps) - 0.5, -0.5), xlabel=f"Primal integral over {horizon_s:g} s (s)", xscale="log")
    smallest, largest = ax.get_xlim()
    mark_powers(ax.xaxis, (1, 2, 5) if largest < 100.0 * smallest else (1,))
    ax.xaxis.set_minor_formatter("")
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")


CRITICAL_DIFFERENCE = Figure(
    name="critical-difference",
    title="Average ranks and significant differences",
    paper="ours",
    shows="Friedman's and Nemenyi's tests over all instances (Demšar 2006) show whether one scheduler is better than "
    "another beyond chance. This figure is new.",
    look_for="Schedulers under one black bar do not differ significantly; more instances may separate them. Ranks "
    "show how often a scheduler is ahead, not by how much; see performance-profiles for that.",
    cost="the runs of performance-profiles",
    needs=NEEDS,
    any_runs=True,
    draws=_draw_ranking,
)

PERFORMANCE_PROFILES = Figure(
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
    any_runs=True,
    draws=_draw_quality_and_speed,
)

PRIMAL_INTEGRAL = Figure(
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
    any_runs=True,
    draws=_draw_over_time,
)

FIGURES = (CRITICAL_DIFFERENCE, PERFORMANCE_PROFILES, PRIMAL_INTEGRAL)
