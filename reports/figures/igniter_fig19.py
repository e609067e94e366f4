"""iGniter, Fig. 19: the GPU on which each strategy places the second workload."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from reports.figure import Figure, Need
from reports.figure_style import COLUMN_IN, note_height_in, page, save, swatch, write_note
from reports.palette import ALARM, ALARM_EDGE, ALARM_HATCH, pale, scheduler_look
from reports.placement import Piece, pieces
from reports.selection import instances_of, plans_and_notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NEEDS = (Need("igniter-12", ("ffd+", "gpu-lets+", "ffd++", "igniter")),)
WORKLOAD = "W2"
"""The second workload: App2 of AlexNet."""

PAPER = {"ffd+": "GPU1", "gpu-lets+": "GPU2, 40 %", "ffd++": "GPU5, 15 %", "igniter": "GPU6, 7.5 %"}
"""Placements of the paper (Sec. 5.3)."""

_HEIGHT_IN = 2.1


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the GPU of ``WORKLOAD`` in each plan of ``rows`` into ``folder``; see ``Figure.draw``."""
    named = [row for row in rows if row.scheduler in PAPER]
    plans, notes = plans_and_notes(FIGURE.name, named, NEEDS)
    instance = instances_of(NEEDS)[NEEDS[0].instances]
    with page(COLUMN_IN, _HEIGHT_IN + note_height_in(notes, COLUMN_IN)) as sheet:
        ax = sheet.subplots()
        for place, (scheduler, row) in enumerate(plans.items()):
            _draw_gpu(ax, place, scheduler, beside(pieces(row, instance)))
        ax.set_yticks(range(len(plans)), list(plans))
        ax.tick_params(axis="y", length=0)
        ax.set(xlim=(0.0, 100.0), ylim=(len(plans) - 0.4, -0.6), xlabel="Share of the GPU (%)")
        handles = [
            swatch("#707070", f"{WORKLOAD}"),
            swatch(pale("#707070"), "its neighbours", edgecolor="white"),
            swatch("white", "violation", edgecolor=ALARM, linewidth=ALARM_EDGE, hatch=ALARM_HATCH),
        ]
        sheet.legend(handles=handles, loc="outside upper center", ncols=3)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def beside(found: Sequence[Piece]) -> list[Piece]:
    """Return the pieces on the first GPU that ``WORKLOAD`` is on, its own included; none if it is nowhere."""
    gpu = next((piece.gpu for piece in found if piece.workload == WORKLOAD), None)
    return [piece for piece in found if piece.gpu == gpu]


def _draw_gpu(ax: "Axes", place: int, scheduler: str, found: Sequence[Piece]) -> None:
    colour = scheduler_look(scheduler).colour
    for piece in found:
        own = piece.workload == WORKLOAD
        ax.barh(
            place,
            piece.share_pct,
            0.55,
            left=piece.start_pct,
            facecolor=colour if own and not piece.violating else pale(colour),
            edgecolor=ALARM if piece.violating else "white",
            linewidth=ALARM_EDGE if piece.violating else 0.5,
            hatch=ALARM_HATCH if piece.violating else None,
            zorder=3 if piece.violating else 2,
        )
        ax.text(piece.start_pct + piece.share_pct / 2.0, place, piece.workload, ha="center", va="center", fontsize=6)
        if own:
            said = f"GPU{piece.gpu + 1}, {piece.share_pct:g} %; in the paper {PAPER[scheduler]}"
            ax.text(0.0, place - 0.3, said, va="bottom", fontsize=6)


FIGURE = Figure(
    name="igniter-fig19",
    title="GPU of the second workload, App2 of AlexNet, by strategy",
    paper="iGniter, Fig. 19",
    shows="FFD+ puts it on GPU1 at its least share alone, which violates SLOs; gpu-lets+ on GPU2 with 40 %; FFD++ on "
    "GPU5, the first with room, with 15 %; iGniter on GPU6, where it costs least: 7.5 %.",
    look_for="FFD+ and iGniter act as in the paper. FFD++ finds room on GPU6 only, so W2 is alone there and needs "
    "half the share. gpu-lets+ gives W2 the larger part of the same GPU as in the paper.",
    cost="4 runs, a second",
    needs=NEEDS,
    draw=draw,
)
