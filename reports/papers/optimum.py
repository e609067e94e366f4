"""Figures of exact methods: plans and bounds over time, proofs by instance size, and errors of linearisation."""

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
from reports.quantities import certified_bound, workload_count
from reports.runs import the_instance
from reports.selection import figure_rows, instances_of, missing_notes, rows_by_label

_LARGE = Need("64gpu", ("igniter", "ffd++", "cpsat", "colgen"), quick="igniter-12")

_LINEAR_PCT = 1.0
"""Distance up to which the axis is linear. The axis is logarithmic beyond, so that it can show large distances."""

_SCALING_QUICK = "exact-5-s0,exact-10-s0,exact-20-s0"
WORK_LIMITS = {"cpsat": 2, "colgen": 2_000_000}
"""Work limits by scheduler, each about ten seconds of one core."""

_LONG_LIMIT_S = 300.0
SCALING = tuple(
    Need("exact-scaling", (scheduler,), quick=_SCALING_QUICK, time_limit_s=_LONG_LIMIT_S, work_limit=work)
    for scheduler, work in WORK_LIMITS.items()
)

PIECES = (1, 2, 3, 4, 6, 8)
"""Numbers of pieces along each axis of the piecewise-linear model."""

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
"""Needs by number of pieces, and by whether the bound is certified.

For a certified bound, the model shifts its linear pieces to the safe side.
"""

_PWL_NEEDS = tuple(PWL.values())
RELATIONS = {"k_act": "active time", "ability": "ability"}
"""Linearised relations: names in the statistics of a run, and labels."""
_GAP_HEIGHT_IN, _SCALING_HEIGHT_IN, _PWL_HEIGHT_IN = 4.0, 3.2, 3.6


