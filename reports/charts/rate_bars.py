"""Bars of largest rates (relative to a scheduler, served in time, and planned), and of late requests at these rates.

The drawing functions take ``needs`` by label. A need names instances with the objective ``scale``, and one scheduler
with its parameters. The functions also take ``names``: the label of each instance on the axis, in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from bench.ledger.row import Row
from bench.max_rate import Climb, late_fraction, retraced, with_all_served
from bench.simulation.allowance import VIOLATIONS_ALLOWED
from reports.charts.groups import name_groups, side_by_side
from reports.charts.page import COLUMN_IN, FULL_WIDTH_IN, Axes, Page, page, stroke, swatch, with_legend
from reports.charts.palette import ALARM, ALARM_EDGE, QUIET, STAR, pale, scheduler_look
from reports.figure import Figure
from reports.need import Need, NothingToDrawError, rows_matching
from reports.quantities import requests_rps
from reports.selection import figure_rows, instances_of, missing_notes, rows_by_label

MEAN = "mean"
"""Key of the mean over the instances."""

_HEIGHT_IN, _SCALE_HEIGHT_IN, _LATE_HEIGHT_IN = 2.3, 2.2, 2.2
_LETTERS_SIDE_BY_SIDE = 50
"""Number of letters of the labels that fit side by side; longer labels are rotated."""

_MIN_PCT, _MAX_PCT = 0.01, 100.0
"""Limits of the axis of requests not in time."""


def relative_scales(rows: Mapping[str, Sequence[Row]], reference: str) -> dict[str, dict[str, float]]:
    """Return scales relative to those of ``reference``, by label and instance, and under ``MEAN`` their mean.

    Parameters
    ----------
    rows
        Rows of each label. Plans with violations do not count.
    reference
        Label of the reference. Instances without a plan of the reference are left out.
    """
    scales = {
        label: {row.instance: row.value for row in label_rows if row.feasible and row.value is not None}
        for label, label_rows in rows.items()
    }
    return _relative(scales, reference)


def _relative(values: Mapping[str, Mapping[str, float]], reference: str) -> dict[str, dict[str, float]]:
    """Return values by label and instance over those of the label ``reference``, and the mean of each label's ratios.

    Instances on which the reference has no value above 0 are left out, and labels without any ratio.
    """
    reference_values = values.get(reference, {})
    relative: dict[str, dict[str, float]] = {}
    for label, label_values in values.items():
        ratios = {
            instance: value / reference_values[instance]
            for instance, value in label_values.items()
            if reference_values.get(instance)
        }
        if ratios:
            relative[label] = ratios | {MEAN: fmean(ratios.values())}
    return relative


def draw_relative_scales(
    figure: Figure,
    rows: Sequence[Row],
    *,
    needs: Mapping[str, Need],
    reference: str,
    names: Mapping[str, str],
    paper: Mapping[str, float],
    words: Mapping[str, str] | None = None,
) -> Page:
    """Draw the scales relative to ``reference``, a group of bars for each instance, and one for the means.

    See ``Figure.draw``.

    Parameters
    ----------
    reference
        Label whose scale is 1.
    paper
        The paper's means, by label; only for labels whose mean the paper states.
    words
        Text of each label in the legend; by default the label itself.
    """
    used_rows = figure_rows(figure, [row for need in needs.values() for row in rows_matching(rows, need)])
    relative = relative_scales({label: rows_matching(used_rows, need) for label, need in needs.items()}, reference)
    if not relative:
        raise NothingToDrawError(figure.name, f"no run has a result to compare with one of {reference}")
    notes = missing_notes(figure, used_rows, [row for row in used_rows if not row.feasible])
    stopped = [
        row for row in used_rows if row.feasible and row.decision_s is not None and row.decision_s > row.time_limit_s
    ]
    if stopped:
        stopped_texts = ", ".join(f"{row.scheduler} on {row.instance}" for row in stopped)
        notes.append(f"Stopped by the time limit: {stopped_texts}.")
    return _page_of_ratios(relative, needs, names, notes, f"Largest scale\n(that of {reference} = 1)", paper, words)


def draw_relative_served(
    figure: Figure,
    rows: Sequence[Row],
    *,
    needs: Mapping[str, Sequence[Need]],
    reference: str,
    names: Mapping[str, str],
    paper: Mapping[str, float],
    words: Mapping[str, str] | None = None,
) -> Page:
    """Draw the largest rates served in time, relative to those of a reference.

    The parameters are those of ``draw_relative_scales``, but a label may have several needs, the best of which counts
    on each instance.
    """
    each_need = {f"{label}, {number}": need for label in needs for number, need in enumerate(needs[label], start=1)}
    climbs = _climbs_of(figure, rows, each_need, names)
    used_rows = [row for climb in climbs.values() for row in climb.rows.values()]
    notes = missing_notes(figure, used_rows, _rows_of_fruitless(climbs)) + _unended_notes(climbs)
    served: dict[str, dict[str, float]] = {label: {} for label in needs}
    for (label_and_number, name), climb in climbs.items():
        rates = served[label_and_number.rpartition(", ")[0]]
        rates[name] = max(rates.get(name, 0.0), climb.largest_passed)
    relative = _relative(served, reference)
    if not relative:
        raise NothingToDrawError(figure.name, f"no climb has a result to compare with one of {reference}")
    first_needs = {label: needs_of_label[0] for label, needs_of_label in needs.items()}
    return _page_of_ratios(relative, first_needs, names, notes, f"Served in time\n({reference} = 1)", paper, words)


def _page_of_ratios(
    ratios: Mapping[str, Mapping[str, float]],
    needs: Mapping[str, Need],
    names: Mapping[str, str],
    notes: Sequence[str],
    quantity: str,
    paper: Mapping[str, float],
    words: Mapping[str, str] | None,
) -> Page:
    """Draw ratios by label and instance; labels and instances without any are left out."""
    instance_names = [name for name in names if any(name in of_label for of_label in ratios.values())] + [MEAN]
    sheet = page(COLUMN_IN, _SCALE_HEIGHT_IN, notes)
    ax = sheet.subplots()
    width, group = side_by_side(needs.items())
    handles = []
    for offset, (label, need) in group:
        colour = scheduler_look(need.schedulers[0]).colour
        label_ratios = ratios.get(label, {})
        positions = [position for position, name in enumerate(instance_names) if name in label_ratios]
        ax.bar(
            [position + offset for position in positions],
            [label_ratios[instance_names[position]] for position in positions],
            width,
            color=colour,
        )
        handles.append(swatch(colour, label if words is None else words[label]))
        if label in paper:
            ax.plot(len(instance_names) - 1 + offset, paper[label], **STAR)
    ax.axvline(len(instance_names) - 1.5, color="black", linewidth=0.5, linestyle=":")
    labels = [{**names, MEAN: MEAN}[name] for name in instance_names]
    rotated = sum(max(map(len, label.splitlines())) for label in labels) >= _LETTERS_SIDE_BY_SIDE
    name_groups(ax, labels, rotation=30 if rotated else 0, fontsize=5.5)
    ax.set_ylabel(quantity)
    if paper:
        handles.append(stroke("the paper's mean", **STAR))
    return with_legend(sheet, handles, 4 if words is None else 2)


def with_climbs(needs: Mapping[str, Need]) -> tuple[Need, ...]:
    """Return the needs of ``draw_max_rates``: for each label, the largest planned rate and the climb."""
    return (*needs.values(), *(replace(need, climb=True) for need in needs.values()))


def draw_max_rates(figure: Figure, rows: Sequence[Row], *, needs: Mapping[str, Need], names: Mapping[str, str]) -> Page:
    """Draw largest rates, a group of bars for each instance; see ``Figure.draw``.

    A bar shows the rate at which a climb ended; a request of an application visits all its stages. A mark shows the
    largest planned rate; it is filled if at most one request in a hundred is not in time in the simulation of that
    plan. The figure has the needs ``with_climbs(needs)``.
    """
    instance_by_name = instances_of(figure.needs)
    planned = rows_by_label(rows, needs)
    climbs = _climbs_of(figure, rows, needs, names)
    instance_names = [name for name in names if any((label, name) in {**planned, **climbs} for label in needs)]
    used_rows = [*planned.values(), *(row for climb in climbs.values() for row in climb.rows.values())]
    fruitless = [row for row in planned.values() if not row.value or late_fraction(row) is None]
    notes = missing_notes(figure, used_rows, fruitless + _rows_of_fruitless(climbs))
    notes += _unended_notes(climbs)
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
    ax = sheet.subplots()
    width, group = side_by_side(needs.items())
    handles = []
    for offset, (label, need) in group:
        colour = scheduler_look(need.schedulers[0]).colour
        hatch = "////" if _ignores_interference(need) else None
        handles.append(swatch(colour, label, hatch=hatch, edgecolor="white"))
        for position, name in enumerate(instance_names):
            if (label, name) in climbs:
                height = climbs[label, name].largest_passed * requests_rps(instance_by_name[name])
                ax.bar(position + offset, height, width, facecolor=colour, hatch=hatch, edgecolor="white")
            row = planned.get((label, name))
            late = None if row is None else late_fraction(row)
            if row is not None and row.value and late is not None:
                planned_rps = row.value * requests_rps(instance_by_name[name])
                in_time = late <= VIOLATIONS_ALLOWED
                ax.plot(
                    position + offset, planned_rps, "D", color="black", markerfacecolor="black" if in_time else "white"
                )
    name_groups(ax, [names[name] for name in instance_names])
    ax.set_ylabel("Requests per second")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    mark_style = {"color": "black", "marker": "D", "linestyle": ""}
    handles.append(stroke("largest planned, served in time", **mark_style))
    handles.append(stroke("not in time", markerfacecolor="white", **mark_style))
    return with_legend(sheet, handles)


def _climbs_of(
    figure: Figure, rows: Sequence[Row], needs: Mapping[str, Need], names: Mapping[str, str]
) -> dict[tuple[str, str], Climb]:
    """Return the climbs that have rows, by label and instance; a climb may lack its last rows."""
    instance_by_name = instances_of(figure.needs)
    return {
        (label, name): climb
        for label, need in needs.items()
        for name in names
        if (climb := retraced(with_all_served(instance_by_name[name]), rows_matching(rows, need))).rows
    }


def _rows_of_fruitless(climbs: Mapping[tuple[str, str], Climb]) -> list[Row]:
    """Return the rows of the climbs without any rate served in time."""
    return [row for climb in climbs.values() if not climb.largest_passed for row in climb.rows.values()]


def _ignores_interference(need: Need) -> bool:
    """Return whether the need turns off the scheduler's interference model, which is on by default."""
    return any(parameter.endswith(".interference=false") for parameter in need.parameters)


