"""A plan as pieces to draw: who holds which stretch of which GPU, and which of them break a constraint."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from instances.catalogue import gpu_type
from instances.files import plan_from_json
from instances.instance import Instance

if TYPE_CHECKING:
    from bench.row import JsonObject, Row


@dataclass(frozen=True, slots=True)
class Piece:
    """One slot of a plan.

    Attributes
    ----------
    gpu
        Position of its GPU in the plan.
    start_pct, share_pct
        Where its gpulet begins on the GPU, and how much of the GPU it is, in percent.
    turn, turns
        Which of the gpulet's slots it is, from 0, and how many take turns there.
    workload, model, batch
        Who runs there.
    violating
        Whether the judge found a broken constraint there.
    """

    gpu: int
    start_pct: float
    share_pct: float
    turn: int
    turns: int
    workload: str
    model: str
    batch: int
    violating: bool


def pieces(row: "Row", instance: Instance) -> list[Piece]:
    """Return the slots of the row's plan for ``instance``, in plan order; none without a plan.

    A violation that the judge ascribes to a whole GPU, or to a workload wherever it runs, marks all its pieces.
    """
    if row.plan is None:
        return []
    broken = {(detail["gpu"], detail["workload"]) for detail in row.violation_details} - {(None, None)}
    found = []
    for position, gpu in enumerate(plan_from_json(row.plan).gpus):
        start_pct = 0.0
        for gpulet in gpu.gpulets:
            share_pct = gpu_type(gpu.type).share_pct(gpulet.share_units)
            for turn, slot in enumerate(gpulet.slots):
                model = instance.workloads[instance.workload_index[slot.workload]].model
                marks = {(position, slot.workload), (position, None), (None, slot.workload)}
                piece = Piece(
                    position,
                    start_pct,
                    share_pct,
                    turn,
                    len(gpulet.slots),
                    slot.workload,
                    model,
                    slot.batch,
                    bool(marks & broken),
                )
                found.append(piece)
            start_pct += share_pct
    return found


def gpus(row: "Row") -> "Sequence[JsonObject]":
    """Return the GPUs of the row's plan as the ledger has them; none without a plan."""
    return row.plan["gpus"] if row.plan is not None else ()
