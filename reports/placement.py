"""A plan as pieces to draw: who holds which stretch of which GPU, and which of them break a constraint."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.ledger.row import JsonObject, Row
from instances.errors import InputError, printable
from instances.instance import Instance, Objective


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

    A violation that the judge ascribes to a whole GPU, or to a workload wherever it runs, marks all its pieces. Jobs,
    each of which has the whole of its GPU (``colocation``), are drawn as equal parts of it.

    Raises
    ------
    InputError
        If the plan places what ``instance`` does not have: a ledger may come from anybody.
    """
    broken = {(detail["gpu"], detail["workload"]) for detail in row.violation_details} - {(None, None)}
    found = []
    for position, gpu in enumerate(gpus(row)):
        for start_pct, share_pct, gpulet in _stretches(gpu, instance):
            for turn, slot in enumerate(gpulet["slots"]):
                workload = slot["workload"]
                if workload not in instance.model_of:
                    raise InputError(
                        f"run {row.key[:12]}: plan", printable(f'places "{workload}", which {instance.name} lacks')
                    )
                marks = {(position, workload), (position, None), (None, workload)}
                piece = Piece(
                    position,
                    start_pct,
                    share_pct,
                    turn,
                    len(gpulet["slots"]),
                    workload,
                    instance.model_of[workload],
                    slot["batch"],
                    bool(marks & broken),
                )
                found.append(piece)
    return found


def _stretches(gpu: "JsonObject", instance: Instance) -> "Iterator[tuple[float, float, JsonObject]]":
    """Yield where every gpulet of a GPU begins and how long it is, in percent of the GPU."""
    pool, gpulets = instance.pool(gpu["type"]), gpu["gpulets"]
    whole = sum(gpulet["share_units"] for gpulet in gpulets) if pool is None else pool.type.share_units
    if instance.objective is Objective.COLOCATION:
        whole = len(gpulets) * whole
    units = 0
    for gpulet in gpulets:
        start = gpulet.get("start")  # MIG instances have their places
        yield 100.0 * (units if start is None else start) / whole, 100.0 * gpulet["share_units"] / whole, gpulet
        units += gpulet["share_units"]


def gpus(row: "Row") -> "Sequence[JsonObject]":
    """Return the GPUs of the row's plan as the ledger has them; none without a plan."""
    return row.plan["gpus"] if row.plan is not None else ()
