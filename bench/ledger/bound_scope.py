"""Plans for which a bound holds."""

from dataclasses import dataclass
from typing import Self

from bench.ledger.row import JsonObject, Row
from instances import PlanClass
from instances.performance.gpulet import GpuletModel


@dataclass(frozen=True, slots=True)
class Reach:
    """Extent of a plan, which must lie within the scope of a bound for the bound to hold: see ``Row.bound_scope``.

    Attributes
    ----------
    shares
        Shares of all gpulets, in units.
    slots_per_gpulet, max_batch
        Largest number of slots on a gpulet, and largest batch.
    gpulets_per_gpu
        Largest number of gpulets on a GPU.
    """

    shares: frozenset[int]
    slots_per_gpulet: int
    max_batch: int
    gpulets_per_gpu: int

    @classmethod
    def of(cls, plan: JsonObject) -> Self:
        """Return the extent of a plan in the ledger's JSON form."""
        gpulets = [gpulet for gpu in plan["gpus"] for gpulet in gpu["gpulets"]]
        return cls(
            frozenset([gpulet["share_units"] for gpulet in gpulets]),
            max([len(gpulet["slots"]) for gpulet in gpulets], default=0),
            max([slot["batch"] for gpulet in gpulets for slot in gpulet["slots"]], default=0),
            max([len(gpu["gpulets"]) for gpu in plan["gpus"]], default=0),
        )

    def to_json(self) -> JsonObject:
        """Return the extent as JSON values."""
        return {
            "shares": sorted(self.shares),
            "slots_per_gpulet": self.slots_per_gpulet,
            "max_batch": self.max_batch,
            "gpulets_per_gpu": self.gpulets_per_gpu,
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> Self:
        """Return the extent from the result of ``to_json``."""
        return cls(frozenset(data["shares"]), data["slots_per_gpulet"], data["max_batch"], data["gpulets_per_gpu"])


def covers(scope: JsonObject, row: Row, reach: Reach | None) -> bool:
    """Return whether a bound of ``scope`` holds for the plan of ``row``, whose extent is ``reach``."""
    if reach is None or row.plan_class is None:
        return False
    if row.performance_model == GpuletModel.name and reach.gpulets_per_gpu > 2:
        return False  # with pairwise interference, exact methods consider at most two gpulets per GPU
    allowed, max_batch = scope["allowed_shares"], scope["max_batch"]
    return (
        PlanClass(scope["plan_class"]).contains(row.plan_class)
        and (allowed is None or reach.shares <= set(allowed))
        and reach.slots_per_gpulet <= scope["slots_per_gpulet"]
        and (max_batch is None or reach.max_batch <= max_batch)
    )
