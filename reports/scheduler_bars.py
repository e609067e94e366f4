"""One instance, a bar per scheduler: a figure of its run, or several that are stacked."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from reports.canvas import COLUMN_IN, note_height_in, page, save, swatch, write_note
from reports.figure import Figure, Need
from reports.palette import ALARM, pale, scheduler_look
from reports.selection import gaps, own_rows
from reports.variants import made_for

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bench.row import Row

_HEIGHT_IN = 2.2


@dataclass(frozen=True, slots=True)
class Part:
    """What a bar shows, or one of the parts that are stacked in it: ``value`` of a row, ``None`` where it has none."""

    label: str
    value: "Callable[[Row], float | None]"
    faint: bool = False


def allocated_pct(row: "Row") -> float | None:
    """Return the shares that are allocated, summed over GPUs: 100 is a whole GPU."""
    fragments = fragments_pct(row)
    return None if row.gpus_used is None or fragments is None else 100.0 * row.gpus_used - fragments


def fragments_pct(row: "Row") -> float | None:
    """Return the shares that are left on GPUs that run something, summed over these GPUs (InSS, Sec. 2.4)."""
    return None if row.gpus_used is None or row.fragments_pct is None else row.gpus_used * row.fragments_pct


def draw_bars(
    figure: Figure,
    needs: Mapping[str, Need],
    parts: Sequence[Part],
    label_axes: "Callable[[Axes], None]",
    rows: "Sequence[Row]",
    folder: Path,
) -> list[Path]:
    """Draw a bar for each of ``needs``, whose label is marked where its plan breaks a constraint.

    Parameters
    ----------
    figure
        Whose files are written.
    needs
        By label; all name the same instance and one scheduler each, with its parameters.
    parts
        Of every bar, from below.
    label_axes
        Names what is drawn, and chooses the scale.
    rows, folder
        See ``Figure.draw``.
    """
    own = own_rows(figure.name, [row for need in needs.values() for row in made_for(rows, need)], figure.needs)
    shown = {
        label: row
        for label, need in needs.items()
        for row in made_for(own, need)
        if all(part.value(row) is not None for part in parts)
    }
    notes = gaps(own, [row for row in own if row not in shown.values()], figure.needs)
    broken = [f"{label} {row.violations}" for label, row in shown.items() if row.feasible is False]
    if broken:
        notes.append(f"In red: plans that break constraints, so many of them: {', '.join(broken)}.")
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        for place, (label, row) in enumerate(shown.items()):
            colour = scheduler_look(needs[label].schedulers[0]).colour
            bottom = 0.0
            for part in parts:
                height = part.value(row) or 0.0
                face = pale(colour) if part.faint else colour
                ax.bar(place, height, 0.7, bottom=bottom, facecolor=face, edgecolor=colour)
                bottom += height
        ax.set_xticks(range(len(shown)), [label.replace("-", "-\n") for label in shown])
        ax.set_xlim(-0.6, max(1, len(shown)) - 0.4)
        for tick, row in zip(ax.get_xticklabels(), shown.values(), strict=True):
            tick.set_color(ALARM if row.feasible is False else "black")
        ax.tick_params(axis="x", length=0)
        ax.grid(axis="y")
        label_axes(ax)
        if len(parts) > 1:
            faces = [pale("#000000") if part.faint else "black" for part in parts]
            handles = [swatch(face, part.label, edgecolor="black") for face, part in zip(faces, parts, strict=True)]
            sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
        write_note(sheet, notes)
        return save(sheet, figure.name, folder)
