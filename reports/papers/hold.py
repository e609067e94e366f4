"""GPUs of plans that hold: plans with headroom under the papers' rule, and the optimum under ``attainment``.

The optimum under ``attainment`` is drawn twice: for servers that drop late requests, and for servers that drop none.
Further panels have the GPUs that margins cost under both rules (``hold_margins``).
"""

from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Any

from bench.command_text import option
from bench.evaluation import Trial
from bench.formatting import servers
from bench.ledger.row import Row
from bench.simulation.arrivals import Arrivals
from instances.grouping import grouped
from instances.instance import Instance
from reports.charts.page import FULL_WIDTH_IN, Artist, Axes, Page, page, stroke, with_legend
from reports.charts.palette import GREEN, QUIET, scheduler_look
from reports.figure import Figure
from reports.need import Need
from reports.papers import hold_margins
from reports.quantities import certified_bound
from reports.selection import figure_rows, instances_of, missing_notes

HEADROOMS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
BY_PAPER = {
    "iGniter": ("igniter", "ffd+", "ffd++", "gpu-lets+", "gslice+"),
    "gpulet": ("elastic-partitioning", "sbp", "greedy-best-fit", "guided-self-tuning"),
    "MediatorDNN, and local search": ("mediator", "horus", "bin-packing", "local-search"),
}
"""Schedulers of each panel."""

SCHEDULERS = tuple(scheduler for schedulers in BY_PAPER.values() for scheduler in schedulers)
EXACT = "colgen"

NOT_COMPARED = (
    "ideal and gpu-scaling make plans of elastic-partitioning, as the number of GPUs is not limited",
    "InSS's ts, ts+repair, ts-ni and ts-hierarchy do not plan cost",
    "mig cuts GPUs into MIG instances",
)
"""Schedulers of the papers that the figure leaves out, with the reasons."""

_WORK_LIMIT = 30_000_000
_LONG_LIMIT_S, _LONGEST_LIMIT_S = 120.0, 900.0
"""Time limits in seconds of the heuristics and of the exact method; all runs end earlier."""


def tested_need(scheduler: str, headroom: float) -> Need:
    """Return the need for a scheduler's tested plan under the papers' rule."""
    trial = Trial(headroom, arrivals=Arrivals(), check_holds=True)
    return Need("64gpu-cost", (scheduler,), quick="igniter-12", trial=trial, time_limit_s=_LONG_LIMIT_S)


PAPERS_OPTIMUM = replace(tested_need(EXACT, 1.0), time_limit_s=_LONGEST_LIMIT_S, work_limit=_WORK_LIMIT)
OPTIMUM = replace(PAPERS_OPTIMUM, instances="64gpu-cost-hold", quick="igniter-12-hold")
OPTIMUM_NO_DROP = replace(OPTIMUM, instances="64gpu-cost-hold-no-drop", quick="igniter-12-hold-no-drop")
"""Needs for exact plans: under the papers' rule, and under ``attainment`` with and without dropping."""

_HEIGHT_IN = 3.2
_MARGINS_HEIGHT_IN = 2.0
_HOLDING_STYLE: dict[str, Any] = {"markerfacecolor": GREEN, "linestyle": ""}
_LATE_STYLE: dict[str, Any] = {"markerfacecolor": "white", "linestyle": ""}
_EDGE_STYLE: dict[str, Any] = {"color": "black", "markeredgewidth": 0.6}
_ATTAINMENT_STYLE: dict[bool, dict[str, Any]] = {
    True: _EDGE_STYLE | {"marker": "*", "markersize": 10.0},
    False: _EDGE_STYLE | {"marker": "P", "markersize": 7.0},
}
_BOUND_STYLE: dict[bool, dict[str, Any]] = {
    dropping: {"color": "black", "linestyle": line, "linewidth": 0.8} for dropping, line in ((True, ":"), (False, "-."))
}
"""Marks of plans under ``attainment``, and lines of their bounds, by whether the servers drop late requests."""

