"""A plan: GPUs, the gpulets on them, and the slots of each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum


class PlanClass(StrEnum):
    """Plan classes, from the narrowest to the widest."""

    SPATIAL = "spatial"
    SPLIT = "split"
    SPATIO_TEMPORAL = "spatio-temporal"

    def contains(self, other: "PlanClass") -> bool:
        """Return whether every plan of class ``other`` is also of this class."""
        ascending = list(PlanClass)
        return ascending.index(other) <= ascending.index(self)


@dataclass(frozen=True, slots=True)
class Slot:
    """A workload on a gpulet, with its batch and the rate served there."""

    workload: str
    batch: int
    rate_rps: float


@dataclass(frozen=True, slots=True)
class Gpulet:
    """A share of one GPU, in whole units; several slots take turns within ``duty_cycle_ms``.

    A MIG instance is a gpulet of ``share_units`` compute slices that begins at position ``start`` of its GPU and runs
    ``processes`` processes of its one slot's model side by side.
    """

    share_units: int
    slots: tuple[Slot, ...]
    duty_cycle_ms: float | None = None
    start: int | None = None
    processes: int = 1


@dataclass(frozen=True, slots=True)
class PlacedGpu:
    """One GPU of a plan: its type and its gpulets."""

    type: str
    gpulets: tuple[Gpulet, ...]

    @property
    def share_units(self) -> int:
        """Units allocated on this GPU."""
        return sum(gpulet.share_units for gpulet in self.gpulets)

    def with_slots(self, change: Callable[[Slot], Slot]) -> "PlacedGpu":
        """Return this GPU after ``change`` of every slot."""
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

        def scaled(slot: Slot) -> Slot:
            return replace(slot, rate_rps=slot.rate_rps * factor[slot.workload])

        return replace(self, gpus=tuple(gpu.with_slots(scaled) for gpu in self.gpus))

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
