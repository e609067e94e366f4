"""Bars of the largest rates: relative to a scheduler's, served in time, and planned; and the late requests there.

The drawing functions take ``needs`` by label, each of which names the instances, of objective ``scale``, and one
scheduler with its parameters; and ``names``, the label of each instance on the axis, in order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from bench.ledger.row import Row
from bench.max_rate import Climb, late_fraction, retraced, with_all_served
from bench.simulation.result import VIOLATIONS_ALLOWED
from reports.charts.groups import name_groups, side_by_side
from reports.charts.page import COLUMN_IN, FULL_WIDTH_IN, Axes, Page, page, stroke, swatch, with_legend
from reports.charts.palette import ALARM, ALARM_EDGE, QUIET, STAR, pale, scheduler_look
from reports.figure import Figure
from reports.need import Need, NothingToDrawError, made_for
from reports.selection import instances_of, missing_notes, own_rows, rows_by_label

MEAN = "mean"

_HEIGHT_IN, _SCALE_HEIGHT_IN, _LATE_HEIGHT_IN = 2.3, 2.2, 2.2
_UNTURNED = 50
"""Number of letters of labels that fit side by side."""

_LEAST_PCT, _MOST_PCT = 0.01, 100.0


def relative_scales(rows: Mapping[str, Sequence[Row]], reference: str) -> dict[str, dict[str, float]]:
    """Return by label and instance the scale relative to that of ``reference``, and under ``MEAN`` the mean of these.

    Parameters
    ----------
    rows
        Rows of each label. Plans with violations do not count.
    reference
        Label of the reference; instances without a plan of it are left out.
    """
    scales = {
        label: {row.instance: row.value for row in own if row.feasible and row.value is not None}
        for label, own in rows.items()
    }
    base = scales.get(reference, {})
    found: dict[str, dict[str, float]] = {}
    for label, own in scales.items():
        parts = {instance: value / base[instance] for instance, value in own.items() if base.get(instance)}
        if parts:
            found[label] = parts | {MEAN: fmean(parts.values())}
    return found


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
    """Draw a group of bars per instance and one of their means; see ``Figure.draw``.

    Parameters
    ----------
    reference
        Label whose scale is 1.
    paper
        The paper's means by label, if it states them.
    words
        Labels as the legend explains them.
    """
    own = own_rows(figure, [row for need in needs.values() for row in made_for(rows, need)])
    parts = relative_scales({label: made_for(own, need) for label, need in needs.items()}, reference)
    if not parts:
        raise NothingToDrawError(figure.name, f"no run has a result to compare with one of {reference}")
    notes = missing_notes(figure, own, [row for row in own if not row.feasible])
    overran = [row for row in own if row.feasible and row.decision_s is not None and row.decision_s > row.time_limit_s]
    if overran:
        where = ", ".join(f"{row.scheduler} on {row.instance}" for row in overran)
        notes.append(f"Stopped by the time limit: {where}.")
    drawn = {row.instance for row in own}
    places = [name for name in instances_of(figure.needs) if name in names and name in drawn] + [MEAN]
    sheet = page(COLUMN_IN, _SCALE_HEIGHT_IN, notes)
    ax = sheet.subplots()
    width, group = side_by_side(needs.items())
    handles = []
    for offset, (label, need) in group:
        colour = scheduler_look(need.schedulers[0]).colour
        mine = parts.get(label, {})
        at = [place for place, name in enumerate(places) if name in mine]
        ax.bar([place + offset for place in at], [mine[places[place]] for place in at], width, color=colour)
        handles.append(swatch(colour, label if words is None else words[label]))
        if label in paper:
            ax.plot(len(places) - 1 + offset, paper[label], **STAR)
    ax.axvline(len(places) - 1.5, color="black", linewidth=0.5, linestyle=":")
    labels = [{**names, MEAN: MEAN}[name] for name in places]
    turned = sum(max(map(len, label.splitlines())) for label in labels) >= _UNTURNED
    name_groups(ax, labels, rotation=30 if turned else 0, fontsize=5.5)
    ax.set_ylabel(f"Largest scale\n(that of {reference} = 1)")
    if paper:
        handles.append(stroke("the paper's mean", **STAR))
    return with_legend(sheet, handles, 4 if words is None else 2)


def with_climbs(needs: Mapping[str, Need]) -> tuple[Need, ...]:
    """Return the needs of ``draw_max_rates``: per label the largest planned rate, and the climb."""
    return (*needs.values(), *(replace(need, climb=True) for need in needs.values()))


def draw_max_rates(figure: Figure, rows: Sequence[Row], *, needs: Mapping[str, Need], names: Mapping[str, str]) -> Page:
    """Draw a group of bars per instance: the rates at which a climb ended, and a mark at the largest planned rate.

    A mark is filled if the simulation of that plan has at most one request in a hundred not in time. The needs of the
    figure are ``with_climbs(needs)``; see ``Figure.draw``.
    """
    known = instances_of(figure.needs)
    planned = rows_by_label(rows, needs)
    climbs = {
        (label, name): one
        for label, need in needs.items()
        for name in names
        if (one := retraced(with_all_served(known[name]), made_for(rows, need))).rows
    }
    places = [name for name in names if any((label, name) in {**planned, **climbs} for label in needs)]
    own = [*planned.values(), *(row for one in climbs.values() for row in one.rows.values())]
    fruitless = [row for row in planned.values() if not row.value or late_fraction(row) is None]
    fruitless += [row for one in climbs.values() if not one.throughput_rps for row in one.rows.values()]
    notes = missing_notes(figure, own, fruitless)
    notes += _unended(climbs)
    sheet = page(FULL_WIDTH_IN, _HEIGHT_IN, notes)
    ax = sheet.subplots()
    width, group = side_by_side(needs.items())
    handles = []
    for offset, (label, need) in group:
        colour = scheduler_look(need.schedulers[0]).colour
        hatch = "////" if _blind(need) else None
        handles.append(swatch(colour, label, hatch=hatch, edgecolor="white"))
        for place, name in enumerate(places):
            if (label, name) in climbs:
                height = climbs[label, name].throughput_rps
                ax.bar(place + offset, height, width, facecolor=colour, hatch=hatch, edgecolor="white")
            row = planned.get((label, name))
            late = None if row is None else late_fraction(row)
            if row is not None and row.value and late is not None:
                most_rps = row.value * sum(workload.rate_rps for workload in known[name].workloads)
                kept = late <= VIOLATIONS_ALLOWED
                ax.plot(place + offset, most_rps, "D", color="black", markerfacecolor="black" if kept else "white")
    name_groups(ax, [names[name] for name in places])
    ax.set_ylabel("Requests per second, all models")
    ax.yaxis.set_major_formatter("{x:,.0f}")
    mark = {"color": "black", "marker": "D", "linestyle": ""}
    handles.append(stroke("largest planned, served in time", **mark))
    handles.append(stroke("not in time", markerfacecolor="white", **mark))
    return with_legend(sheet, handles)


def _blind(need: Need) -> bool:
    """Return whether the need turns off a scheduler's interference model, which it has by default."""
    return any(parameter.endswith(".interference=false") for parameter in need.parameters)