_CONDITIONS = {True: "under attainment", False: "under attainment, no dropping"}


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    all_rows = figure_rows(figure, rows)
    margin_rows = [row for row in all_rows if row.instance in hold_margins.instances()]
    rows = [row for row in all_rows if row.instance not in hold_margins.instances()]
    drawn_instances = {row.instance for row in rows if _is_tested(row)}
    original_names = [
        name for name in instances_of(figure.needs) if name in drawn_instances and _original(name) == name
    ]
    exact_rows = [row for row in rows if row.scheduler == EXACT and _headroom(row) == 1.0]
    candidate_rows = [
        row for row in rows if row.scheduler in SCHEDULERS and _original(row.instance) == row.instance
    ] + exact_rows
    # Only the first instance is drawn. If there is none, no row is left, and ``missing_notes`` raises an error.
    used_rows = [row for row in candidate_rows if _original(row.instance) in original_names[:1]]
    planned_schedulers = {row.scheduler for row in used_rows if _is_tested(row)}
    notes = missing_notes(figure, used_rows, [row for row in used_rows if row.scheduler not in planned_schedulers])
    instance = instances_of(figure.needs)[original_names[0]]
    notes = [*_notes(instance, used_rows), *hold_margins.sentences(margin_rows), *notes]
    panels: list[Axes] = []
    if margin_rows:
        sheet = page(FULL_WIDTH_IN, _HEIGHT_IN + _MARGINS_HEIGHT_IN, notes)
        names = hold_margins.names_under_papers_rule()
        grid = sheet.add_gridspec(2, len(BY_PAPER) * len(names), height_ratios=(_HEIGHT_IN, _MARGINS_HEIGHT_IN))
        for column in range(len(BY_PAPER)):
            shared = panels[0] if panels else None
            place = grid[0, column * len(names) : (column + 1) * len(names)]
            panels.append(sheet.add_subplot(place, sharex=shared, sharey=shared))
            panels[-1].tick_params(labelleft=column == 0)
        places = [grid[1, k * len(BY_PAPER) : (k + 1) * len(BY_PAPER)] for k in range(len(names))]
        hold_margins.draw([sheet.add_subplot(place) for place in places], margin_rows)
    else:
        sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
        panels += list(sheet.subplots(1, len(BY_PAPER), sharex=True, sharey=True))
    for ax, (paper, schedulers) in zip(panels, BY_PAPER.items(), strict=True):
        for scheduler in schedulers:
            _draw_curve(ax, scheduler, curve(used_rows, scheduler), instance)
        _draw_exact(ax, used_rows, instance)
        ax.set_title(paper)
        ax.set_xlabel("Workloads that keep their attainment (%)")
        ax.grid()
        ax.legend(loc="lower right")  # no curve passes there, since every plan uses more GPUs
    panels[0].set_ylabel(f"GPUs for the {len(instance.workloads)} workloads of {instance.name}")
    panels[0].set(xlim=(-4.0, 104.0), ylim=(0.0, None))
    return with_legend(sheet, _legend(), 4)


def _legend() -> list[Artist]:
    plan_style, exact_style = {"color": QUIET, "marker": "o", "markersize": 4.5}, scheduler_look(EXACT)
    return [
        stroke("plan that holds", **plan_style | _HOLDING_STYLE),
        stroke("plan with late workloads", **plan_style | _LATE_STYLE),
        stroke("optimum of the papers' rule", color=exact_style.colour, marker=exact_style.marker, **_LATE_STYLE),
        *(
            stroke(f"plan {condition}", **_ATTAINMENT_STYLE[dropping] | _HOLDING_STYLE)
            for dropping, condition in _CONDITIONS.items()
        ),
        *(stroke(f"bound {condition}", **_BOUND_STYLE[dropping]) for dropping, condition in _CONDITIONS.items()),
    ]


def _original(name: str) -> str:
    """Return the name of the same instance under the papers' rule."""
    return name.removesuffix("-no-drop").removesuffix("-hold")


def _drops(row: Row) -> bool:
    return not row.instance.endswith("-no-drop")


def _is_tested(row: Row) -> bool:
    """Return whether a run has a plan that was tested."""
    return row.gpus_used is not None and row.late_workloads is not None


def curve(rows: Sequence[Row], scheduler: str) -> list[Row]:
    """Return a scheduler's tested plans, ordered by headroom."""
    scheduler_rows = [row for row in rows if row.scheduler == scheduler and _is_tested(row)]
    return sorted(scheduler_rows, key=_headroom)


def _headroom(row: Row) -> float:
    return row.headroom or 1.0


def attaining_pct(row: Row, instance: Instance) -> float:
    """Return the percentage of workloads that keep their attainment in the test."""
    return 100.0 * (1.0 - (row.late_workloads or 0) / len(instance.workloads))


def _draw_curve(ax: Axes, scheduler: str, rows: Sequence[Row], instance: Instance) -> None:
    look = scheduler_look(scheduler)
    points = [(attaining_pct(row, instance), row.gpus_used or 0) for row in rows]
    ax.plot(*zip(*points, strict=True) if points else ([], []), label=scheduler, markersize=4.0, **look.marked)
    for point, row in zip(points, rows, strict=True):
        ax.plot(
            *point,
            color=look.colour,
            marker=look.marker,
            markersize=5.0,
            **_HOLDING_STYLE if row.holds else _LATE_STYLE,
        )


