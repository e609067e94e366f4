"""A plan: GPUs, the gpulets on them, and the slots of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from instances.ranges import NAME, POSITION, POSITIVE, WHOLE


class PlanClass(StrEnum):
    """Plan classes, from the narrowest to the widest.

    ``spatial``: one slot per gpulet, and one per workload. ``split``: one slot per gpulet. ``spatio-temporal``: any.
    """

    SPATIAL = "spatial"
    SPLIT = "split"
    SPATIO_TEMPORAL = "spatio-temporal"

    def contains(self, other: "PlanClass") -> bool:
        """Return whether every plan of the class ``other`` is also in this class."""
        from_narrowest = list(PlanClass)
        return from_narrowest.index(other) <= from_narrowest.index(self)


@dataclass(frozen=True, slots=True)
class Slot:
    """A workload on a gpulet, with its batch and rate."""

    workload: str = field(metadata=NAME | {"description": "Id of the workload.", "examples": ["w1"]})
    batch: int = field(metadata=WHOLE | {"description": "Requests per batch.", "examples": [4]})
    rate_rps: float = field(
        metadata=POSITIVE | {"description": "Rate served here, in requests per second.", "examples": [500]}
    )


@dataclass(frozen=True, slots=True)
class Gpulet:
    """A part of one GPU with its own share, or one MIG instance; several slots take turns."""

    share_units: int = field(
        metadata=WHOLE
        | {
            "description": "Share, in units of the GPU type (V100: 40 units of 2.5 %; MIG: 7 compute slices).",
            "examples": [15],
        }
    )
    slots: tuple[Slot, ...] = field(metadata={"min_length": 1, "description": "Slots of this gpulet."})
    duty_cycle_ms: float | None = field(
        default=None,
        metadata=POSITIVE
        | {
            "description": "Period in which every slot runs once, in milliseconds; needed with several slots.",
            "examples": [None, 20],
        },
    )
    start: int | None = field(
        default=None,
        metadata=POSITION
        | {
            "description": "MIG only, required there: position at which the MIG instance begins.",
            "examples": [None, 4],
        },
    )
    processes: int = field(
        default=1,
        metadata=WHOLE | {"description": "MIG only: processes side by side in the MIG instance.", "examples": [1, 3]},
    )


@dataclass(frozen=True, slots=True)
class PlacedGpu:
    """One GPU of a plan."""

    type: str = field(metadata=NAME | {"description": "Name of the GPU type in the catalogue.", "examples": ["v100"]})
    gpulets: tuple[Gpulet, ...] = field(metadata={"description": "The gpulets on this GPU."})

    @property
    def share_units(self) -> int:
        """Units allocated on this GPU."""
        return sum(gpulet.share_units for gpulet in self.gpulets)

    def with_slots(self, change: Callable[[Slot], Slot]) -> "PlacedGpu":
        """Return this GPU with ``change`` applied to every slot."""
        gpulets = (replace(gpulet, slots=tuple(map(change, gpulet.slots))) for gpulet in self.gpulets)
        return replace(self, gpulets=tuple(gpulets))


@dataclass(frozen=True, slots=True)
class Plan:
    """GPUs, the gpulets on them, and the slots of each.

    Attributes
    ----------
    instance
        Name of the instance that the plan solves.
    gpus
        The GPUs; a GPU without gpulets does not count as used.
    """

    instance: str
    gpus: tuple[PlacedGpu, ...]

    def slots(self) -> Iterator[tuple[int, Gpulet, Slot]]:
        """Yield (GPU position, gpulet, slot) for every slot."""
        for position, gpu in enumerate(self.gpus):
            for gpulet in gpu.gpulets:
                for slot in gpulet.slots:
                    yield position, gpulet, slot

    def scaled(self, factor: Mapping[str, float]) -> "Plan":
        """Return the plan with the rates of every workload multiplied by its factor."""

        def scaled_slot(slot: Slot) -> Slot:
            return replace(slot, rate_rps=slot.rate_rps * factor[slot.workload])

        return replace(self, gpus=tuple(gpu.with_slots(scaled_slot) for gpu in self.gpus))

    @property
    def plan_class(self) -> PlanClass:
        """The narrowest class that contains this plan."""
        if any(
            len(gpulet.slots) > 1 or gpulet.duty_cycle_ms is not None for gpu in self.gpus for gpulet in gpu.gpulets
        ):
            return PlanClass.SPATIO_TEMPORAL
        ids = [slot.workload for _, _, slot in self.slots()]
        return PlanClass.SPATIAL if len(ids) == len(set(ids)) else PlanClass.SPLIT

    @property
    def gpus_used(self) -> int:
        """Number of GPUs with at least one gpulet."""
        return sum(1 for gpu in self.gpus if gpu.gpulets)


def spatial_gpu(gpu_type: str, residents: Sequence[tuple[str, int, int, float]]) -> PlacedGpu:
    """Build a GPU of single-slot gpulets from (workload, share_units, batch, rate_rps) rows."""
    return PlacedGpu(
        gpu_type,
        tuple(Gpulet(units, (Slot(workload, batch, rate),)) for workload, units, batch, rate in residents),
    )
