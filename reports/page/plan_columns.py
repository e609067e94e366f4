"""A plan as stacks: every GPU with the shares that were cut from it, one upon the other."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from bench.ledger.row import JsonObject, Row
from instances import Instance
from reports.placement import Piece, gpus, pieces


@dataclass(frozen=True, slots=True)
class GpuColumn:
    """A GPU of a plan with its slots; ``allocated_pct`` of it is given away, more than 100 if too much is."""

    type: str
    allocated_pct: float
    pieces: Sequence[Piece]


def stacks(row: Row, instance: Instance) -> list[GpuColumn]:
    """Return the GPUs of the row's plan for ``instance``; none without a plan."""
    on: dict[int, list[Piece]] = {}
    for piece in pieces(row, instance):
        on.setdefault(piece.gpu, []).append(piece)
    return [_stack(gpu["type"], on.get(position, [])) for position, gpu in enumerate(gpus(row))]


def _stack(gpu_type: str, found: Sequence[Piece]) -> GpuColumn:
    # Slots that take turns hold the same stretch.
    return GpuColumn(gpu_type, sum(piece.share_pct for piece in found if piece.turn == 0), found)


def boxes(pieces: Sequence[Piece], classes: Mapping[str, str]) -> Markup:
    """Return the slots of a GPU as the page draws them, with the CSS ``classes`` of their models.

    Written here, not in the template: a report has tens of thousands of them.
    """
    return Markup("").join([_box(piece, classes[piece.model]) for piece in pieces])


def _box(piece: Piece, css_class: str) -> Markup:
    marks = f"{css_class} bad" if piece.violating else css_class
    turns = f";--t:{piece.turn};--n:{piece.turns}" if piece.turns > 1 else ""
    place = f"--o:{piece.start_pct:g};--s:{piece.share_pct:g}{turns}"
    letters = f"--l:{len(piece.workload)}"  # for the style sheet, which leaves out what its box would cut
    text = f"<b>{escape(piece.workload)}</b> <small>{escape(piece.batch)}</small>"
    return Markup(f'<i class="{marks}" style="{place};{letters}">{text}</i>')  # noqa: S704 - what is the ledger's is escaped


def compact_plan(plan: JsonObject) -> list[list[Any]]:
    """Return the GPUs of a plan file in little space; ``assets/plans.js`` makes the file of it again.

    A GPU is ``[type, gpulet, ...]``, a gpulet ``[share_units, duty_cycle_ms, start, processes, slot, ...]`` and a slot
    ``[workload, batch, rate_rps]``; what the plan file leaves out is ``None``.
    """
    return [[gpu["type"], *(_compact_gpulet(gpulet) for gpulet in gpu["gpulets"])] for gpu in plan["gpus"]]


def _compact_gpulet(gpulet: JsonObject) -> list[Any]:
    slots = [[slot["workload"], slot["batch"], slot["rate_rps"]] for slot in gpulet["slots"]]
    return [gpulet["share_units"], gpulet.get("duty_cycle_ms"), gpulet.get("start"), gpulet.get("processes"), *slots]
