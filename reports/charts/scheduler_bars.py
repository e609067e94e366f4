"""Bars of one instance, one per scheduler: a value of its run or the mean over its runs, whole or in stacked parts."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from bench.ledger.row import Row
from reports.charts.groups import name_groups
from reports.charts.page import COLUMN_IN, Axes, Page, page, swatch, with_legend
from reports.charts.palette import ALARM, pale, scheduler_look
from reports.figure import Figure
from reports.need import Need
from reports.selection import missing_notes, rows_by_label
from reports.statistics.inference import half_width

_HEIGHT_IN = 2.2


@dataclass(frozen=True, slots=True)
class BarPart:
    """A bar, or one of its stacked parts: ``value`` of a row, ``None`` if the row has none."""

    label: str
    value: Callable[[Row], float | None]
    faint: bool = False


def draw_bars(
    figure: Figure,
    rows: Sequence[Row],
    *,
    needs: Mapping[str, tuple[Need, ...]],
    parts: Sequence[BarPart],
    label_axes: Callable[[Axes], None],
) -> Page:
    """Draw a bar for each label; labels of plans with violations are red. See ``Figure.draw``.

    Parameters
    ----------
    needs
        Needs by label; all name the same instance and one scheduler each, with its parameters. A bar is the mean of its
        runs, the whisker on each of its parts the 95 % confidence interval (``half_width``).
    parts
        Parts of every bar, the lowest first.
    label_axes
        Function that sets the labels and the scale of the axes.
    """
    found = {label: list(rows_by_label(rows, dict(enumerate(own))).values()) for label, own in needs.items()}
    own = [row for those in found.values() for row in those]
    shown = {
        label: kept
        for label, those in found.items()
        if (kept := [row for row in those if all(part.value(row) is not None for part in parts)])
    }
    fruitless = [row for row in own if all(row not in kept for kept in shown.values())]
    notes = missing_notes(figure, own, fruitless)
    broken = {label: sum(row.violations or 0 for row in kept if row.feasible is False) for label, kept in shown.items()}
    broken = {label: violations for label, violations in broken.items() if violations}
    if broken:
        named = ", ".join(f"{label} {violations}" for label, violations in broken.items())
        notes.append(f"Red: plans that break constraints, with their number of violations: {named}.")
    notes += [
        f"{label}: mean of {len(kept)} trainings and its 95 % confidence interval."
        for label, kept in shown.items()
        if len(kept) > 1
    ]
    sheet = page(COLUMN_IN, _HEIGHT_IN, notes)
    ax = sheet.subplots()
    for place, kept in enumerate(shown.values()):
        colour = scheduler_look(kept[0].scheduler).colour
        bottom = 0.0
        for part in parts:
            heights = [part.value(row) or 0.0 for row in kept]
            height = fmean(heights)
            face = pale(colour) if part.faint else colour
            ax.bar(place, height, 0.7, bottom=bottom, facecolor=face, edgecolor=colour)
            bottom += height
            if half := float(half_width(heights)):
                ax.errorbar(place, bottom, half, color="black", linewidth=0.7, capsize=1.5)
        top = bottom + float(half_width([sum(part.value(row) or 0.0 for part in parts) for row in kept]))
        ax.annotate(_short(bottom), (place, top), (0, 2), textcoords="offset points", ha="center", fontsize=5.5)
    name_groups(ax, [label.replace("-", "-\n") for label in shown])
    for tick, label in zip(ax.get_xticklabels(), shown, strict=True):
        tick.set_color(ALARM if label in broken else "black")
    ax.margins(y=0.1)  # room for the numbers
    ax.set_ylim(bottom=0.0)
    label_axes(ax)
    if len(parts) == 1:
        return sheet
    faces = [pale("#000000") if part.faint else "black" for part in parts]
    return with_legend(
        sheet, [swatch(face, part.label, edgecolor="black") for face, part in zip(faces, parts, strict=True)]
    )


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100.0 else f"{value:.2g}"