def _draw_gaps(figure: Figure, rows: Sequence[Row]) -> Page:
    used_rows = figure_rows(figure, rows)
    useful = [row for row in used_rows if any(curves(row, None))]
    drawn_names = {row.instance for row in useful}
    instances = [instance for name, instance in instances_of(figure.needs).items() if name in drawn_names]
    notes = missing_notes(figure, used_rows, [row for row in used_rows if row not in useful])
    columns = 2 if len(instances) > 1 else 1
    panel_rows = -(-len(instances) // columns)  # rounded up
    sheet = page(FULL_WIDTH_IN, _GAP_HEIGHT_IN * panel_rows / 2 + 0.6, notes)
    panels = sheet.subplots(panel_rows, columns, sharex=True, squeeze=False).ravel()
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
    """Return the best certified bound among ``rows``; without a bound, the best value.

    A bound on cost is raised to the cost of whole GPUs.
    """
    bounds = [in_whole_gpus(row, bound) for row in rows if (bound := certified_bound(row)) is not None]
    values = [row.value for row in rows if row.value is not None and row.feasible]
    bounds_or_values = bounds or values
    if not bounds_or_values:
        return None
    # The best bound on a cost is the largest, the best cost the smallest. For a maximised objective, the best bound is
    # the smallest, the best value the largest.
    return max(bounds_or_values) if minimised == bool(bounds) else min(bounds_or_values)


def in_whole_gpus(row: Row, bound: float) -> float:
    """Return a bound on cost, raised to the next cost of whole GPUs; any other bound is returned unchanged."""
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
    plans = [
        (point["t_s"], worse_pct(point["value"]))
        for point in points
        if point["value"] is not None and point["feasible"]
    ]
    bounds = [
        (point["t_s"], worse_pct(in_whole_gpus(row, point["bound"])))
        for point in points
        if point["bound"] is not None and point.get("bound_certified")
    ]
    return _best_so_far(plans, min), _best_so_far(bounds, max)


def _best_so_far(
    points: list[tuple[float, float]], better: Callable[[float, float], float]
) -> list[tuple[float, float]]:
    """Return the best value so far at each time; times are at least 1 ms."""
    steps: list[tuple[float, float]] = []
    for t_s, value in sorted(points):
        steps.append((max(t_s, 1e-3), better(value, steps[-1][1]) if steps else value))
    return steps


def _draw_gap_panel(ax: Axes, instance: Instance, rows: Sequence[Row]) -> None:
    """Draw an exact method as a band between its plans and bounds, and another method as a mark at its last plan."""
    reference = best_bound(rows, instance.objective.minimised)
    end_s = max((row.time_limit_s for row in rows), default=10.0)
    ax.axhline(0.0, color=QUIET, linewidth=0.6)
    drawn_values = [0.0]
    for row in rows:
        look = scheduler_look(row.scheduler)
        plans, bounds = curves(row, reference)
        drawn_values += [value for _, value in (*plans, *bounds)]
        if not bounds:
            ax.plot(*plans[-1], look.marker, color=look.colour, markersize=4.5, clip_on=False, zorder=4)
            continue
        for points, line_style in ((plans, "-"), (bounds, ":")):
            if points:
                times_s, values = _extended(points, end_s)
                step_lines = ax.step(times_s, values, where="post", color=look.colour, linestyle=line_style)
                step_lines[0].set(marker=look.marker, markevery=[0], clip_on=False)
        if plans:
            times_s = sorted({t_s for points in (plans, bounds) for t_s, _ in points if t_s >= plans[0][0]} | {end_s})
            lower, upper = ([_step_value(points, t_s) for t_s in times_s] for points in (bounds, plans))
            ax.fill_between(times_s, lower, upper, step="post", color=look.colour, alpha=0.12, linewidth=0.0)
    times_s = [t_s for row in rows for points in curves(row, None) for t_s, _ in points]
    ax.set(xscale="log", xlim=(min([1e-3, *times_s]), 1.1 * max([end_s, *times_s])))
    ax.set_yscale("symlog", linthresh=_LINEAR_PCT, linscale=1.0)
    ax.set_ylim(min(-_LINEAR_PCT, 1.6 * min(drawn_values)), max(_LINEAR_PCT, 1.6 * max(drawn_values)))
    ticks = [sign * step for step in (1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0) for sign in (-1.0, 1.0)]
    low, high = ax.get_ylim()
    ax.set_yticks([0.0, *(tick for tick in ticks if low <= tick <= high)])
    ax.yaxis.set_major_formatter("{x:g}")
    ax.tick_params(axis="y", which="minor", length=0)
    ax.set_title(f"{instance.name}: {len(instance.workloads)} workloads, {instance.objective}", fontsize="medium")
    ax.grid()
    ax.xaxis.set_major_formatter("{x:g}")


def _extended(points: list[tuple[float, float]], end_s: float) -> tuple[list[float], list[float]]:
    times_s, values = [t_s for t_s, _ in points], [value for _, value in points]
    return [*times_s, max(end_s, times_s[-1])], [*values, values[-1]]


def _step_value(points: list[tuple[float, float]], t_s: float) -> float:
    """Return the value of a step curve at a time; before the first step, the first value."""
    return next((value for step_s, value in reversed(points) if step_s <= t_s), points[0][1])


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
    used_rows = figure_rows(figure, rows)
    notes = missing_notes(figure, used_rows, [row for row in used_rows if row.value is None])
    sheet = page(COLUMN_IN, _SCALING_HEIGHT_IN, notes)
    solved_axes, gap_axes = sheet.subplots(2, 1, sharex=True)
    handles = []
    for scheduler in dict.fromkeys(row.scheduler for row in used_rows):
        look = scheduler_look(scheduler)
        scheduler_rows = [row for row in used_rows if row.scheduler == scheduler]
        for axes, statistic in ((solved_axes, solved_pct), (gap_axes, median_gap_pct)):
            points = statistic(scheduler_rows)
            axes.plot(list(points), list(points.values()), **look.marked)
        gaps_by_size = gaps_pct(scheduler_rows)
        smallest, largest = (
            [min(values) for values in gaps_by_size.values()],
            [max(values) for values in gaps_by_size.values()],
        )
        gap_axes.fill_between(list(gaps_by_size), smallest, largest, color=look.colour, alpha=0.15, linewidth=0.0)
        handles.append(stroke(scheduler, **look.marked))
    solved_axes.set(ylabel="Proven optimal (%)", ylim=(-5, 105))
    gap_axes.set(ylabel="Median gap (%)", xlabel="Number of workloads", xscale="log")
    gap_axes.set_ylim(bottom=-0.5)
    ticks = sorted({workload_count(row) for row in used_rows})
    gap_axes.set_xticks(ticks, [str(tick) for tick in ticks])
    gap_axes.minorticks_off()
    for axes in (solved_axes, gap_axes):
        axes.grid()
    return with_legend(sheet, handles, 3)


def solved_pct(rows: Sequence[Row]) -> dict[int, float]:
    """Return the percentage of runs that ended with a proven optimum, by number of workloads."""
    optimal_by_size = grouped((workload_count(row), row.status == "optimal") for row in rows)
    return {size: 100.0 * sum(optimal) / len(optimal) for size, optimal in sorted(optimal_by_size.items())}


def median_gap_pct(rows: Sequence[Row]) -> dict[int, float]:
    """Return the median of ``gaps_pct``, by number of workloads."""
    return {size: median(values) for size, values in gaps_pct(rows).items()}


def gaps_pct(rows: Sequence[Row]) -> dict[int, list[float]]:
    """Return the gaps between plan and certified bound of the same run in percent, by number of workloads.

    Bounds on cost are raised to the cost of whole GPUs.
    """
    values_and_bounds = [
        (row, row.value, in_whole_gpus(row, bound))
        for row in rows
        if row.value is not None and row.feasible and (bound := certified_bound(row)) is not None
    ]
    gaps_by_size = grouped(
        (workload_count(row), 100.0 * (value - bound) / value) for row, value, bound in values_and_bounds
    )
    return dict(sorted(gaps_by_size.items()))


def _draw_pieces(figure: Figure, rows: Sequence[Row]) -> Page:
    rows_of_pieces = rows_by_pieces(rows)
    all_rows = [row for piece_rows in rows_of_pieces.values() for row in piece_rows]
    fruitless = [row for row in all_rows if gap_to_own_bound_pct(row) is None or not _states_error(row)]
    notes = missing_notes(figure, all_rows, fruitless)
    sheet = page(COLUMN_IN, _PWL_HEIGHT_IN, notes)
    error_axes, gap_axes = sheet.subplots(2, 1, sharex=True)
    handles = []
    for look, (name, label) in zip(SERIES, RELATIONS.items(), strict=False):
        for statistic, line_style in (("max", "-"), ("mean", ":")):
            points = errors_pct(rows_of_pieces, f"pwl_error_{statistic}_{name}")
            style = {**look.marked, "linestyle": line_style}
            error_axes.plot(list(points), list(points.values()), **style)
            handles.append(stroke(f"{label}, {'largest' if statistic == 'max' else 'mean'}", **style))
    for look, certified in zip(SERIES[2:], (False, True), strict=False):
        points = gaps_by_pieces_pct(rows_of_pieces, certified)
        gap_axes.plot(list(points), list(points.values()), **look.marked)
        handles.append(stroke("to the certified bound" if certified else "to the model's bound", **look.marked))
    _label_pieces(error_axes, gap_axes)
    return with_legend(sheet, handles, 2)


def rows_by_pieces(rows: Sequence[Row]) -> dict[tuple[int, bool], list[Row]]:
    """Return the latest run on each instance, by number of pieces and by whether the bound is certified."""
    latest = rows_by_label(rows, PWL)
    return {key: [latest[key, name] for name in instances_of(_PWL_NEEDS) if (key, name) in latest] for key in PWL}


def _states_error(row: Row) -> bool:
    return any(name.startswith("pwl_error_") for name in row.statistics or {})


def errors_pct(rows: Mapping[tuple[int, bool], Sequence[Row]], name: str) -> dict[int, float]:
    """Return the mean of the error ``name`` in percent, by number of pieces.

    The mean is over the runs without a certified bound that state the error.
    """
    means = {}
    for (pieces, certified), runs in rows.items():
        values = [row.statistics[name] for row in runs if not certified and name in (row.statistics or {})]
        if values:
            means[pieces] = 100.0 * fmean(values)
    return means


def gaps_by_pieces_pct(rows: Mapping[tuple[int, bool], Sequence[Row]], certified: bool) -> dict[int, float]:
    """Return the mean gap in percent by number of pieces, over the runs with or without a certified bound."""
    means = {}
    for (pieces, is_certified), runs in rows.items():
        values = [gap for row in runs if is_certified == certified and (gap := gap_to_own_bound_pct(row)) is not None]
        if values:
            means[pieces] = fmean(values)
    return means


def gap_to_own_bound_pct(row: Row) -> float | None:
    """Return the gap between the plan and the bound of a run, in percent; ``None`` without a plan or a bound."""
    if not row.feasible or row.value is None or row.bound is None:
        return None
    return 100.0 * relative_gap(row.value, in_whole_gpus(row, row.bound))


def _label_pieces(error_axes: Axes, gap_axes: Axes) -> None:
    error_axes.set(ylabel="Relative error (%)", yscale="log")
    error_axes.yaxis.set_major_formatter("{x:g}")
    error_axes.yaxis.set_minor_formatter("")
    gap_axes.set(ylabel="Gap (%)", xlabel="Pieces along each axis")
    gap_axes.set_ylim(bottom=-0.5)
    gap_axes.set_xticks(PIECES, [str(pieces) for pieces in PIECES])
    for axes in (error_axes, gap_axes):
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
