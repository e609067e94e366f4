"""Overview: GPUs of iGniter, local search and the exact method with their bound, under two rules."""

from collections.abc import Sequence
from dataclasses import replace

from bench.command_text import option
from bench.ledger.row import Row
from instances import Instance, SloRule
from reports.charts.page import FULL_WIDTH_IN, Axes, Page, page, stroke, with_legend
from reports.charts.palette import GREEN, OBSERVED, QUIET
from reports.figure import Figure
from reports.papers.hold import EXACT, OPTIMUM, PAPERS_OPTIMUM, tested_need
from reports.quantities import proven_gpus
from reports.selection import figure_rows, instances_of, missing_notes, nothing_to_draw

SCHEDULERS = {"igniter": "iGniter", "local-search": "local search", EXACT: "exact method"}
"""Schedulers of the figure, the first one at the top, and their names in it."""

_HEIGHT_IN, _BAR = 2.5, 0.72
_LATE_TEXT = "{late} of {workloads} workloads late"
_TITLES = {
    False: "Planned by the rule of the papers, served under random arrivals",
    True: "Planned for random arrivals (rule attainment), served under them",
}
"""Titles by whether the rule is ``attainment``."""


def _draw(figure: Figure, rows: Sequence[Row]) -> Page:
    rows = [row for row in figure_rows(figure, rows) if row.scheduler in SCHEDULERS]
    if not rows:
        raise nothing_to_draw(figure)
    instances = _instances(figure, rows)
    used_rows = [row for row in rows if row.instance in {instance.name for instance in instances}]
    with_plans = [row for row in used_rows if row.gpus_used is not None]
    notes = missing_notes(figure, used_rows, [row for row in used_rows if row.gpus_used is None])
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, [*_notes(instances), *notes])
    panels = sheet.subplots(len(instances), 1, sharex=True, squeeze=False)[:, 0]
    for ax, instance in zip(panels, instances, strict=True):
        _draw_rule(ax, instance, [row for row in with_plans if row.instance == instance.name])
    panels[-1].set_xlabel(f"GPUs for {len(instances[0].workloads)} workloads (fewer are better)")
    panels[-1].set_xlim(0.0, 1.45 * max(row.gpus_used or 0 for row in with_plans))
    legend = [
        stroke("plan that holds", color=GREEN, linewidth=6.0),
        stroke("plan with late workloads", color=OBSERVED, linewidth=6.0),
        stroke("no plan that keeps each workload on one GPU takes fewer", color="black", linewidth=1.4),
    ]
    return with_legend(sheet, legend)


def _instances(figure: Figure, rows: Sequence[Row]) -> list[Instance]:
    """Return the first instance with runs, and the instance with the same workloads and the other rule, if it has runs.

    The instance under the papers' rule comes first.
    """
    with_runs = {row.instance for row in rows}
    instances = [instance for name, instance in instances_of(figure.needs).items() if name in with_runs]
    same = [instance for instance in instances if instance.workloads == instances[0].workloads]
    return sorted(same, key=_attains)


def _attains(instance: Instance) -> bool:
    return instance.slo_rule is SloRule.ATTAINMENT


def _draw_rule(ax: Axes, instance: Instance, rows: Sequence[Row]) -> None:
    """Draw a bar for each plan, with its GPUs and late workloads in words, and a line for the bound."""
    positions = {scheduler: -place for place, scheduler in enumerate(SCHEDULERS)}
    for row in rows:
        gpus, late = row.gpus_used or 0, row.late_workloads
        ax.barh(positions[row.scheduler], gpus, _BAR, color=GREEN if row.holds else OBSERVED)
        late_text = _LATE_TEXT.format(late=late or "none", workloads=len(instance.workloads))
        text = f"{gpus} GPUs" if late is None else f"{gpus} GPUs, {late_text}"
        ax.annotate(
            text, (gpus, positions[row.scheduler]), (5, 0), textcoords="offset points", va="center", color=QUIET
        )
    proven = max((fewest for row in rows if (fewest := proven_gpus(row)) is not None), default=None)
    if proven is not None:
        ax.plot([proven, proven], [-len(SCHEDULERS) + 0.45, 0.55], color="black", linewidth=1.4)
    ax.set_yticks(list(positions.values()), list(SCHEDULERS.values()))
    ax.set_title(_TITLES[_attains(instance)], loc="left")
    ax.tick_params(axis="y", length=0)


def _notes(instances: Sequence[Instance]) -> list[str]:
    attainment_pct = 100.0 * instances[0].attainment
    names = " and ".join(instance.name for instance in instances)
    return [
        f"Instances {names}. A workload is late if it serves less than {attainment_pct:g} % of its requests in time"
        " in 10 simulations of at least 300 s with Poisson arrivals, on servers that drop late requests."
    ]


_NEEDS = tuple(tested_need(scheduler, 1.0) for scheduler in SCHEDULERS if scheduler != EXACT)

OVERVIEW = Figure(
    name="overview",
    title="GPUs of two heuristics and of the exact method, and the bound that no plan beats",
    paper="ours",
    shows="No paper compares its plans with an optimum, or tests whether they hold under random arrivals.",
    look_for="Above, the distance of iGniter's bar from the black line is what a better search saves; but the bars are"
    " grey, as nearly every workload is late. Below, the bars are green: what it takes to hold.",
    cost=f"six runs, each tested in 10 simulations of 300 s: ten minutes on one core; a minute with {option('quick')}",
    needs=(
        *_NEEDS,
        PAPERS_OPTIMUM,
        *(replace(need, instances="64gpu-cost-hold", quick="igniter-12-hold") for need in _NEEDS),
        OPTIMUM,
    ),
    draws=_draw,
)

FIGURES = (OVERVIEW,)
