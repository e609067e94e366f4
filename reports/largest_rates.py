"""Outcome of the requests at the largest planned rates."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from bench.max_rate import late_fraction
from bench.simulation.result import VIOLATIONS_ALLOWED
from reports.figure import Figure, Need
from reports.figure_style import COLUMN_IN, note_height_in, page, save, swatch, write_note
from reports.palette import ALARM, ALARM_EDGE, QUIET, pale, scheduler_look
from reports.selection import gaps, nothing_to_draw, rows_by_label

if TYPE_CHECKING:
    from matplotlib.axes import Axes


_HEIGHT_IN = 2.2
_GROUP_WIDTH = 0.8
_LEAST_PCT = 0.01
_MOST_PCT = 100.0


def draw_late_at_largest_rates(
    figure: Figure, needs: Mapping[str, Need], names: Mapping[str, str], rows: Sequence[Row], folder: Path
) -> list[Path]:
    """Draw the requests not in time at each instance's largest rate with a plan by any of ``needs``.

    Schedulers without a plan for that rate are marked N, not schedulable.

    Parameters
    ----------
    figure
        Figure whose files are written.
    needs
        Needs by label; each names the instances, of objective ``scale``, and one scheduler with its parameters.
    names
        Label of each instance on the axis, in order.
    rows, folder
        See ``Figure.draw``.
    """
    found = rows_by_label(rows, needs)
    if not found:
        raise nothing_to_draw(figure.name, figure.needs)
    largest: dict[str, float] = {}
    for row in found.values():
        largest[row.instance] = max(largest.get(row.instance, 0.0), row.value or 0.0)
    fruitless = [row for row in found.values() if not row.value or late_fraction(row) is None]
    notes = gaps(figure.name, list(found.values()), fruitless, figure.needs)
    places = [name for name in names if largest.get(name)]
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        ax.axhline(100.0 * VIOLATIONS_ALLOWED, color=QUIET, linewidth=0.6, linestyle=":")
        width = _GROUP_WIDTH / len(needs)
        handles = []
        for position, (label, need) in enumerate(needs.items()):
            colour = scheduler_look(need.schedulers[0]).colour
            face = colour if position else pale(colour)
            offset = (position - (len(needs) - 1) / 2.0) * width
            for place, name in enumerate(places):
                if (label, name) in found:
                    _draw_bar(ax, place + offset, width, found[label, name], largest[name], face)
            handles.append(swatch(face, label))
        scales = [f"{names[name]}\n{largest[name]:.2f}x" for name in places]
        ax.set_xticks(range(len(places)), scales)
        ax.tick_params(axis="x", length=0)
        ax.set(yscale="log", ylim=(_LEAST_PCT, _MOST_PCT), ylabel="Not in time (%)")
        ax.set_xlim(-0.6, len(places) - 0.4)
        ax.yaxis.set_major_formatter("{x:g}")
        ax.grid(axis="y")
        sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        write_note(sheet, notes)
        return save(sheet, figure.name, folder)


def _draw_bar(ax: "Axes", place: float, width: float, row: Row, largest: float, face: str) -> None:
    late = late_fraction(row)
    if (row.value or 0.0) < largest:
        ax.text(place, 1.3 * _LEAST_PCT, "N", ha="center", fontsize=6)
    elif late is not None:
        late_pct = 100.0 * late
        broken = late > VIOLATIONS_ALLOWED
        edge, thickness = (ALARM, ALARM_EDGE) if broken else (face, 0.0)
        ax.bar(place, max(_LEAST_PCT, late_pct), width, facecolor=face, edgecolor=edge, linewidth=thickness)
