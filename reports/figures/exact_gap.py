"""Gap of exact methods over time: plans and certified bounds at the scale of 64 GPUs."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from instances.costs import next_cost
from instances.instance import Instance
from reports.figure import Figure, Need
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, stroke, write_note
from reports.palette import QUIET, scheduler_look
from reports.selection import gaps, instances_of, own_rows

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes


NEEDS = (Need("64gpu", ("igniter", "ffd++", "cpsat", "colgen"), quick="igniter-12"),)

_HEIGHT_IN = 4.4
_SHOWN_PCT = (-35.0, 65.0)
"""Range of the drawn distances; larger ones are cut off."""


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw plans and bounds of ``rows`` over time into ``folder``; see ``Figure.draw``."""
    own = own_rows(FIGURE.name, rows, NEEDS)
    useful = [row for row in own if any(curves(row, None))]
    instances = [i for name, i in instances_of(NEEDS).items() if any(row.instance == name for row in useful)]
    notes = gaps(FIGURE.name, own, [row for row in own if row not in useful], NEEDS)
    columns = 2 if len(instances) > 1 else 1
    lines = -(-len(instances) // columns)
    with page(FULL_WIDTH_IN, _HEIGHT_IN * lines / 2 + 0.6 + note_height_in(notes)) as sheet:
        panels = sheet.subplots(lines, columns, sharex=True, squeeze=False).ravel()
        for panel, instance in zip(panels, instances, strict=False):
            _draw_panel(panel, instance, [row for row in useful if row.instance == instance.name])
        for panel in panels[len(instances) :]:
            panel.set_axis_off()
        for panel in panels[max(0, len(instances) - columns) : len(instances)]:
            panel.set_xlabel("Decision time (s)")
        for panel in panels[::columns]:
            panel.set_ylabel("Worse than the best bound (%)")
        sheet.legend(handles=_legend(useful), loc="outside upper center", ncols=4)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def best_bound(rows: Sequence[Row], minimised: bool) -> float | None:
    """Return the best certified bound among ``rows`` (for cost, that of whole GPUs), or the best value without one."""
    bounds = [whole(row, row.bound) for row in rows if row.bound is not None and row.bound_certified]
    values = [row.value for row in rows if row.value is not None and row.feasible]
    known = bounds or values
    if not known:
        return None
    return max(known) if minimised == bool(bounds) else min(known)


def whole(row: Row, bound: float) -> float:
    """Return a bound on cost, raised to the next cost of whole GPUs; return any other bound unchanged."""
    return next_cost(bound, instances_of(NEEDS)[row.instance]) if row.objective == "cost" else bound


def curves(row: Row, reference: float | None) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]:
    """Return the feasible plans and the certified bounds of a run as (seconds, percent worse than ``reference``)."""
    minimised = row.objective == "cost"

    def worse_pct(value: float) -> float:
        if reference is None:
            return 0.0
        return 100.0 * (value / reference - 1.0 if minimised else 1.0 - value / reference)

    points = list(row.trajectory)
    if not any(point["value"] is not None for point in points) and row.value is not None and row.feasible:
        points.append({"t_s": row.decision_s, "value": row.value, "feasible": True, "bound": None})
    plans = [(p["t_s"], worse_pct(p["value"])) for p in points if p["value"] is not None and p["feasible"]]
    bounds = [
        (p["t_s"], worse_pct(whole(row, p["bound"])))
        for p in points
        if p["bound"] is not None and p.get("bound_certified")
    ]
    return _running(plans, min), _running(bounds, max)


def _running(points: list[tuple[float, float]], better: Callable[[float, float], float]) -> list[tuple[float, float]]:
    """Return the best value so far at each time."""
    kept: list[tuple[float, float]] = []
    for t_s, value in sorted(points):
        kept.append((max(t_s, 1e-3), better(value, kept[-1][1]) if kept else value))
    return kept


def _draw_panel(ax: "Axes", instance: Instance, rows: Sequence[Row]) -> None:
    from matplotlib.ticker import FuncFormatter

    reference = best_bound(rows, instance.objective.minimised)
    end_s = max((row.time_limit_s for row in rows), default=10.0)
    least, most = _SHOWN_PCT
    ax.axhline(0.0, color=QUIET, linewidth=0.6)
    for row in rows:
        look = scheduler_look(row.scheduler)
        plans, bounds = curves(row, reference)
        for points, line in ((plans, "-"), (bounds, ":")):
            if points:
                times = [t for t, _ in points] + [end_s]
                values = [v for _, v in points] + [points[-1][1]]
                shown = ax.step(times, values, where="post", color=look.colour, linestyle=line)
                shown[0].set(marker=look.marker, markevery=[0])
    ax.set(xscale="log", xlim=(1e-3, end_s), ylim=(least, most))
    ax.set_title(f"{instance.name}: {len(instance.workloads)} workloads, {instance.objective}", fontsize="medium")
    ax.grid()
    ax.xaxis.set_major_formatter(FuncFormatter(lambda seconds, _: f"{seconds:g}"))


def _legend(rows: Sequence[Row]) -> "list[Artist]":
    handles = []
    for scheduler in dict.fromkeys(row.scheduler for row in rows):
        look = scheduler_look(scheduler)
        handles.append(stroke(scheduler, color=look.colour, marker=look.marker, linestyle="-"))
    handles.append(stroke("plans", color=QUIET, linestyle="-"))
    handles.append(stroke("certified bounds", color=QUIET, linestyle=":"))
    return handles


FIGURE = Figure(
    name="exact-gap",
    title="Plans and certified bounds over time at the scale of 64 GPUs",
    paper="ours",
    shows="No paper bounds its plans; this figure is new.",
    look_for="Solid lines (plans) fall to the zero line and dotted lines (bounds) rise to it: zero is the best "
    "certified bound in the ledger. Where the two lines of a method meet, its plan is proven optimal. The distance of "
    "a heuristic to zero is the most that better scheduling could save.",
    cost="16 runs: at most the time limit for each of the 8 exact ones (use --time-limit 300 for the long view)",
    needs=NEEDS,
    draw=draw,
)
