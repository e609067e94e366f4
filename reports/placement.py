"""Pieces of a plan to draw: the position of each slot on its GPU, and its violations."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from bench.ledger.row import Row
from instances.errors import InputError, printable
from instances.instance import Instance, Objective
from instances.plan import Gpulet, PlacedGpu


@dataclass(frozen=True, slots=True)
class Piece:
    """One slot of a plan.

    Attributes
    ----------
    gpu
        Position of its GPU in the plan.
    start_pct, share_pct
        Start and length of its gpulet on the GPU, in percent.
    turn, turns
        Position among the gpulet's slots, from 0, and number of slots that take turns.
    violating
        Whether the judge found a violation there.
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


def pieces(row: Row, instance: Instance) -> list[Piece]:
    """Return the slots of the row's plan for ``instance``, in plan order; none without a plan.

    A violation of a whole GPU, or of a workload anywhere, marks all its pieces. Jobs (``colocation``) all have the
    whole GPU; their pieces are equal parts of it.

    Raises
    ------
    InputError
        If the plan places a workload that ``instance`` lacks; ledgers may come from other people.
    """
    broken = {(detail["gpu"], detail["workload"]) for detail in row.violation_details} - {(None, None)}
    found = []
    for position, gpu in enumerate(gpus(row)):
        for start_pct, share_pct, gpulet in _stretches(gpu, instance):
            for turn, slot in enumerate(gpulet.slots):
                workload = slot.workload
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
                    len(gpulet.slots),
                    workload,
                    instance.model_of[workload],
                    slot.batch,
                    bool(marks & broken),
                )
                found.append(piece)
    return found


def _stretches(gpu: PlacedGpu, instance: Instance) -> Iterator[tuple[float, float, Gpulet]]:
    """Yield every gpulet of a GPU after its start and length, both in percent of the GPU."""
    pool, gpulets = instance.pool(gpu.type), gpu.gpulets
    whole = gpu.share_units if pool is None else pool.type.share_units
    if instance.objective is Objective.COLOCATION:
        whole = len(gpulets) * whole
    units = 0
    for gpulet in gpulets:
        start = units if gpulet.start is None else gpulet.start  # MIG instances have fixed positions
        yield 100.0 * start / whole, 100.0 * gpulet.share_units / whole, gpulet
        units += gpulet.share_units


def gpus(row: Row) -> Sequence[PlacedGpu]:
    """Return the GPUs of the row's plan; none without a plan."""
    return row.plan.gpus if row.plan is not None else ()
