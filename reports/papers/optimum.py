"""Exact methods: plans and bounds over time, limits of proofs, and the error of the piecewise-linear model."""

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, median

from bench.command_text import option
from bench.ledger.gap import relative_gap
from bench.ledger.row import Row
from instances.costs import next_cost
from instances.grouping import grouped
from instances.instance import Instance
from reports.charts.page import COLUMN_IN, FULL_WIDTH_IN, Artist, Axes, Page, page, stroke, with_legend
from reports.charts.palette import QUIET, SERIES, scheduler_look
from reports.figure import Figure
from reports.need import Need
from reports.quantities import certified_bound, size_of
from reports.runs import the_instance
from reports.selection import figure_rows, instances_of, missing_notes, rows_by_label

_LARGE = Need("64gpu", ("igniter", "ffd++", "cpsat", "colgen"), quick="igniter-12")

_LINEAR_PCT = 1.0
"""Distance up to which the axis is linear; beyond, it is logarithmic, so that no line is cut off."""

_SCALING_QUICK = "exact-5-s0,exact-10-s0,exact-20-s0"
WORK = {"cpsat": 2, "colgen": 2_000_000}
"""Work limits: about ten seconds of one core."""

_GENEROUS_S = 300.0
SCALING = tuple(
    Need("exact-scaling", (scheduler,), quick=_SCALING_QUICK, time_limit_s=_GENEROUS_S, work_limit=work)
    for scheduler, work in WORK.items()
)

PIECES = (1, 2, 3, 4, 6, 8)
PWL: Mapping[tuple[int, bool], Need] = {
    (pieces, certified): Need(
        "smoke-goodput,exact-5-s2,exact-10-s2,igniter-12",
        ("pwl",),
        quick="smoke-goodput,exact-5-s2",
        parameters=(f"pwl.pieces={pieces}", f"pwl.certified={'true' if certified else 'false'}"),
        time_limit_s=30.0,
    )
    for certified in (False, True)
    for pieces in PIECES
}
"""Needs by number of pieces and by whether the triangles are shifted for a valid bound."""

_PWL_NEEDS = tuple(PWL.values())
RELATIONS = {"k_act": "active time", "ability": "ability"}
_GAP_HEIGHT_IN, _SCALING_HEIGHT_IN, _PWL_HEIGHT_IN = 4.0, 3.2, 3.6


def _draw_gaps(figure: Figure, rows: Sequence[Row]) -> Page:
    own = figure_rows(figure, rows)
    useful = [row for row in own if any(curves(row, None))]
    instances = [i for name, i in instances_of(figure.needs).items() if any(row.instance == name for row in useful)]
    notes = missing_notes(figure, own, [row for row in own if row not in useful])
    columns = 2 if len(instances) > 1 else 1
    lines = -(-len(instances) // columns)
    sheet = page(FULL_WIDTH_IN, _GAP_HEIGHT_IN * lines / 2 + 0.6, notes)
    panels = sheet.subplots(lines, columns, sharex=True, squeeze=False).ravel()
    for panel, instance in zip(panels, instances, strict=False):
        _draw_gap_panel(panel, instance, [row for row in useful if row.instance == instance.name])
    for panel in panels[len(instances) :]:
        panel.set_axis_off()
    for panel in panels[max(0, len(instances) - columns) : len(instances)]:
        panel.set_xlabel("Decision time (s)")
    for panel in panels[::columns]:
        panel.set_ylabel("Worse than the best bound (%)")
    return with_legend(sheet, _gap_legend(useful), 6)


def best_bound(rows: Sequence[Row], minimised: bool) -> float | None:
    """Return the best certified bound among ``rows`` (for cost, that of whole GPUs), or the best value without one."""
    bounds = [whole(row, bound) for row in rows if (bound := certified_bound(row)) is not None]
    values = [row.value for row in rows if row.value is not None and row.feasible]
    known = bounds or values
    if not known:
        return None
    return max(known) if minimised == bool(bounds) else min(known)


def whole(row: Row, bound: float) -> float:
    """Return a bound on cost, raised to the next cost of whole GPUs; return any other bound unchanged."""
    return next_cost(bound, the_instance(row.instance)) if row.objective == "cost" else bound


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


def _draw_gap_panel(ax: Axes, instance: Instance, rows: Sequence[Row]) -> None:
    """Draw exact methods as bands between plan and bound, and other methods as a mark at their last plan."""
    reference = best_bound(rows, instance.objective.minimised)
    end_s = max((row.time_limit_s for row in rows), default=10.0)
    ax.axhline(0.0, color=QUIET, linewidth=0.6)
    extent = [0.0]
    for row in rows:
        look = scheduler_look(row.scheduler)
        plans, bounds = curves(row, reference)
        extent += [value for _, value in (*plans, *bounds)]
        if not bounds:
            ax.plot(*plans[-1], look.marker, color=look.colour, markersize=4.5, clip_on=False, zorder=4)
            continue
        for points, line in ((plans, "-"), (bounds, ":")):
            if points:
                times, values = _until(points, end_s)
                shown = ax.step(times, values, where="post", color=look.colour, linestyle=line)
                shown[0].set(marker=look.marker, markevery=[0], clip_on=False)
        if plans:
            times = sorted({t for points in (plans, bounds) for t, _ in points if t >= plans[0][0]} | {end_s})
            lower, upper = ([_at(points, t) for t in times] for points in (bounds, plans))
            ax.fill_between(times, lower, upper, step="post", color=look.colour, alpha=0.12, linewidth=0.0)
    times = [t for row in rows for points in curves(row, None) for t, _ in points]
    ax.set(xscale="log", xlim=(min([1e-3, *times]), 1.1 * max([end_s, *times])))
    ax.set_yscale("symlog", linthresh=_LINEAR_PCT, linscale=1.0)
    ax.set_ylim(min(-_LINEAR_PCT, 1.6 * min(extent)), max(_LINEAR_PCT, 1.6 * max(extent)))
    ticks = [sign * step for step in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0) for sign in (-1.0, 1.0)]
    low, high = ax.get_ylim()
    ax.set_yticks([0.0, *(tick for tick in ticks if low <= tick <= high)])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.tick_params(axis="y", which="minor", length=0)
    ax.set_title(f"{instance.name}: {len(instance.workloads)} workloads, {instance.objective}", fontsize="medium")
    ax.grid()
    ax.xaxis.set_major_formatter("{x:g}")


