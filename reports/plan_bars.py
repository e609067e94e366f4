"""Pictures of plans: a panel per scheduler, a bar per GPU, a piece per slot, with labels that fit."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from bench.ledger.row import Row
from instances.instance import Instance
from reports.figure import Need
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, swatch, write_note
from reports.labels import Wording, fit_labels
from reports.palette import ALARM, ALARM_EDGE, ALARM_HATCH, model_colour
from reports.placement import Piece, gpus, pieces
from reports.selection import instances_of, plans_and_notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Page
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text


Label: TypeAlias = "tuple[Text, Rectangle, list[Wording]]"

BAR_IN = 0.24
"""Height of a GPU on the page."""

HEADER_IN = 0.26
FREE_EDGE = "#B5B5B5"

_THICKNESS = 0.8
_MARGINS_IN = 0.58


def draw_plans(
    name: str,
    needs: tuple[Need, ...],
    rows: Sequence[Row],
    folder: Path,
    across: int = 2,
    notes: Sequence[str] = (),
) -> list[Path]:
    """Draw the plans in ``rows`` for one instance side by side.

    Parameters
    ----------
    name
        Name of the figure and of its files.
    needs
        Needs of the figure; the first names the instance.
    rows, folder
        See ``Figure.draw``.
    across
        Number of plans side by side.
    notes
        Notes below the plans.
    """
    plans, missing = plans_and_notes(name, rows, needs)
    said = [*missing, *notes]
    instance = instances_of(needs)[needs[0].instances]
    placed = [(row, pieces(row, instance)) for row in plans.values()]
    bands = [placed[start : start + across] for start in range(0, len(placed), across)]
    bars = [max(1, *(len(gpus(row)) for row, _ in band)) for band in bands]
    height_in = sum(bars) * BAR_IN + len(bars) * HEADER_IN + _MARGINS_IN + note_height_in(said)
    with page(FULL_WIDTH_IN, height_in) as sheet:
        axes = sheet.subplots(len(bars), across, sharex=True, squeeze=False, gridspec_kw={"height_ratios": bars})
        for ax, bar_count in zip(axes.flat, (count for count in bars for _ in range(across)), strict=True):
            ax.set(xlim=(0.0, 100.0), ylim=(bar_count - 0.5, -0.5))
        labels = [
            label for ax, (row, found) in zip(axes.flat, placed, strict=False) for label in draw_plan(ax, row, found)
        ]
        for ax in axes.flat[len(placed) :]:
            ax.remove()
        for ax in axes.flat[max(0, len(placed) - across) : len(placed)]:  # the lowest of each column
            ax.set_xlabel("Share of the GPU (%)")
            ax.tick_params(axis="x", labelbottom=True)
        plan_legend(sheet, instance, [piece for _, found in placed for piece in found])
        write_note(sheet, said)
        fit_labels(sheet, labels)
        return save(sheet, name, folder)


def draw_plan(ax: "Axes", row: Row, found: Sequence[Piece]) -> list[Label]:
    """Draw the plan of ``row`` with its pieces ``found``, a bar per GPU; return the labels to be fitted."""
    count, used, violations = len(gpus(row)), row.gpus_used, row.violations or 0
    ax.set_title(row.scheduler)
    ax.set_title(
        f"{used} GPU{'s' * (used != 1)}, ${row.cost_per_hour:.2f}/h, {violations} violation{'s' * (violations != 1)}",
        loc="right",
        fontweight="normal",
        color=ALARM if violations else "black",
    )
    ax.set_xlim(0.0, max([ax.get_xlim()[1], *(piece.start_pct + piece.share_pct for piece in found)]))
    ax.set_yticks(range(count), [f"GPU{gpu + 1}" for gpu in range(count)])
    ax.tick_params(axis="y", length=0, labelleft=True)
    ax.spines["left"].set_visible(False)
    ax.barh(range(count), 100.0, _THICKNESS, color="white", edgecolor=FREE_EDGE)  # the background is free share
    # Marked pieces come last, on top of the others, so that their edges stay complete.
    return [_draw_piece(ax, piece) for piece in sorted(found, key=lambda piece: piece.violating)]


def _draw_piece(ax: "Axes", piece: Piece) -> Label:
    """Draw a slot: its length is its share; slots that take turns divide the thickness of the bar."""
    colour = model_colour(piece.model)
    thickness = _THICKNESS / piece.turns
    middle = piece.gpu + (piece.turn - (piece.turns - 1) / 2.0) * thickness
    (bar,) = ax.barh(
        middle,
        piece.share_pct,
        thickness,
        left=piece.start_pct,
        facecolor=colour,
        edgecolor=ALARM if piece.violating else "black",
        linewidth=ALARM_EDGE if piece.violating else 0.5,
        hatch=ALARM_HATCH if piece.violating else None,
        clip_on=False,  # keeps the edge complete at the end of the GPU
    )
    text = ax.text(
        piece.start_pct + piece.share_pct / 2.0,
        middle,
        "",
        ha="center",
        va="center_baseline" if piece.turns > 1 else "center",
        linespacing=1.0,
        bbox={"facecolor": colour, "edgecolor": "none", "pad": 0.6} if piece.violating else None,  # clear of the hatch
    )
    two_lines, one_line = f"{piece.workload}\nb{piece.batch}", f"{piece.workload} b{piece.batch}"
    wordings = [
        Wording(two_lines, 6.5),
        Wording(one_line, 6.5),
        Wording(two_lines, 5.0),
        Wording(one_line, 5.0),
        Wording(one_line, 5.0, 90.0),
        Wording(piece.workload, 5.0),
        Wording(piece.workload, 5.0, 90.0),
    ]
    return text, bar, wordings


def plan_legend(sheet: "Page", instance: Instance, found: Sequence[Piece]) -> None:
    """Draw a legend at the top: the colours of the models, and how to read a label."""
    models = dict.fromkeys(workload.model for workload in instance.workloads)
    handles = [swatch(model_colour(model), model, edgecolor="black") for model in models]
    handles.append(swatch("white", "free", edgecolor=FREE_EDGE))
    if any(piece.violating for piece in found):
        handles.append(swatch("white", "violation", edgecolor=ALARM, linewidth=ALARM_EDGE, hatch=ALARM_HATCH))
    handles.append(swatch("none", "W3 b8: workload 3 in batches of 8", linewidth=0))
    sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
