"""GPUs needed for plans that hold: by headroom under the papers' rule, and by the optimum under ``attainment``.

The optimum under ``attainment`` is drawn twice: for servers that drop late requests, and for servers that drop none.
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
from reports.quantities import certified_bound
from reports.selection import figure_rows, instances_of, missing_notes

HEADROOMS = (1.0, 1.2, 1.4, 1.6, 1.8, 2.0)
BY_PAPER = {
    "iGniter": ("igniter", "ffd+", "ffd++", "gpu-lets+", "gslice+"),
    "gpulet": ("elastic-partitioning", "sbp", "greedy-best-fit", "guided-self-tuning"),
    "MediatorDNN, and local search": ("mediator", "horus", "bin-packing", "local-search"),
}
"""Schedulers of each panel."""

SCHEDULERS = tuple(scheduler for own in BY_PAPER.values() for scheduler in own)
EXACT = "colgen"

NOT_COMPARED = (
    "ideal and gpu-scaling make the plans of elastic-partitioning, as the number of GPUs is not limited",
    "InSS's ts, ts+repair, ts-ni and ts-hierarchy do not plan cost",
    "mig cuts GPUs into MIG instances",
)
"""Schedulers of the papers that the figure leaves out, with the reasons."""

_WORK = 30_000_000
_GENEROUS_S, _PATIENT_S = 120.0, 900.0
"""Time limits of the heuristics and of the exact method, which end before them; the latter by its work limit."""


def tested(scheduler: str, headroom: float) -> Need:
    """Return the need for a scheduler's tested plan under the papers' rule."""
    trial = Trial(headroom, arrivals=Arrivals(), check_holds=True)
    return Need("64gpu-cost", (scheduler,), quick="igniter-12", trial=trial, time_limit_s=_GENEROUS_S)


PAPERS_OPTIMUM = replace(tested(EXACT, 1.0), time_limit_s=_PATIENT_S, work_limit=_WORK)
OPTIMUM = replace(PAPERS_OPTIMUM, instances="64gpu-cost-hold", quick="igniter-12-hold")
OPTIMUM_NO_DROP = replace(OPTIMUM, instances="64gpu-cost-hold-no-drop", quick="igniter-12-hold-no-drop")
"""Needs for the exact plans under the papers' rule, and under ``attainment`` with and without dropping."""

_HEIGHT_IN = 3.2
_HOLDS: dict[str, Any] = {"markerfacecolor": GREEN, "linestyle": ""}
_LATE: dict[str, Any] = {"markerfacecolor": "white", "linestyle": ""}
_EDGE: dict[str, Any] = {"color": "black", "markeredgewidth": 0.6}
_PLANNED: dict[bool, dict[str, Any]] = {
    True: _EDGE | {"marker": "*", "markersize": 10.0},
    False: _EDGE | {"marker": "P", "markersize": 7.0},
}
_BOUND: dict[bool, dict[str, Any]] = {
    dropping: {"color": "black", "linestyle": line, "linewidth": 0.8} for dropping, line in ((True, ":"), (False, "-."))
}
"""Marks of plans under ``attainment``, and lines of their bounds, by whether the servers drop late requests."""

_CONDITIONS = {True: "under attainment", False: "under attainment, no dropping"}


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    rows = figure_rows(figure, rows)
    present = {row.instance for row in rows if _drawn(row)}
    names = [name for name in instances_of(figure.needs) if name in present and _original(name) == name]
    exact = [row for row in rows if row.scheduler == EXACT and _headroom(row) == 1.0]
    drawn = [row for row in rows if row.scheduler in SCHEDULERS and _original(row.instance) == row.instance] + exact
    own = [row for row in drawn if _original(row.instance) in names[:1]]
    planned = {row.scheduler for row in own if _drawn(row)}
    notes = missing_notes(figure, own, [row for row in own if row.scheduler not in planned])
    instance = instances_of(figure.needs)[names[0]]
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, [*_words(instance, own), *notes])
    panels = sheet.subplots(1, len(BY_PAPER), sharex=True, sharey=True)
    for ax, (paper, schedulers) in zip(panels, BY_PAPER.items(), strict=True):
        for scheduler in schedulers:
            _draw_curve(ax, scheduler, curve(own, scheduler), instance)
        _draw_exact(ax, own, instance)
        ax.set_title(paper)
        ax.set_xlabel("Workloads that keep their attainment (%)")
        ax.grid()
        ax.legend(loc="lower right")  # every plan takes more GPUs
    panels[0].set_ylabel(f"GPUs for the {len(instance.workloads)} workloads of {instance.name}")
    panels[0].set(xlim=(-4.0, 104.0), ylim=(0.0, None))
    return with_legend(sheet, _legend(), 4)