def _until(points: list[tuple[float, float]], end_s: float) -> tuple[list[float], list[float]]:
    return [t for t, _ in points] + [max(end_s, points[-1][0])], [v for _, v in points] + [points[-1][1]]


def _at(points: list[tuple[float, float]], t_s: float) -> float:
    """Return the value of a step curve at a time, or its first value before it begins."""
    return next((value for t, value in reversed(points) if t <= t_s), points[0][1])


def _gap_legend(rows: Sequence[Row]) -> list[Artist]:
    handles = []
    for scheduler in dict.fromkeys(row.scheduler for row in rows):
        look = scheduler_look(scheduler)
        proving = any(row.bound_certified for row in rows if row.scheduler == scheduler)
        handles.append(stroke(scheduler, color=look.colour, marker=look.marker, linestyle="-" if proving else ""))
    handles.append(stroke("best plan so far", color=QUIET, linestyle="-"))
    handles.append(stroke("certified bound", color=QUIET, linestyle=":"))
    return handles


def _draw_scaling(figure: Figure, rows: Sequence[Row]) -> Page:
    own = figure_rows(figure, rows)
    notes = missing_notes(figure, own, [row for row in own if row.value is None])
    sheet = page(COLUMN_IN, _SCALING_HEIGHT_IN, notes)
    solved, gap = sheet.subplots(2, 1, sharex=True)
    handles = []
    for scheduler in dict.fromkeys(row.scheduler for row in own):
        look = scheduler_look(scheduler)
        mine = [row for row in own if row.scheduler == scheduler]
        for axes, figure_of in ((solved, solved_pct), (gap, median_gap_pct)):
            points = figure_of(mine)
            axes.plot(list(points), list(points.values()), **look.marked)
        spread = gaps_pct(mine)
        least, most = [min(values) for values in spread.values()], [max(values) for values in spread.values()]
        gap.fill_between(list(spread), least, most, color=look.colour, alpha=0.15, linewidth=0.0)
        handles.append(stroke(scheduler, **look.marked))
    solved.set(ylabel="Proven optimal (%)", ylim=(-5, 105))
    gap.set(ylabel="Median gap (%)", xlabel="Number of workloads", xscale="log")
    gap.set_ylim(bottom=-0.5)
    ticks = sorted({size_of(row) for row in own})
    gap.set_xticks(ticks, [str(tick) for tick in ticks])
    gap.minorticks_off()
    for axes in (solved, gap):
        axes.grid()
    return with_legend(sheet, handles, 3)


def solved_pct(rows: Sequence[Row]) -> dict[int, float]:
    """Return by number of workloads the percentage of runs that ended with a proven optimum."""
    solved = grouped((size_of(row), row.status == "optimal") for row in rows)
    return {size: 100.0 * sum(each) / len(each) for size, each in sorted(solved.items())}


def median_gap_pct(rows: Sequence[Row]) -> dict[int, float]:
    """Return by number of workloads the median gap to the run's own certified bound, in percent: see ``gaps_pct``."""
    return {size: median(values) for size, values in gaps_pct(rows).items()}


def gaps_pct(rows: Sequence[Row]) -> dict[int, list[float]]:
    """Return by number of workloads the gaps to the runs' own certified bounds, whole GPUs counted, in percent."""
    proven = [
        (row, row.value, whole(row, bound))
        for row in rows
        if row.value is not None and row.feasible and (bound := certified_bound(row)) is not None
    ]
    found = grouped((size_of(row), 100.0 * (value - bound) / value) for row, value, bound in proven)
    return dict(sorted(found.items()))


