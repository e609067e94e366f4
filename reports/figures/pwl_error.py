"""Piecewise-linear model: its error and the gap of its runs over the number of pieces."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING

from bench.ledger.gap import relative_gap
from bench.ledger.row import Row
from instances.costs import next_cost
from reports.figure import Figure, Need
from reports.figure_style import COLUMN_IN, note_height_in, page, save, stroke, write_note
from reports.palette import SERIES
from reports.selection import gaps, instances_of, nothing_to_draw
from reports.variants import made_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes


PIECES = (1, 2, 3, 4, 6, 8)
_INSTANCES = "smoke-goodput,exact-5-s2,exact-10-s2,igniter-12"
_QUICK = "smoke-goodput,exact-5-s2"
_TIME_LIMIT_S = 30.0

NEEDS_OF: Mapping[tuple[int, bool], Need] = {
    (pieces, certified): Need(
        _INSTANCES,
        ("pwl",),
        quick=_QUICK,
        parameters=(f"pwl.pieces={pieces}", f"pwl.certified={'true' if certified else 'false'}"),
        time_limit_s=_TIME_LIMIT_S,
    )
    for certified in (False, True)
    for pieces in PIECES
}
"""Needs by number of pieces and by whether the triangles are shifted for a valid bound."""

NEEDS = tuple(NEEDS_OF.values())
RELATIONS = {"k_act": "active time", "ability": "ability"}
_HEIGHT_IN = 3.6


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw errors and gaps of ``rows`` into ``folder``; see ``Figure.draw``."""
    own = rows_by_pieces(rows)
    made = [row for found in own.values() for row in found]
    if not made:
        raise nothing_to_draw(FIGURE.name, NEEDS)
    fruitless = [row for row in made if gap_pct(row) is None or not _states_error(row)]
    notes = gaps(FIGURE.name, made, fruitless, NEEDS)
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        error, gap = sheet.subplots(2, 1, sharex=True)
        handles = []
        for look, (name, label) in zip(SERIES, RELATIONS.items(), strict=False):
            for which, line in (("max", "-"), ("mean", ":")):
                points = errors_pct(own, f"pwl_error_{which}_{name}")
                style = {"color": look.colour, "marker": look.marker, "linestyle": line}
                error.plot(list(points), list(points.values()), **style)
                handles.append(stroke(f"{label}, {'largest' if which == 'max' else 'mean'}", **style))
        for look, certified in zip(SERIES[2:], (False, True), strict=False):
            points = gaps_pct(own, certified)
            style = {"color": look.colour, "marker": look.marker, "linestyle": look.line}
            gap.plot(list(points), list(points.values()), **style)
            handles.append(stroke("to the certified bound" if certified else "to the model's bound", **style))
        _label(error, gap)
        sheet.legend(handles=handles, loc="outside upper center", ncols=2)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def rows_by_pieces(rows: Sequence[Row]) -> dict[tuple[int, bool], list[Row]]:
    """Return the latest run on each instance, by pieces and by whether its bound is certified."""
    known = instances_of(NEEDS)
    found = {}
    for key, need in NEEDS_OF.items():
        latest = {
            row.instance: row
            for row in made_for(rows, need)
            if row.instance in known and row.instance_hash == known[row.instance].fingerprint
        }
        found[key] = [latest[name] for name in known if name in latest]
    return found


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


def gaps_pct(rows: Mapping[tuple[int, bool], Sequence[Row]], certified: bool) -> dict[int, float]:
    """Return by pieces the mean gap in percent, of the runs with or without a certified bound."""
    found = {}
    for (pieces, moved), runs in rows.items():
        values = [gap for row in runs if moved == certified and (gap := gap_pct(row)) is not None]
        if values:
            found[pieces] = fmean(values)
    return found


def gap_pct(row: Row) -> float | None:
    """Return the gap between the plan of a run and the run's own bound, in percent."""
    if not row.feasible or row.value is None or row.bound is None:
        return None
    instance = instances_of(NEEDS)[row.instance]
    bound = next_cost(row.bound, instance) if instance.objective.minimised else row.bound
    return 100.0 * relative_gap(row.value, bound)


def _label(error: "Axes", gap: "Axes") -> None:
    from matplotlib.ticker import FuncFormatter, NullFormatter

    error.set(ylabel="Relative error (%)", yscale="log")
    error.yaxis.set_major_formatter(FuncFormatter(lambda percent, _: f"{percent:g}"))
    error.yaxis.set_minor_formatter(NullFormatter())
    gap.set(ylabel="Gap (%)", xlabel="Pieces along each axis")
    gap.set_ylim(bottom=-0.5)
    gap.set_xticks(PIECES, [str(pieces) for pieces in PIECES])
    for axes in (error, gap):
        axes.grid()


FIGURE = Figure(
    name="pwl-error",
    title="Error and gap of the piecewise-linear model over the number of pieces",
    paper="ours",
    shows="No paper states the error of its linearised model; this figure is new.",
    look_for="Errors fall about with the square of the number of pieces. At the default of three the largest errors "
    "are tens of percent, the means several. Gaps do not follow: a finer model takes longer, and its bound at the "
    "time limit is worse. Where the model's bound gives a smaller gap than the certified one, the model's bound is "
    "optimistic.",
    cost="48 runs of at most 30 seconds each",
    needs=NEEDS,
    draw=draw,
)
