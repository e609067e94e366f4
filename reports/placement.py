"""Pieces of a plan to draw: the position of each slot on its GPU, and its violations."""

from collections.abc import Collection, Iterator, Sequence
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
        Position of the slot's GPU in the plan, from 0.
    start_pct, share_pct
        Start and length of the slot's gpulet on the GPU, in percent of the GPU.
    turn, turns
        Position among the gpulet's slots, from 0, and number of these slots, which take turns.
    violating
        Whether the judge found a violation at this slot.
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

    A violation that names only a GPU marks all pieces of the GPU; one that names only a workload marks all pieces of
    the workload. Jobs (``colocation``) share the whole GPU; their pieces are equal parts of it.

    Raises
    ------
    InputError
        If the plan places a workload that ``instance`` lacks. This can occur in a ledger from somebody else.
    """
    violated_places = {(detail["gpu"], detail["workload"]) for detail in row.violation_details} - {(None, None)}
    for workload in (slot.workload for gpu in gpus(row) for gpulet in gpu.gpulets for slot in gpulet.slots):
        if workload not in instance.model_of:
            raise InputError(
                f"run {row.key[:12]}: plan", printable(f'places "{workload}", which {instance.name} lacks')
            )
    return pieces_on(gpus(row), instance, violated_places)


def pieces_on(
    placed_gpus: Sequence[PlacedGpu],
    instance: Instance,
    violated_places: Collection[tuple[int | None, str | None]] = (),
) -> list[Piece]:
    """Return the slots of GPUs, in their order; see ``pieces``.

    A violated place has the position of a GPU and the id of a workload. The instance must have all workloads.
    """
    placed_pieces = []
    for gpu_position, gpu in enumerate(placed_gpus):
        for start_pct, share_pct, gpulet in _gpulet_spans(gpu, instance):
            for turn, slot in enumerate(gpulet.slots):
                workload = slot.workload
                piece_places = {(gpu_position, workload), (gpu_position, None), (None, workload)}
                piece = Piece(
                    gpu_position,
                    start_pct,
                    share_pct,
                    turn,
                    len(gpulet.slots),
                    workload,
                    instance.model_of[workload],
                    slot.batch,
                    not piece_places.isdisjoint(violated_places),
                )
                placed_pieces.append(piece)
    return placed_pieces


def _gpulet_spans(gpu: PlacedGpu, instance: Instance) -> Iterator[tuple[float, float, Gpulet]]:
    """Yield start, length and gpulet for every gpulet of a GPU; start and length are in percent of the GPU."""
    pool, gpulets = instance.pool(gpu.type), gpu.gpulets
    gpu_units = gpu.share_units if pool is None else pool.type.share_units
    if instance.objective is Objective.COLOCATION:
        gpu_units = len(gpulets) * gpu_units
    allocated_units = 0
    for gpulet in gpulets:
        start_unit = allocated_units if gpulet.start is None else gpulet.start  # MIG instances have fixed positions
        yield 100.0 * start_unit / gpu_units, 100.0 * gpulet.share_units / gpu_units, gpulet
        allocated_units += gpulet.share_units


def gpus(row: Row) -> Sequence[PlacedGpu]:
    """Return the GPUs of the row's plan; none without a plan."""
    return row.plan.gpus if row.plan is not None else ()
