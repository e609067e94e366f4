"""iGniter, Fig. 18: share of a GPU per workload and scheduler."""

from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from bench.ledger.row import Row
from instances.instance import Instance
from reports.figure import Figure, Need
from reports.figure_style import FULL_WIDTH_IN, note_height_in, page, save, swatch, write_note
from reports.palette import ALARM, ALARM_EDGE, ALARM_HATCH, pale, scheduler_look
from reports.placement import Piece, pieces
from reports.selection import instances_of, plans_and_notes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Page


NEEDS = (Need("igniter-12", ("igniter", "ffd+", "ffd++", "cpsat")),)

_HEIGHT_IN = 2.1
_GROUP_WIDTH = 0.8


def draw(rows: Sequence[Row], folder: Path) -> list[Path]:
    """Draw the shares in the plans of ``rows`` into ``folder``; see ``Figure.draw``."""
    plans, notes = plans_and_notes(FIGURE.name, rows, NEEDS)
    instance = instances_of(NEEDS)[NEEDS[0].instances]
    placed = {scheduler: pieces(row, instance) for scheduler, row in plans.items()}
    with page(FULL_WIDTH_IN, _HEIGHT_IN + note_height_in(notes)) as sheet:
        ax = sheet.subplots()
        for position, (scheduler, found) in enumerate(placed.items()):
            _draw_shares(ax, instance, scheduler, found, position, len(placed))
        _label(ax, instance)
        _legend(sheet, placed)
        write_note(sheet, notes)
        return save(sheet, FIGURE.name, folder)


def shares_pct(found: Sequence[Piece]) -> dict[str, float]:
    """Return the share of each workload in percent of a GPU, summed over GPUs; slots that take turns divide theirs."""
    shares: dict[str, float] = {}
    for piece in found:
        shares[piece.workload] = shares.get(piece.workload, 0.0) + piece.share_pct / piece.turns
    return shares


def _draw_shares(
    ax: "Axes", instance: Instance, scheduler: str, found: Sequence[Piece], position: int, schedulers: int
) -> None:
    shares = shares_pct(found)
    broken = {piece.workload for piece in found if piece.violating}
    colour = scheduler_look(scheduler).colour
    width = _GROUP_WIDTH / schedulers
    for x, workload in enumerate(instance.workloads):
        violating = workload.id in broken
        ax.bar(
            x + (position - (schedulers - 1) / 2.0) * width,
            shares.get(workload.id, 0.0),
            width,
            facecolor=pale(colour) if violating else colour,  # a hatch is visible on a pale bar only
            edgecolor=ALARM if violating else "white",
            linewidth=ALARM_EDGE if violating else 0.4,
            hatch=ALARM_HATCH if violating else None,
            zorder=3 if violating else 2,
        )


def _label(ax: "Axes", instance: Instance) -> None:
    ax.set(ylabel="Share of a GPU (%)", xlim=(-0.6, len(instance.workloads) - 0.4))
    ax.set_ylim(0.0, max(100.0, ax.get_ylim()[1]))
    ax.set_xticks(range(len(instance.workloads)), [workload.id for workload in instance.workloads])
    ax.tick_params(axis="x", length=0)
    ax.grid(axis="y")
    start = 0
    below = ax.secondary_xaxis(-0.1)
    below.spines["bottom"].set_visible(False)
    below.tick_params(axis="x", length=0)
    middles, models = [], []
    for model, run in groupby(workload.model for workload in instance.workloads):
        end = start + len(list(run))
        middles.append((start + end - 1) / 2.0)
        models.append(model)
        if start:
            ax.axvline(start - 0.5, color="#B5B5B5", linewidth=0.5, linestyle=(0, (1, 2)))
        start = end
    below.set_xticks(middles, models)
    below.set_xlabel("Workload and its DNN model")


def _legend(sheet: "Page", placed: Mapping[str, Sequence[Piece]]) -> None:
    handles = [swatch(scheduler_look(scheduler).colour, scheduler) for scheduler in placed]
    if any(piece.violating for found in placed.values() for piece in found):
        handles.append(swatch("white", "violation", edgecolor=ALARM, linewidth=ALARM_EDGE, hatch=ALARM_HATCH))
    sheet.legend(handles=handles, loc="outside upper center", ncols=min(len(handles), 8))


FIGURE = Figure(
    name="igniter-fig18",
    title="Shares of iGniter's twelve workloads",
    paper="iGniter, Fig. 18",
    shows="FFD+ gives every workload at most what iGniter gives it; gpu-lets+ gives at least as much, and so "
    "does GSLICE+ except to W12.",
    look_for="FFD+ is at or below iGniter everywhere, and most of its bars are violations: the difference is "
    "iGniter's allowance for interference. FFD++ adds more to some workloads, because it takes the first GPU that "
    "fits instead of the one with the least interference.",
    cost="the 4 runs of igniter-fig14",
    needs=NEEDS,
    draw=draw,
)
