"""Pictures of plans: a bar per GPU with a piece per slot, and bars of the shares of workloads."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, TypeAlias

from bench.formatting import gpu_count
from bench.ledger.row import Row
from instances.instance import Instance
from reports.charts.groups import name_groups, side_by_side
from reports.charts.page import COLUMN_IN, FULL_WIDTH_IN, Axes, Page, Rectangle, Text, page, swatch, with_legend
from reports.charts.palette import ALARM, ALARM_EDGE, ALARM_HATCH, lightness, model_colour, pale, scheduler_look
from reports.figure import Figure
from reports.placement import Piece, gpus, pieces
from reports.selection import instances_of, plans_and_notes


@dataclass(frozen=True, slots=True)
class Wording:
    """One way to write a label."""

    text: str
    size_pt: float
    rotation_deg: float = 0.0


def fit_labels(sheet: Page, labels: Iterable[tuple[Text, Rectangle, Sequence[Wording]]]) -> None:
    """Write each label in its first wording that fits into its box, or leave it empty.

    Call it last: later additions to the page move the boxes.
    """
    sheet.draw_without_rendering()  # lays the page out
    for text, box, wordings in labels:
        room = box.get_window_extent()
        for wording in (*wordings, Wording("", 1.0)):
            text.set(text=wording.text, fontsize=wording.size_pt, rotation=wording.rotation_deg)
            extent = text.get_window_extent()
            if extent.width <= room.width and extent.height <= room.height:
                break


Label: TypeAlias = tuple[Text, Rectangle, list[Wording]]

BAR_IN = 0.24
"""Height of a GPU on the page."""

HEADER_IN = 0.26
FREE_EDGE = "#B5B5B5"
VIOLATION: dict[str, Any] = {"edgecolor": ALARM, "linewidth": ALARM_EDGE, "hatch": ALARM_HATCH}
"""Edge and hatch of a box with a violation."""

_LIGHT = 55.0
"""Lightness from which text on a colour is black."""

_THICKNESS = 0.8
_MARGINS_IN = 0.58
_SHARES_HEIGHT_IN = 2.1


def draw_plans(
    figure: Figure,
    rows: Sequence[Row],
    *,
    across: int = 2,
    notes: Sequence[str] = (),
    others: bool = True,
) -> Page:
    """Draw the plans in ``rows`` for the instance of the figure's first need; see ``Figure.draw``.

    Parameters
    ----------
    across
        Number of plans side by side.
    notes
        Notes below the plans.
    others
        Whether plans of schedulers outside the figure's needs are drawn, too.
    """
    plans, missing = plans_and_notes(figure, rows, others)
    lines = [*missing, *notes]
    instance = instances_of(figure.needs)[figure.needs[0].instances]
    placed = [(row, pieces(row, instance)) for row in plans.values()]
    bands = [placed[start : start + across] for start in range(0, len(placed), across)]
    bars = [max(1, *(len(gpus(row)) for row, _ in band)) for band in bands]
    height_in = sum(bars) * BAR_IN + len(bars) * HEADER_IN + _MARGINS_IN
    sheet = page(FULL_WIDTH_IN, height_in, lines)
    axes = sheet.subplots(len(bars), across, sharex=True, squeeze=False, gridspec_kw={"height_ratios": bars})
    for ax, bar_count in zip(axes.flat, (count for count in bars for _ in range(across)), strict=True):
        ax.set(xlim=(0.0, 100.0), ylim=(bar_count - 0.5, -0.5))
    labels = [label for ax, (row, found) in zip(axes.flat, placed, strict=False) for label in draw_plan(ax, row, found)]
    for ax in axes.flat[len(placed) :]:
        ax.remove()
    for ax in axes.flat[max(0, len(placed) - across) : len(placed)]:  # the lowest of each column
        ax.set_xlabel("Share of the GPU (%)")
        ax.tick_params(axis="x", labelbottom=True)
    plan_legend(sheet, instance, [piece for _, found in placed for piece in found])
    fit_labels(sheet, labels)
    return sheet


def draw_plan(ax: Axes, row: Row, found: Sequence[Piece]) -> list[Label]:
    """Draw the plan of ``row`` with its pieces ``found``, a bar per GPU; return the labels to be fitted."""
    count, used, violations = len(gpus(row)), row.gpus_used or 0, row.violations or 0
    ax.set_title(row.scheduler)
    ax.set_title(
        f"{gpu_count(used)}, ${row.cost_per_hour:.2f}/h, {violations} violation{'s' * (violations != 1)}",
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


def _draw_piece(ax: Axes, piece: Piece) -> Label:
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
        **(VIOLATION if piece.violating else {"edgecolor": "black", "linewidth": 0.5}),
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


def plan_legend(sheet: Page, instance: Instance, found: Sequence[Piece]) -> None:
    """Draw a legend at the top: the colours of the models, and how to read a label."""
    models = dict.fromkeys(workload.model for workload in instance.workloads)
    handles = [swatch(model_colour(model), model, edgecolor="black") for model in models]
    handles.append(swatch("white", "free", edgecolor=FREE_EDGE))
    if any(piece.violating for piece in found):
        handles.append(swatch("white", "violation", **VIOLATION))
    handles.append(swatch("none", "W3 b8: workload 3 in batches of 8", linewidth=0))
    with_legend(sheet, handles)


def draw_shares(figure: Figure, rows: Sequence[Row]) -> Page:
    """Draw the shares in the plans of ``rows``; see ``Figure.draw``."""
    plans, notes = plans_and_notes(figure, rows)
    instance = instances_of(figure.needs)[figure.needs[0].instances]
    placed = {scheduler: pieces(row, instance) for scheduler, row in plans.items()}
    sheet = page(FULL_WIDTH_IN, _SHARES_HEIGHT_IN, notes)
    ax = sheet.subplots()
    width, group = side_by_side(placed.items())
    for offset, (scheduler, found) in group:
        _draw_group(ax, instance, scheduler, found, offset, width)
    _label_workloads(ax, instance)
    handles = [swatch(scheduler_look(scheduler).colour, scheduler) for scheduler in placed]
    if any(piece.violating for found in placed.values() for piece in found):
        handles.append(swatch("white", "violation", **VIOLATION))
    return with_legend(sheet, handles, min(len(handles), 8))


def shares_pct(found: Sequence[Piece]) -> dict[str, float]:
    """Return the share of each workload in percent of a GPU, summed over GPUs; slots that take turns divide theirs."""
    shares: dict[str, float] = {}
    for piece in found:
        shares[piece.workload] = shares.get(piece.workload, 0.0) + piece.share_pct / piece.turns
    return shares


def _draw_group(
    ax: Axes, instance: Instance, scheduler: str, found: Sequence[Piece], offset: float, width: float
) -> None:
    shares = shares_pct(found)
    broken = {piece.workload for piece in found if piece.violating}
    colour = scheduler_look(scheduler).colour
    for x, workload in enumerate(instance.workloads):
        violating = workload.id in broken
        ax.bar(
            x + offset,
            shares.get(workload.id, 0.0),
            width,
            facecolor=pale(colour) if violating else colour,  # a hatch is visible on a pale bar only
            **(VIOLATION if violating else {"edgecolor": "white", "linewidth": 0.4}),
            zorder=3 if violating else 2,
        )


def _label_workloads(ax: Axes, instance: Instance) -> None:
    name_groups(ax, [workload.id for workload in instance.workloads])
    ax.set(ylabel="Share of a GPU (%)", ylim=(0.0, max(100.0, ax.get_ylim()[1])))
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
            ax.axvline(start - 0.5, color=FREE_EDGE, linewidth=0.5, linestyle=(0, (1, 2)))
        start = end
    below.set_xticks(middles, models)
    below.set_xlabel("Workload and its DNN model")


def draw_gpu_of(figure: Figure, rows: Sequence[Row], *, workload: str, paper: Mapping[str, str]) -> Page:
    """Draw the GPU of ``workload`` in each plan, beside the paper's placement by scheduler; see ``Figure.draw``."""
    plans, notes = plans_and_notes(figure, rows, others=False)
    instance = instances_of(figure.needs)[figure.needs[0].instances]
    sheet = page(COLUMN_IN, _SHARES_HEIGHT_IN, notes)
    ax = sheet.subplots()
    for place, (scheduler, row) in enumerate(plans.items()):
        _draw_gpu(ax, place, scheduler, beside(pieces(row, instance), workload), workload, paper[scheduler])
    ax.set_yticks(range(len(plans)), list(plans))
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0.0, 100.0), ylim=(len(plans) - 0.4, -0.6), xlabel="Share of the GPU (%)")
    handles = [
        swatch("#707070", workload),
        swatch(pale("#707070"), "its neighbours", edgecolor="white"),
        swatch("white", "violation", **VIOLATION),
    ]
    return with_legend(sheet, handles, 3)