def _draw_pieces(figure: Figure, rows: Sequence[Row]) -> Page:
    own = rows_by_pieces(rows)
    made = [row for found in own.values() for row in found]
    fruitless = [row for row in made if own_gap_pct(row) is None or not _states_error(row)]
    notes = missing_notes(figure, made, fruitless)
    sheet = page(COLUMN_IN, _PWL_HEIGHT_IN, notes)
    error, gap = sheet.subplots(2, 1, sharex=True)
    handles = []
    for look, (name, label) in zip(SERIES, RELATIONS.items(), strict=False):
        for which, line in (("max", "-"), ("mean", ":")):
            points = errors_pct(own, f"pwl_error_{which}_{name}")
            style = {**look.marked, "linestyle": line}
            error.plot(list(points), list(points.values()), **style)
            handles.append(stroke(f"{label}, {'largest' if which == 'max' else 'mean'}", **style))
    for look, certified in zip(SERIES[2:], (False, True), strict=False):
        points = gaps_by_pieces_pct(own, certified)
        gap.plot(list(points), list(points.values()), **look.marked)
        handles.append(stroke("to the certified bound" if certified else "to the model's bound", **look.marked))
    _label_pieces(error, gap)
    return with_legend(sheet, handles, 2)


def rows_by_pieces(rows: Sequence[Row]) -> dict[tuple[int, bool], list[Row]]:
    """Return the latest run on each instance, by pieces and by whether its bound is certified."""
    latest = rows_by_label(rows, PWL)
    return {key: [latest[key, name] for name in instances_of(_PWL_NEEDS) if (key, name) in latest] for key in PWL}


def _states_error(row: Row) -> bool:
    return any(name.startswith("pwl_error_") for name in row.statistics or {})


def errors_pct(rows: Mapping[tuple[int, bool], Sequence[Row]], name: str) -> dict[int, float]:
    """Return by pieces the mean of error ``name`` in percent, over the uncertified runs that stated one."""
    found = {}
    for (pieces, certified), runs in rows.items():
        values = [row.statistics[name] for row in runs if not certified and name in (row.statistics or {})]
        if values:
            found[pieces] = 100.0 * fmean(values)
    return found


def gaps_by_pieces_pct(rows: Mapping[tuple[int, bool], Sequence[Row]], certified: bool) -> dict[int, float]:
    """Return by pieces the mean gap in percent, of the runs with or without a certified bound."""
    found = {}
    for (pieces, moved), runs in rows.items():
        values = [gap for row in runs if moved == certified and (gap := own_gap_pct(row)) is not None]
        if values:
            found[pieces] = fmean(values)
    return found


def own_gap_pct(row: Row) -> float | None:
    """Return the gap between the plan of a run and the run's own bound, in percent."""
    if not row.feasible or row.value is None or row.bound is None:
        return None
    return 100.0 * relative_gap(row.value, whole(row, row.bound))


def _label_pieces(error: Axes, gap: Axes) -> None:
    error.set(ylabel="Relative error (%)", yscale="log")
    error.yaxis.set_major_formatter("{x:g}")
    error.yaxis.set_minor_formatter("")
    gap.set(ylabel="Gap (%)", xlabel="Pieces along each axis")
    gap.set_ylim(bottom=-0.5)
    gap.set_xticks(PIECES, [str(pieces) for pieces in PIECES])
    for axes in (error, gap):
        axes.grid()


EXACT_GAP = Figure(
    name="exact-gap",
    title="Plans and certified bounds over time at the scale of 64 GPUs",
    paper="ours",
    shows="No paper bounds its plans; this figure is new.",
    look_for="The band of an exact method lies between its plan (solid) and its bound (dotted); where the band closes, "
    "the plan is proven optimal in its class. Zero is the best certified bound. The height of a heuristic's mark is "
    "the most that better scheduling could save. The axis is linear up to 1 % and logarithmic beyond.",
    cost="16 runs: at most the time limit for each of the 8 exact ones"
    f" (use {option('time_limit', 300)} for the long view)",
    needs=(_LARGE,),
    draws=_draw_gaps,
)

EXACT_SCALING = Figure(
    name="exact-scaling",
    title="Proven optima and certified gaps against the number of workloads",
    paper="ours",
    shows="No paper solves its problem exactly beyond a handful of workloads; this figure is new.",
    look_for="Compact models stop proving optimality at a few tens of workloads; column generation continues. Where "
    "the upper panel drops, the lower one shows the remaining gap. Bands span the three instances of a size.",
    cost="48 runs of at most some ten seconds each: about 3 minutes on two cores",
    needs=SCALING,
    draws=_draw_scaling,
)

PWL_ERROR = Figure(
    name="pwl-error",
    title="Error and gap of the piecewise-linear model over the number of pieces",
    paper="ours",
    shows="No paper states the error of its linearised model; this figure is new.",
    look_for="Errors fall about with the square of the number of pieces. At the default of three the largest errors "
    "are tens of percent, the mean errors a few. Gaps do not shrink with them: a finer model takes longer, and its "
    "bound at the time limit is worse. Where the model's bound gives a smaller gap than the certified one, the "
    "model's bound is optimistic.",
    cost="48 runs of at most 30 seconds each",
    needs=_PWL_NEEDS,
    draws=_draw_pieces,
)

FIGURES = (EXACT_GAP, EXACT_SCALING, PWL_ERROR)