def _unended_notes(climbs: Mapping[tuple[str, str], Climb]) -> list[str]:
    unended = [
        f"{label} on {name}" for (label, name), climb in climbs.items() if climb.next is not None or climb.failed_run
    ]
    return [f"Climbs that have not ended: {', '.join(unended)}."] if unended else []


def draw_late_at_largest_rates(
    figure: Figure, rows: Sequence[Row], *, needs: Mapping[str, Need], names: Mapping[str, str]
) -> Page:
    """Draw the requests not in time at the largest planned rate of each instance; see ``Figure.draw``.

    The largest planned rate is over all ``needs``. The letter N marks a scheduler without a plan for that rate.
    """
    row_of = rows_by_label(rows, needs)
    largest: dict[str, float] = {}
    for row in row_of.values():
        largest[row.instance] = max(largest.get(row.instance, 0.0), row.value or 0.0)
    fruitless = [row for row in row_of.values() if not row.value or late_fraction(row) is None]
    notes = missing_notes(figure, list(row_of.values()), fruitless)
    instance_names = [name for name in names if largest.get(name)]
    sheet = page(COLUMN_IN, _LATE_HEIGHT_IN, notes)
    ax = sheet.subplots()
    ax.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6, linestyle=":")
    width, group = side_by_side(needs.items())
    handles = []
    for offset, (label, need) in group:
        colour = scheduler_look(need.schedulers[0]).colour
        # The first label is pale, because the second label has the same scheduler and so the same colour.
        face = pale(colour) if offset == group[0][0] else colour
        for position, name in enumerate(instance_names):
            if (label, name) in row_of:
                _draw_bar(ax, position + offset, width, row_of[label, name], largest[name], face)
        handles.append(swatch(face, label))
    name_groups(ax, [f"{names[name]}\n{largest[name]:.2f}x" for name in instance_names])
    ax.set(yscale="log", ylim=(_MIN_PCT, _MAX_PCT), ylabel="Not in time (%)")
    ax.yaxis.set_major_formatter("{x:g}")
    return with_legend(sheet, handles)


def _draw_bar(ax: Axes, x: float, width: float, row: Row, largest_scale: float, face: str) -> None:
    late = late_fraction(row)
    if (row.value or 0.0) < largest_scale:
        ax.text(x, 1.3 * _MIN_PCT, "N", ha="center", fontsize=6)
    elif late is not None:
        late_pct = 100.0 * late
        violated = late > VIOLATIONS_ALLOWED
        edge, thickness = (ALARM, ALARM_EDGE) if violated else (face, 0.0)
        ax.bar(x, max(_MIN_PCT, late_pct), width, facecolor=face, edgecolor=edge, linewidth=thickness)