def _draw_exact(ax: Axes, rows: Sequence[Row], instance: Instance) -> None:
    """Draw the exact plans under both rules, and the certified bounds of the plans under ``attainment``."""
    look = scheduler_look(EXACT)
    for row in curve(rows, EXACT):
        fill_style = _HOLDING_STYLE if row.holds else _LATE_STYLE
        point = attaining_pct(row, instance), row.gpus_used or 0
        if row.instance == instance.name:
            ax.plot(*point, color=look.colour, marker=look.marker, zorder=4, **fill_style)
            continue
        ax.plot(*point, clip_on=False, zorder=5, **_ATTAINMENT_STYLE[_drops(row)] | fill_style)
        if (bound := certified_bound(row)) is not None:
            ax.axhline(gpus_for_cost(bound, instance), **_BOUND_STYLE[_drops(row)])


def gpus_for_cost(cost: float, instance: Instance) -> float:
    """Return the number of GPUs of the cheapest type that have this cost; it may be fractional."""
    return cost / min(pool.type.price_per_hour for pool in instance.gpus)


def _notes(instance: Instance, rows: Sequence[Row]) -> list[str]:
    """Return the notes on headroom, on the exact plans and on the schedulers that are not drawn."""
    headroom_texts = ", ".join(f"{headroom:.1f}" for headroom in HEADROOMS)
    notes = [
        f"Along a curve headroom grows: {headroom_texts}. A plan holds (green) if no workload serves less than"
        f" {100.0 * instance.attainment:g} % of its requests in time (10 simulations of at least 300 s, Poisson"
        " arrivals). Servers drop late requests, unless stated otherwise."
    ]
    for dropping in (True, False):
        attainment_rows = [row for row in rows if _is_tested(row) and _original(row.instance) != row.instance]
        plan_rows = [row for row in attainment_rows if _drops(row) is dropping]
        notes.append(_plan_in_words(f"under attainment on {servers(dropping)}", plan_rows, instance))
    unplanned = (row for row in sorted(rows, key=_headroom) if row.gpus_used is None)
    if headrooms_without_plan := grouped((row.scheduler, f"{_headroom(row):g}") for row in unplanned):
        scheduler_texts = (
            f"{name} at {', '.join(headrooms_without_plan[name])}"
            for name in SCHEDULERS
            if name in headrooms_without_plan
        )
        notes.append(f"No plan with headroom: {'; '.join(scheduler_texts)}.")
    return [*notes, f"Not drawn: {'; '.join(NOT_COMPARED)}."]


def _plan_in_words(condition_text: str, rows: Sequence[Row], instance: Instance) -> str:
    """Return the sentence on an exact plan and its bound."""
    if not rows:
        return f"There is no plan of {EXACT} {condition_text}."
    plan_text = f"The plan of {EXACT} {condition_text} takes {rows[-1].gpus_used} GPUs"
    bounds = [bound for row in rows if (bound := certified_bound(row)) is not None]
    if not bounds:
        return f"{plan_text}, without a certified bound."
    return f"{plan_text}; at least {ceil(gpus_for_cost(bounds[-1], instance) - 1e-6)} are proven to be needed."


HOLD = Figure(
    name="hold",
    title="GPUs over the fraction of workloads that keep their SLO attainment",
    paper="ours",
    shows="The papers plan for regular arrivals and do not test whether their plans hold under random ones; this figure"
    " is new.",
    look_for="Every curve begins at the left with the plans of the papers: few GPUs, and hardly a workload that "
    "serves 99 % of its requests in time. Headroom moves a plan to the right and up, because every workload gets "
    "slack that only some need. The star is the plan of the exact method under the rule attainment, the dotted line "
    "its bound; plus and dash-dotted line are those for servers that drop no requests. Their plan takes more GPUs, "
    "because late requests delay those behind them. The lower panels have the GPUs of twelve workloads with margins "
    "for the error of the performance model: under the papers' rule, and together with attainment.",
    cost="101 runs, each tested in 10 simulations of 300 s: half an hour on one core; five minutes with"
    f" {option('quick')}",
    needs=(
        *(replace(tested_need("igniter", headroom), schedulers=SCHEDULERS) for headroom in HEADROOMS),
        PAPERS_OPTIMUM,
        OPTIMUM,
        OPTIMUM_NO_DROP,
        *hold_margins.NEEDS,
    ),
    draws=_draw,
)

FIGURES = (HOLD,)