def _legend() -> list[Artist]:
    plain, exact = {"color": QUIET, "marker": "o", "markersize": 4.5}, scheduler_look(EXACT)
    return [
        stroke("plan that holds", **plain | _HOLDS),
        stroke("plan with late workloads", **plain | _LATE),
        stroke("optimum of the papers' rule", color=exact.colour, marker=exact.marker, **_LATE),
        *(stroke(f"plan {under}", **_PLANNED[dropping] | _HOLDS) for dropping, under in _CONDITIONS.items()),
        *(stroke(f"bound {under}", **_BOUND[dropping]) for dropping, under in _CONDITIONS.items()),
    ]


def _original(name: str) -> str:
    """Return the name of the instance under the papers' rule."""
    return name.removesuffix("-no-drop").removesuffix("-hold")


def _drops(row: Row) -> bool:
    return not row.instance.endswith("-no-drop")


def _drawn(row: Row) -> bool:
    """Return whether a run has a plan that was tested."""
    return row.gpus_used is not None and row.late_workloads is not None


def curve(rows: Sequence[Row], scheduler: str) -> list[Row]:
    """Return a scheduler's tested plans in the order of headroom."""
    own = [row for row in rows if row.scheduler == scheduler and _drawn(row)]
    return sorted(own, key=_headroom)


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
        ax.plot(*point, color=look.colour, marker=look.marker, markersize=5.0, **_HOLDS if row.holds else _LATE)


def _draw_exact(ax: Axes, rows: Sequence[Row], instance: Instance) -> None:
    """Draw the exact plans under the papers' rule and under ``attainment``, and the latter's certified bounds."""
    look = scheduler_look(EXACT)
    for row in curve(rows, EXACT):
        fill = _HOLDS if row.holds else _LATE
        point = attaining_pct(row, instance), row.gpus_used or 0
        if row.instance == instance.name:
            ax.plot(*point, color=look.colour, marker=look.marker, zorder=4, **fill)
            continue
        ax.plot(*point, clip_on=False, zorder=5, **_PLANNED[_drops(row)] | fill)
        if (bound := certified_bound(row)) is not None:
            ax.axhline(gpus_of(bound, instance), **_BOUND[_drops(row)])


def gpus_of(cost: float, instance: Instance) -> float:
    """Return the number of GPUs of the cheapest type that a cost pays for."""
    return cost / min(pool.type.price_per_hour for pool in instance.gpus)


def _words(instance: Instance, rows: Sequence[Row]) -> list[str]:
    """Return the notes on headroom, on the exact plans and on the schedulers that are not drawn."""
    steps = ", ".join(f"{headroom:.1f}" for headroom in HEADROOMS)
    found = [
        f"Along a curve headroom grows: {steps}. A plan holds (green) if no workload serves less than"
        f" {100.0 * instance.attainment:g} % of its requests in time (10 simulations of at least 300 s, Poisson"
        " arrivals). Servers drop late requests, unless stated otherwise."
    ]
    for dropping in (True, False):
        under = [row for row in rows if _drawn(row) and _original(row.instance) != row.instance]
        own = [row for row in under if _drops(row) is dropping]
        found.append(_plan_in_words(f"under attainment on {servers(dropping)}", own, instance))
    unplanned = (row for row in sorted(rows, key=_headroom) if row.gpus_used is None)
    if without := grouped((row.scheduler, f"{_headroom(row):g}") for row in unplanned):
        named = (f"{name} at {', '.join(without[name])}" for name in SCHEDULERS if name in without)
        found.append(f"No plan with headroom: {'; '.join(named)}.")
    return [*found, f"Not drawn: {'; '.join(NOT_COMPARED)}."]


def _plan_in_words(where: str, rows: Sequence[Row], instance: Instance) -> str:
    """Return the sentence on an exact plan and its bound."""
    if not rows:
        return f"There is no plan of {EXACT} {where}."
    plan = f"The plan of {EXACT} {where} takes {rows[-1].gpus_used} GPUs"
    bounds = [bound for row in rows if (bound := certified_bound(row)) is not None]
    if not bounds:
        return f"{plan}, without a certified bound."
    return f"{plan}; at least {ceil(gpus_of(bounds[-1], instance) - 1e-6)} are proven to be needed."


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
    "because late requests delay those behind them.",
    cost="81 runs, each tested in 10 simulations of 300 s: half an hour on one core; two minutes with"
    f" {option('quick')}",
    needs=(
        *(replace(tested("igniter", headroom), schedulers=SCHEDULERS) for headroom in HEADROOMS),
        PAPERS_OPTIMUM,
        OPTIMUM,
        OPTIMUM_NO_DROP,
    ),
    draws=_draw,
)

FIGURES = (HOLD,)
