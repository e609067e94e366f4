"""Columns of a plan: one for each GPU, with its slots stacked by share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from bench.ledger.row import Row
from instances import Gpulet, Instance, Plan
from instances.grouping import grouped
from instances.plan import PlacedGpu
from reports.placement import Piece, gpus, pieces


@dataclass(frozen=True, slots=True)
class GpuColumn:
    """A GPU of a plan with its slots; ``allocated_pct`` is above 100 if the shares sum to more than the GPU."""

    type: str
    allocated_pct: float
    pieces: Sequence[Piece]


def gpu_columns(row: Row, instance: Instance) -> list[GpuColumn]:
    """Return the GPUs of the row's plan for ``instance``; none without a plan."""
    return columns_of(gpus(row), pieces(row, instance))


def columns_of(placed_gpus: Sequence[PlacedGpu], placed_pieces: Iterable[Piece]) -> list[GpuColumn]:
    """Return the columns of GPUs with their pieces."""
    pieces_of = grouped((piece.gpu, piece) for piece in placed_pieces)
    columns = []
    for position, gpu in enumerate(placed_gpus):
        gpu_pieces = pieces_of.get(position, [])
        # Slots that take turns have the same share, which counts once.
        allocated_pct = sum(piece.share_pct for piece in gpu_pieces if piece.turn == 0)
        columns.append(GpuColumn(gpu.type, allocated_pct, gpu_pieces))
    return columns


def boxes(pieces: Sequence[Piece], classes: Mapping[str, str]) -> Markup:
    """Return the HTML of a GPU's slots; ``classes`` are CSS classes by model.

    A report has tens of thousands of slots, and a template would be slow.
    """
    return Markup("").join([_box(piece, classes[piece.model]) for piece in pieces])


def _box(piece: Piece, css_class: str) -> Markup:
    css_classes = f"{css_class} bad" if piece.violating else css_class
    # Properties for the style sheet: offset and share in percent, turn and number of turns, length of the label
    turns = f";--t:{piece.turn};--n:{piece.turns}" if piece.turns > 1 else ""
    position = f"--o:{piece.start_pct:g};--s:{piece.share_pct:g}{turns}"
    label_length = f"--l:{len(piece.workload)}"  # the style sheet hides labels that do not fit
    text = f"<b>{escape(piece.workload)}</b> <small>{escape(piece.batch)}</small>"
    return Markup(f'<i class="{css_classes}" style="{position};{label_length}">{text}</i>')  # noqa: S704 - the ledger's texts are escaped


def compact_plan(plan: Plan) -> list[list[Any]]:
    """Return the GPUs of a plan in compact form, from which ``assets/instance.js`` restores the plan file.

    A GPU is ``[type, gpulet, ...]``, a gpulet ``[share_units, duty_cycle_ms, start, processes, slot, ...]`` and a slot
    ``[workload, batch, rate_rps]``; fields that the plan file omits are ``None``.
    """
    return [[gpu.type, *map(_compact_gpulet, gpu.gpulets)] for gpu in plan.gpus]


def _compact_gpulet(gpulet: Gpulet) -> list[Any]:
    slots = [[slot.workload, slot.batch, slot.rate_rps] for slot in gpulet.slots]
    processes = None if gpulet.start is None and gpulet.processes == 1 else gpulet.processes
    return [gpulet.share_units, gpulet.duty_cycle_ms, gpulet.start, processes, *slots]