def beside(found: Sequence[Piece], workload: str) -> list[Piece]:
    """Return the pieces on the first GPU that ``workload`` is on, its own included; none if it is nowhere."""
    gpu = next((piece.gpu for piece in found if piece.workload == workload), None)
    return [piece for piece in found if piece.gpu == gpu]


def _draw_gpu(ax: Axes, place: int, scheduler: str, found: Sequence[Piece], workload: str, paper: str) -> None:
    colour = scheduler_look(scheduler).colour
    for piece in found:
        own = piece.workload == workload
        face = colour if own and not piece.violating else pale(colour)
        ax.barh(
            place,
            piece.share_pct,
            0.55,
            left=piece.start_pct,
            facecolor=face,
            **(VIOLATION if piece.violating else {"edgecolor": "white", "linewidth": 0.5}),
            zorder=3 if piece.violating else 2,
        )
        text = "black" if lightness(face) > _LIGHT else "white"
        at = piece.start_pct + piece.share_pct / 2.0
        ax.text(at, place, piece.workload, ha="center", va="center", fontsize=6, color=text)
        if own:
            label = f"GPU{piece.gpu + 1}, {piece.share_pct:g} %; in the paper {paper}"
            ax.text(0.0, place - 0.3, label, va="bottom", fontsize=6)
