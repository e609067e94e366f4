"""A plan as a picture: a bar per GPU, a piece per slot, labels that fit."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeAlias

from instances.instance import Instance
from reports.canvas import swatch
from reports.labels import Wording
from reports.palette import ALARM, ALARM_EDGE, ALARM_HATCH, model_colour
from reports.placement import Piece, gpus

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Page
    from matplotlib.patches import Rectangle
    from matplotlib.text import Text

    from bench.ledger.row import Row

Label: TypeAlias = "tuple[Text, Rectangle, list[Wording]]"

BAR_IN = 0.24
"""Height of a GPU on the page."""

HEADER_IN = 0.26
FREE_EDGE = "#B5B5B5"

_THICKNESS = 0.8


def draw_plan(ax: "Axes", row: "Row", found: Sequence[Piece]) -> list[Label]:
    """Draw the plan of ``row``, whose pieces were ``found``, a bar per GPU; return the labels to be fitted."""
    count, violations = len(gpus(row)), row.violations or 0
    ax.set_title(row.scheduler)
    ax.set_title(
        f"{row.gpus_used} GPUs, ${row.cost_per_hour:.2f}/h, {violations} violation{'s' * (violations != 1)}",
        loc="right",
        fontweight="normal",
        color=ALARM if violations else "black",
    )
    ax.set_xlim(0.0, max([ax.get_xlim()[1], *(piece.start_pct + piece.share_pct for piece in found)]))
    ax.set_yticks(range(count), [f"GPU{gpu + 1}" for gpu in range(count)])
    ax.tick_params(axis="y", length=0, labelleft=True)
    ax.spines["left"].set_visible(False)
    ax.barh(range(count), 100.0, _THICKNESS, color="white", edgecolor=FREE_EDGE)  # what the slots do not cover is free
    # The marked ones come last, on top of the others: their edges stay whole.
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
        clip_on=False,  # keeps the edge whole where the GPU ends
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
    """Say above everything which colour is which model, and how a label reads."""
    models = dict.fromkeys(workload.model for workload in instance.workloads)
    handles = [swatch(model_colour(model), model, edgecolor="black") for model in models]
    handles.append(swatch("white", "free", edgecolor=FREE_EDGE))
    if any(piece.violating for piece in found):
        handles.append(swatch("white", "violation", edgecolor=ALARM, linewidth=ALARM_EDGE, hatch=ALARM_HATCH))
    handles.append(swatch("none", "W3 b8: workload 3 in batches of 8", linewidth=0))
    sheet.legend(handles=handles, loc="outside upper center", ncols=len(handles))
