"""Largest rates of each scheduler: served in time, and planned."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bench.ledger.row import Row
from bench.max_rate import Climb, late_fraction, retraced, with_all_served
from bench.simulation.result import VIOLATIONS_ALLOWED
from reports.figure import Figure, Need
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, stroke, swatch, write_note
from reports.palette import scheduler_look
from reports.selection import gaps, instances_of, nothing_to_draw, rows_by_label
from reports.variants import made_for

_HEIGHT_IN = 2.3
_GROUP_WIDTH = 0.8


def with_climbs(needs: Mapping[str, Need]) -> tuple[Need, ...]:
    """Return the needs of ``draw_max_rates``: per label the largest planned rate, and the climb."""
    return (*needs.values(), *(replace(need, climb=True) for need in needs.values()))


def draw_max_rates(
    figure: Figure, needs: Mapping[str, Need], names: Mapping[str, str], rows: Sequence[Row], folder: Path
) -> list[Path]:
    """Draw a group of bars per instance: the rates at which a climb ended, and a mark at the largest planned rate.

    A mark is filled if the simulation of that plan has at most one request in a hundred not in time.

    Parameters
    ----------
    figure
        Figure whose files are written; its needs are ``with_climbs(needs)``.
    needs
        Needs by label; each names the instances, of objective ``scale``, and one scheduler with its parameters.
    names
        Label of each instance on the axis, in order.
    rows, folder
        See ``Figure.draw``.
    """
    known = instances_of(figure.needs)
    planned = rows_by_label(rows, needs)
    climbs = {
        (label, name): one
        for label, need in needs.items()
        for name in names
        if (one := retraced(with_all_served(known[name]), made_for(rows, need))).rows
    }
    if not planned and not climbs:
        raise nothing_to_draw(figure.name, figure.needs)
    places = [name for name in names if any((label, name) in {**planned, **climbs} for label in needs)]
    own = [*planned.values(), *(row for one in climbs.values() for row in one.rows.values())]
    fruitless = [row for row in planned.values() if not row.value or late_fraction(row) is None]
    fruitless += [row for one in climbs.values() if not one.throughput_rps for row in one.rows.values()]
    notes = gaps(figure.name, own, fruitless, tuple(needs.values()))
    notes += _unended(climbs)
    with page(FULL_WIDTH_IN, _HEIGHT_IN + note_height_in(notes)) as sheet:
        ax = sheet.subplots()
        width = _GROUP_WIDTH / len(needs)
        for position, (label, need) in enumerate(needs.items()):
            colour = scheduler_look(need.schedulers[0]).colour
            hatch = "////" if _blind(need) else None
            offset = (position - (len(needs) - 1) / 2.0) * width
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
        ax.set_xticks(range(len(places)), [names[name] for name in places])
        ax.tick_params(axis="x", length=0)
        ax.set(ylabel="Requests per second, all models", xlim=(-0.6, len(places) - 0.4))
        ax.yaxis.set_major_formatter("{x:,.0f}")
        ax.grid(axis="y")
        handles = [
            swatch(
                scheduler_look(need.schedulers[0]).colour,
                label,
                hatch="////" if _blind(need) else None,
                edgecolor="white",
            )
            for label, need in needs.items()
        ]
        mark = {"color": "black", "marker": "D", "linestyle": ""}
        handles.append(stroke("largest planned, served in time", **mark))
        handles.append(stroke("not in time", markerfacecolor="white", **mark))
        sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        write_note(sheet, notes)
        return save(sheet, figure.name, folder)


def _blind(need: Need) -> bool:
    """Return whether the need turns off a scheduler's interference model, which it has by default."""
    return any(parameter.endswith(".interference=false") for parameter in need.parameters)


def _unended(climbs: Mapping[tuple[str, str], Climb]) -> list[str]:
    unended = [f"{label} on {name}" for (label, name), one in climbs.items() if one.next is not None or one.broken_off]
    return [f"Climbs that have not ended: {', '.join(unended)}."] if unended else []