def _unended(climbs: Mapping[tuple[str, str], Climb]) -> list[str]:
    unended = [f"{label} on {name}" for (label, name), one in climbs.items() if one.next is not None or one.failed_run]
    return [f"Climbs that have not ended: {', '.join(unended)}."] if unended else []


def draw_late_at_largest_rates(
    figure: Figure, rows: Sequence[Row], *, needs: Mapping[str, Need], names: Mapping[str, str]
) -> Page:
    """Draw the requests not in time at each instance's largest rate with a plan by any of ``needs``.

    Schedulers without a plan for that rate are marked N, not schedulable. See ``Figure.draw``.
    """
    found = rows_by_label(rows, needs)
    largest: dict[str, float] = {}
    for row in found.values():
        largest[row.instance] = max(largest.get(row.instance, 0.0), row.value or 0.0)
    fruitless = [row for row in found.values() if not row.value or late_fraction(row) is None]
    notes = missing_notes(figure, list(found.values()), fruitless)
    places = [name for name in names if largest.get(name)]
    sheet = page(COLUMN_IN, _LATE_HEIGHT_IN, notes)
    ax = sheet.subplots()
    ax.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6, linestyle=":")
    width, group = side_by_side(needs.items())
    handles = []
    for offset, (label, need) in group:
        colour = scheduler_look(need.schedulers[0]).colour
        face = pale(colour) if offset == group[0][0] else colour
        for place, name in enumerate(places):
            if (label, name) in found:
                _draw_bar(ax, place + offset, width, found[label, name], largest[name], face)
        handles.append(swatch(face, label))
    name_groups(ax, [f"{names[name]}\n{largest[name]:.2f}x" for name in places])
    ax.set(yscale="log", ylim=(_LEAST_PCT, _MOST_PCT), ylabel="Not in time (%)")
    ax.yaxis.set_major_formatter("{x:g}")
    return with_legend(sheet, handles)


def _draw_bar(ax: Axes, place: float, width: float, row: Row, largest: float, face: str) -> None:
    late = late_fraction(row)
    if (row.value or 0.0) < largest:
        ax.text(place, 1.3 * _LEAST_PCT, "N", ha="center", fontsize=6)
    elif late is not None:
        late_pct = 100.0 * late
        broken = late > VIOLATIONS_ALLOWED
        edge, thickness = (ALARM, ALARM_EDGE) if broken else (face, 0.0)
        ax.bar(place, max(_LEAST_PCT, late_pct), width, facecolor=face, edgecolor=edge, linewidth=thickness)
