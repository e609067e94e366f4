"""GPUs that it takes until plans hold: headroom under the papers' rules, against plans under ``attainment``."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.evaluation import Trial
from bench.ledger.row import Row
from bench.simulation.arrivals import Arrivals
from instances import SloRule
from instances.instance import Instance
from reports.charts.page import FULL_WIDTH_IN, Axes, page, save, stroke
from reports.charts.palette import QUIET, scheduler_look
from reports.figure import Figure
from reports.need import Need
from reports.selection import gaps, instances_of, own_rows

HEADROOMS = (1.0, 1.2, 1.5, 1.8, 2.0)
SCHEDULERS = (
    *("igniter", "gpu-lets+", "ffd++", "gslice+", "elastic-partitioning", "sbp"),
    *("local-search", "colgen"),
)
EXACT = "colgen"

NEEDS = (
    *(
        Need(
            "64gpu-cost,igniter-12",
            SCHEDULERS,
            quick="igniter-12",
            trial=Trial(headroom, arrivals=Arrivals(), check_holds=True),
        )
        for headroom in HEADROOMS
    ),
    Need(
        "64gpu-cost-hold,igniter-12-hold",
        (EXACT,),
        quick="igniter-12-hold",
        trial=Trial(arrivals=Arrivals(), check_holds=True),
    ),
)

_HEIGHT_IN = 3.4


def _draw(figure: Figure, rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the runs in ``rows`` into ``folder``; see ``Figure.draw``."""
    own = own_rows(figure.name, rows, figure.needs)
    notes = gaps(figure.name, own, [row for row in own if not _drawn(row)], figure.needs)
    notes.append(
        "Along a curve headroom grows: 1.0, 1.2, 1.5, 1.8, 2.0. A filled mark is a plan that holds, a hollow one a plan"
        " that does not (10 simulations of 300 s, Poisson arrivals)."
    )
    known = instances_of(figure.needs)
    present = {row.instance for row in own if _drawn(row)}
    shown = [one for name, one in known.items() if name in present and f"{name}-hold" in known]
    with page(FULL_WIDTH_IN, _HEIGHT_IN, [*notes, *_optima_in_words(shown, own)]) as sheet:
        axes = sheet.subplots(1, max(1, len(shown)), squeeze=False)[0]
        for ax, instance in zip(axes, shown, strict=False):
            for scheduler, line in _curves([row for row in own if row.instance == instance.name]).items():
                _draw_curve(ax, scheduler, line, len(instance.workloads))
            _draw_optimum(ax, [row for row in own if row.instance == f"{instance.name}-hold"], instance)
            ax.set_title(f"{instance.name}, rule {instance.slo_rule}")
            ax.set(xlabel="Workloads that keep their attainment (%)", ylabel="GPUs", xlim=(-3.0, 103.0))
            ax.set_ylim(bottom=0.0)
            ax.grid()
        looks = {row.scheduler: scheduler_look(row.scheduler) for row in own if row.instance in known}
        handles = [stroke(scheduler, **look.marked) for scheduler, look in looks.items()]
        handles.append(stroke("optimum under attainment", color=QUIET, marker="*", linestyle=":", markersize=7.0))
        sheet.legend(handles=handles, loc="outside upper center", ncols=5)
        return save(sheet, figure.name, folder)


def _drawn(row: Row) -> bool:
    """Return whether a run has a plan that was tested."""
    return row.gpus_used is not None and row.late_workloads is not None


def _curves(rows: Sequence[Row]) -> Mapping[str, list[Row]]:
    """Return the tested plans by scheduler, in the order of headroom."""
    found: dict[str, list[Row]] = {}
    for row in sorted(filter(_drawn, rows), key=lambda row: row.headroom or 1.0):
        found.setdefault(row.scheduler, []).append(row)
    return found


def kept_pct(row: Row, workloads: int) -> float:
    """Return the percentage of workloads that keep their attainment in the test."""
    return 100.0 * (1.0 - (row.late_workloads or 0) / workloads)


def _draw_curve(ax: Axes, scheduler: str, rows: Sequence[Row], workloads: int) -> None:
    look = scheduler_look(scheduler)
    kept = [kept_pct(row, workloads) for row in rows]
    ax.plot(kept, [row.gpus_used or 0 for row in rows], markersize=4.0, clip_on=False, **look.marked)
    for at, row in zip(kept, rows, strict=True):
        if not row.holds:
            ax.plot(at, row.gpus_used or 0, markersize=4.0, clip_on=False, **look.hollow)


def _draw_optimum(ax: Axes, rows: Sequence[Row], instance: Instance) -> None:
    """Draw the best plan under ``attainment`` and the GPUs that its certified bound implies."""
    for row in [row for row in rows if row.scheduler == EXACT and row.slo_rule == SloRule.ATTAINMENT]:
        if row.bound is not None and row.bound_certified:
            ax.axhline(_gpus(row.bound, instance), color=QUIET, linestyle=":")
        if _drawn(row):
            at = kept_pct(row, len(instance.workloads))
            fill = QUIET if row.holds else "white"
            ax.plot(
                at, row.gpus_used or 0, "*", color=QUIET, markerfacecolor=fill, markersize=8.0, clip_on=False, zorder=5
            )


def _gpus(cost: float, instance: Instance) -> float:
    """Return the number of GPUs of the cheapest type that a cost pays for."""
    return cost / min(pool.type.price_per_hour for pool in instance.gpus)


def _optima_in_words(instances: Sequence[Instance], rows: Sequence[Row]) -> list[str]:
    found = []
    for instance in instances:
        own = [row for row in rows if row.instance == f"{instance.name}-hold" and row.scheduler == EXACT]
        bounds = [row.bound for row in own if row.bound is not None and row.bound_certified]
        plans = [row for row in own if _drawn(row)]
        if not plans or not bounds:
            lacks = "plan" if not plans else "certified bound"
            found.append(f"{instance.name}: there is no {lacks} of {EXACT} under attainment.")
        else:
            proven = f"at least {_gpus(max(bounds), instance):.1f} GPUs are proven to be needed (dotted)"
            found.append(f"{instance.name}: {EXACT} under attainment takes {plans[-1].gpus_used} GPUs; {proven}.")
    return found


HOLD = Figure(
    name="hold",
    title="GPUs over the fraction of workloads that keep their SLO attainment",
    paper="ours",
    shows="The papers plan for regular arrivals and do not test whether their plans hold under random ones; this figure"
    " is new.",
    look_for="Every curve begins at the left with the plans of the papers: few GPUs, and hardly a workload that serves "
    "99 % of its requests in time. Headroom moves a plan to the right and up, because it pays for every workload what "
    "only some need. The star is the plan of the exact method under the rule attainment, the dotted line its bound.",
    cost="82 runs, each tested in 10 simulations of 300 s: about an hour on two cores; 41 in some minutes with --quick",
    needs=NEEDS,
    draws=_draw,
)

FIGURES = (HOLD,)
