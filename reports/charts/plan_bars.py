"""Pictures of plans: bars of GPUs with a piece for each slot, and bars of the shares of workloads."""

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
    """One possible text, size and rotation of a label."""

    text: str
    size_pt: float
    rotation_deg: float = 0.0


def fit_labels(sheet: Page, labels: Iterable[tuple[Text, Rectangle, Sequence[Wording]]]) -> None:
    """Write each label in its first wording that fits into its box; the label stays empty if none fits.

    Call this function last, because later additions to the page move the boxes.
    """
    sheet.draw_without_rendering()  # computes the layout
    for text, box, wordings in labels:
        box_extent = box.get_window_extent()
        for wording in (*wordings, Wording("", 1.0)):
            text.set(text=wording.text, fontsize=wording.size_pt, rotation=wording.rotation_deg)
            text_extent = text.get_window_extent()
            if text_extent.width <= box_extent.width and text_extent.height <= box_extent.height:
                break


Label: TypeAlias = tuple[Text, Rectangle, list[Wording]]

BAR_IN = 0.24
"""Height of a GPU's bar on the page, in inches."""

HEADER_IN = 0.26
"""Height of a plan's title on the page, in inches."""

FREE_EDGE = "#B5B5B5"
VIOLATION: dict[str, Any] = {"edgecolor": ALARM, "linewidth": ALARM_EDGE, "hatch": ALARM_HATCH}
"""Edge and hatch of a box with a violation."""

_LIGHTNESS_FOR_BLACK = 55.0
"""Lightness of a colour above which text on the colour is black."""

_BAR_THICKNESS = 0.8
"""Thickness of a GPU's bar, as a fraction of the distance between bars."""

_MARGINS_IN = 0.58
_SHARES_HEIGHT_IN = 2.1


def draw_plans(
    figure: Figure,
    rows: Sequence[Row],
    *,
    plans_per_row: int = 2,
    notes: Sequence[str] = (),
    others: bool = True,
) -> Page:
    """Draw the plans in ``rows`` for the instance of the figure's first need; see ``Figure.draw``.

    Parameters
    ----------
    plans_per_row
        Number of plans side by side.
    notes
        Notes below the plans.
    others
        Whether plans of schedulers outside the figure's needs are also drawn.
    """
    plans, missing = plans_and_notes(figure, rows, others)
    lines = [*missing, *notes]
    instance = instances_of(figure.needs)[figure.needs[0].instances]
    placed_plans = [(row, pieces(row, instance)) for row in plans.values()]
    plan_rows = [placed_plans[start : start + plans_per_row] for start in range(0, len(placed_plans), plans_per_row)]
    bar_counts = [max(1, *(len(gpus(row)) for row, _ in plan_row)) for plan_row in plan_rows]
    height_in = sum(bar_counts) * BAR_IN + len(bar_counts) * HEADER_IN + _MARGINS_IN
    sheet = page(FULL_WIDTH_IN, height_in, lines)
    axes = sheet.subplots(
        len(bar_counts), plans_per_row, sharex=True, squeeze=False, gridspec_kw={"height_ratios": bar_counts}
    )
    for ax, bar_count in zip(axes.flat, (count for count in bar_counts for _ in range(plans_per_row)), strict=True):
        ax.set(xlim=(0.0, 100.0), ylim=(bar_count - 0.5, -0.5))
    labels = [
        label
        for ax, (row, plan_pieces) in zip(axes.flat, placed_plans, strict=False)
        for label in draw_plan(ax, row, plan_pieces)
    ]
    for ax in axes.flat[len(placed_plans) :]:
        ax.remove()
    lowest_of_columns = axes.flat[max(0, len(placed_plans) - plans_per_row) : len(placed_plans)]
    for ax in lowest_of_columns:
        ax.set_xlabel("Share of the GPU (%)")
        ax.tick_params(axis="x", labelbottom=True)
    plan_legend(sheet, instance, [piece for _, plan_pieces in placed_plans for piece in plan_pieces])
    fit_labels(sheet, labels)
    return sheet


