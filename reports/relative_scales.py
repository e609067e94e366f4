"""Largest schedulable scales relative to one scheduler's, and their means over the instances."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean

from bench.ledger.row import Row
from reports.figure import Figure, Need, NothingToDrawError
from reports.figure_style import COLUMN_IN, note_height_in, page, save, stroke, swatch, write_note
from reports.palette import STAR, scheduler_look
from reports.selection import gaps, instances_of, own_rows
from reports.variants import made_for

MEAN = "mean"

_HEIGHT_IN = 2.2
_GROUP_WIDTH = 0.8


def relative_scales(rows: Mapping[str, Sequence[Row]], reference: str) -> dict[str, dict[str, float]]:
    """Return by label and instance the scale relative to that of ``reference``, and the mean of these.

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
    needs: Mapping[str, Need],
    reference: str,
    names: Mapping[str, str],
    paper: Mapping[str, float],
    rows: Sequence[Row],
    folder: Path,
) -> list[Path]:
    """Draw a group of bars per instance and one of their means.

    Parameters
    ----------
    figure
        Figure whose files are written.
    needs
        Needs by label; each names the instances and one scheduler with its parameters.
    reference
        Label whose scale is 1.
    names
        Label of each instance on the axis, in order.
    paper
        The paper's means by label, if it states them.
    rows, folder
        See ``Figure.draw``.
    """
    own = own_rows(figure.name, [row for need in needs.values() for row in made_for(rows, need)], figure.needs)
    parts = relative_scales({label: made_for(own, need) for label, need in needs.items()}, reference)
    if not parts:
        raise NothingToDrawError(figure.name, f"no run has a result to compare with one of {reference}")
    notes = gaps(figure.name, own, [row for row in own if not row.feasible], figure.needs)
    stopped = [row for row in own if row.feasible and row.decision_s is not None and row.decision_s > row.time_limit_s]
    if stopped:
        where = ", ".join(f"{row.scheduler} on {row.instance}" for row in stopped)
        notes.append(f"Stopped by the time limit: {where}.")
    drawn = {row.instance for row in own}
    places = [name for name in instances_of(figure.needs) if name in names and name in drawn] + [MEAN]
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        width = _GROUP_WIDTH / len(needs)
        for position, (label, need) in enumerate(needs.items()):
            offset = (position - (len(needs) - 1) / 2.0) * width
            mine = parts.get(label, {})
            at = [place for place, name in enumerate(places) if name in mine]
            heights = [mine[places[place]] for place in at]
            ax.bar([place + offset for place in at], heights, width, color=scheduler_look(need.schedulers[0]).colour)
            if label in paper:
                ax.plot(len(places) - 1 + offset, paper[label], **STAR)
        ax.axvline(len(places) - 1.5, color="black", linewidth=0.5, linestyle=":")
        labels = [{**names, MEAN: MEAN}[name] for name in places]
        ax.set_xticks(range(len(places)), labels, rotation=0 if sum(map(len, labels)) < 35 else 30)
        ax.tick_params(axis="x", length=0)
        ax.set(ylabel=f"Largest scale\n(that of {reference} = 1)", xlim=(-0.6, len(places) - 0.4))
        ax.grid(axis="y")
        handles = [swatch(scheduler_look(need.schedulers[0]).colour, label) for label, need in needs.items()]
        if paper:
            handles.append(stroke("the paper's mean", **STAR))
        sheet.legend(handles=handles, loc="outside upper center", ncols=4)
        write_note(sheet, notes)
        return save(sheet, figure.name, folder)
