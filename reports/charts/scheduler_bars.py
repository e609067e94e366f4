"""Bars of schedulers on one instance: the mean of a value over a scheduler's runs, possibly in stacked parts."""

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
    """A bar, or one of its stacked parts; ``value`` returns its height from a row, ``None`` if the row has none."""

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
    """Draw a bar for each label; see ``Figure.draw``. The label is red if a plan has violations.

    Parameters
    ----------
    needs
        Needs by label. All needs name the same instance, and each names one scheduler with its parameters. A label has
        several needs only for an agent: one for each training. The height of a bar is the mean over its runs. The
        whisker on each part is the 95 % confidence interval (``half_width``).
    parts
        Parts of every bar, the lowest first.
    label_axes
        Function that sets the labels and the scale of the axes.
    """
    # A label may have several needs, and ``rows_by_label`` has one row per key, so each need gets a key of its own.
    rows_of = {
        label: list(rows_by_label(rows, dict(enumerate(needs_of_label))).values())
        for label, needs_of_label in needs.items()
    }
    all_rows = [row for label_rows in rows_of.values() for row in label_rows]
    drawn_rows_of = {
        label: drawn_rows
        for label, label_rows in rows_of.items()
        if (drawn_rows := [row for row in label_rows if all(part.value(row) is not None for part in parts)])
    }
    fruitless = [row for row in all_rows if any(part.value(row) is None for part in parts)]
    notes = missing_notes(figure, all_rows, fruitless)
    violation_counts = {
        label: sum(row.violations or 0 for row in drawn_rows if row.feasible is False)
        for label, drawn_rows in drawn_rows_of.items()
    }
    violations_of = {label: violations for label, violations in violation_counts.items() if violations}
    if violations_of:
        violation_texts = ", ".join(f"{label} {violations}" for label, violations in violations_of.items())
        notes.append(f"Red: plans that break constraints, with their number of violations: {violation_texts}.")
    notes += [
        f"{label}: mean of {len(drawn_rows)} trainings and its 95 % confidence interval."
        for label, drawn_rows in drawn_rows_of.items()
        if len(drawn_rows) > 1
    ]
    sheet = page(COLUMN_IN, _HEIGHT_IN, notes)
    ax = sheet.subplots()
    for position, drawn_rows in enumerate(drawn_rows_of.values()):
        colour = scheduler_look(drawn_rows[0].scheduler).colour
        bottom = 0.0
        for part in parts:
            heights = [part.value(row) or 0.0 for row in drawn_rows]
            height = fmean(heights)
            face = pale(colour) if part.faint else colour
            ax.bar(position, height, 0.7, bottom=bottom, facecolor=face, edgecolor=colour)
            bottom += height
            if interval_half_width := float(half_width(heights)):
                ax.errorbar(position, bottom, interval_half_width, color="black", linewidth=0.7, capsize=1.5)
        top = bottom + float(half_width([sum(part.value(row) or 0.0 for part in parts) for row in drawn_rows]))
        ax.annotate(_short(bottom), (position, top), (0, 2), textcoords="offset points", ha="center", fontsize=5.5)
    name_groups(ax, [label.replace("-", "-\n") for label in drawn_rows_of])
    for tick, label in zip(ax.get_xticklabels(), drawn_rows_of, strict=True):
        tick.set_color(ALARM if label in violations_of else "black")
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