def draw_plan(ax: Axes, row: Row, plan_pieces: Sequence[Piece]) -> list[Label]:
    """Draw the plan of ``row``, a bar per GPU, and return its labels for ``fit_labels``."""
    count, gpus_used, violations = len(gpus(row)), row.gpus_used or 0, row.violations or 0
    ax.set_title(row.scheduler)
    ax.set_title(
        f"{gpu_count(gpus_used)}, ${row.cost_per_hour:.2f}/h, {violations} violation{'s' * (violations != 1)}",
        loc="right",
        fontweight="normal",
        color=ALARM if violations else "black",
    )
    ax.set_xlim(0.0, max([ax.get_xlim()[1], *(piece.start_pct + piece.share_pct for piece in plan_pieces)]))
    ax.set_yticks(range(count), [f"GPU{gpu + 1}" for gpu in range(count)])
    ax.tick_params(axis="y", length=0, labelleft=True)
    ax.spines["left"].set_visible(False)
    # The white background is visible where a share is free.
    ax.barh(range(count), 100.0, _BAR_THICKNESS, color="white", edgecolor=FREE_EDGE)
    # Violating pieces are drawn last, so that no other piece covers their edges.
    return [_draw_piece(ax, piece) for piece in sorted(plan_pieces, key=lambda piece: piece.violating)]


def _draw_piece(ax: Axes, piece: Piece) -> Label:
    """Draw a slot; its length is its share. Slots that take turns divide the thickness of the bar."""
    colour = model_colour(piece.model)
    thickness = _BAR_THICKNESS / piece.turns
    middle = piece.gpu + (piece.turn - (piece.turns - 1) / 2.0) * thickness
    (bar,) = ax.barh(
        middle,
        piece.share_pct,
        thickness,
        left=piece.start_pct,
        facecolor=colour,
        **(VIOLATION if piece.violating else {"edgecolor": "black", "linewidth": 0.5}),
        clip_on=False,  # keeps the whole edge at the end of the GPU
    )
    hatch_cover = {"facecolor": colour, "edgecolor": "none", "pad": 0.6}
    text = ax.text(
        piece.start_pct + piece.share_pct / 2.0,
        middle,
        "",
        ha="center",
        va="center_baseline" if piece.turns > 1 else "center",
        linespacing=1.0,
        bbox=hatch_cover if piece.violating else None,
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


def plan_legend(sheet: Page, instance: Instance, drawn_pieces: Sequence[Piece]) -> None:
    """Draw a legend at the top: the colours of the models, and the meaning of a label."""
    models = dict.fromkeys(workload.model for workload in instance.workloads)
    handles = [swatch(model_colour(model), model, edgecolor="black") for model in models]
    handles.append(swatch("white", "free", edgecolor=FREE_EDGE))
    if any(piece.violating for piece in drawn_pieces):
        handles.append(swatch("white", "violation", **VIOLATION))
    handles.append(swatch("none", "W3 b8: workload 3 in batches of 8", linewidth=0))
    with_legend(sheet, handles)


def draw_shares(figure: Figure, rows: Sequence[Row]) -> Page:
    """Draw the shares in the plans of ``rows``; see ``Figure.draw``."""
    plans, notes = plans_and_notes(figure, rows)
    instance = instances_of(figure.needs)[figure.needs[0].instances]
    pieces_of = {scheduler: pieces(row, instance) for scheduler, row in plans.items()}
    sheet = page(FULL_WIDTH_IN, _SHARES_HEIGHT_IN, notes)
    ax = sheet.subplots()
    width, group = side_by_side(pieces_of.items())
    for offset, (scheduler, plan_pieces) in group:
        _draw_group(ax, instance, scheduler, plan_pieces, offset, width)
    _label_workloads(ax, instance)
    handles = [swatch(scheduler_look(scheduler).colour, scheduler) for scheduler in pieces_of]
    if any(piece.violating for plan_pieces in pieces_of.values() for piece in plan_pieces):
        handles.append(swatch("white", "violation", **VIOLATION))
    return with_legend(sheet, handles, min(len(handles), 8))


def shares_pct(plan_pieces: Sequence[Piece]) -> dict[str, float]:
    """Return the share of each workload in percent of a GPU, summed over GPUs.

    Slots that take turns divide the share of their gpulet equally.
    """
    shares: dict[str, float] = {}
    for piece in plan_pieces:
        shares[piece.workload] = shares.get(piece.workload, 0.0) + piece.share_pct / piece.turns
    return shares


def _draw_group(
    ax: Axes, instance: Instance, scheduler: str, plan_pieces: Sequence[Piece], offset: float, width: float
) -> None:
    shares = shares_pct(plan_pieces)
    violating_workloads = {piece.workload for piece in plan_pieces if piece.violating}
    colour = scheduler_look(scheduler).colour
    for x, workload in enumerate(instance.workloads):
        violating = workload.id in violating_workloads
        ax.bar(
            x + offset,
            shares.get(workload.id, 0.0),
            width,
            facecolor=pale(colour) if violating else colour,  # a hatch is visible only on a pale bar
            **(VIOLATION if violating else {"edgecolor": "white", "linewidth": 0.4}),
            zorder=3 if violating else 2,
        )


def _label_workloads(ax: Axes, instance: Instance) -> None:
    name_groups(ax, [workload.id for workload in instance.workloads])
    ax.set(ylabel="Share of a GPU (%)", ylim=(0.0, max(100.0, ax.get_ylim()[1])))
    first = 0
    model_axis = ax.secondary_xaxis(-0.1)
    model_axis.spines["bottom"].set_visible(False)
    model_axis.tick_params(axis="x", length=0)
    middles, models = [], []
    for model, same_model in groupby(workload.model for workload in instance.workloads):
        after_last = first + len(list(same_model))
        middles.append((first + after_last - 1) / 2.0)
        models.append(model)
        if first:
            ax.axvline(first - 0.5, color=FREE_EDGE, linewidth=0.5, linestyle=(0, (1, 2)))
        first = after_last
    model_axis.set_xticks(middles, models)
    model_axis.set_xlabel("Workload and its DNN model")


def draw_gpu_of(figure: Figure, rows: Sequence[Row], *, workload: str, paper: Mapping[str, str]) -> Page:
    """Draw the GPU of ``workload`` in each plan; see ``Figure.draw``.

    ``paper`` has the paper's placement of the workload in words, by scheduler.
    """
    plans, notes = plans_and_notes(figure, rows, others=False)
    instance = instances_of(figure.needs)[figure.needs[0].instances]
    sheet = page(COLUMN_IN, _SHARES_HEIGHT_IN, notes)
    ax = sheet.subplots()
    for position, (scheduler, row) in enumerate(plans.items()):
        _draw_gpu(
            ax, position, scheduler, pieces_on_gpu_of(pieces(row, instance), workload), workload, paper[scheduler]
        )
    ax.set_yticks(range(len(plans)), list(plans))
    ax.tick_params(axis="y", length=0)
    ax.set(xlim=(0.0, 100.0), ylim=(len(plans) - 0.4, -0.6), xlabel="Share of the GPU (%)")
    handles = [
        swatch("#707070", workload),
        swatch(pale("#707070"), "its neighbours", edgecolor="white"),
        swatch("white", "violation", **VIOLATION),
    ]
    return with_legend(sheet, handles, 3)


def pieces_on_gpu_of(plan_pieces: Sequence[Piece], workload: str) -> list[Piece]:
    """Return all pieces on the first GPU of ``workload``; an empty list if the workload has no GPU."""
    gpu = next((piece.gpu for piece in plan_pieces if piece.workload == workload), None)
    return [piece for piece in plan_pieces if piece.gpu == gpu]


def _draw_gpu(ax: Axes, position: int, scheduler: str, gpu_pieces: Sequence[Piece], workload: str, paper: str) -> None:
    colour = scheduler_look(scheduler).colour
    for piece in gpu_pieces:
        is_workload = piece.workload == workload
        face = colour if is_workload and not piece.violating else pale(colour)
        ax.barh(
            position,
            piece.share_pct,
            0.55,
            left=piece.start_pct,
            facecolor=face,
            **(VIOLATION if piece.violating else {"edgecolor": "white", "linewidth": 0.5}),
            zorder=3 if piece.violating else 2,
        )
        text_colour = "black" if lightness(face) > _LIGHTNESS_FOR_BLACK else "white"
        middle_pct = piece.start_pct + piece.share_pct / 2.0
        ax.text(middle_pct, position, piece.workload, ha="center", va="center", fontsize=6, color=text_colour)
        if is_workload:
            label = f"GPU{piece.gpu + 1}, {piece.share_pct:g} %; in the paper {paper}"
            ax.text(0.0, position - 0.3, label, va="bottom", fontsize=6)
