"""Plans for which a bound holds."""

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import Self

from bench.ledger.row import JsonObject, Row
from instances import PART_STEPS, PlanClass
from instances.performance.gpulet import GpuletModel

ROUNDING = 1e-9
"""Distance from a whole number that counts as rounding."""


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
    split_workloads
        Workloads that several slots serve.
    part_steps
        Least number n up to ``PART_STEPS`` such that each slot of a split workload has a multiple of 1 / n of its
        workload's planned rate; ``None`` if there is none.
    parts_apart
        Whether no GPU has two slots of one workload.
    """

    shares: frozenset[int]
    slots_per_gpulet: int
    max_batch: int
    gpulets_per_gpu: int
    split_workloads: frozenset[str]
    part_steps: int | None
    parts_apart: bool

    @classmethod
    def of(cls, plan: JsonObject) -> Self:
        """Return the extent of a plan in the ledger's JSON form."""
        gpulets = [gpulet for gpu in plan["gpus"] for gpulet in gpu["gpulets"]]
        rates: dict[str, list[float]] = defaultdict(list)
        for slot in (slot for gpulet in gpulets for slot in gpulet["slots"]):
            rates[slot["workload"]].append(slot["rate_rps"])
        by_gpu = [[slot["workload"] for gpulet in gpu["gpulets"] for slot in gpulet["slots"]] for gpu in plan["gpus"]]
        split = {workload: each for workload, each in rates.items() if len(each) > 1}
        parts = [rate / math.fsum(each) for each in split.values() for rate in each]
        return cls(
            frozenset([gpulet["share_units"] for gpulet in gpulets]),
            max([len(gpulet["slots"]) for gpulet in gpulets], default=0),
            max([slot["batch"] for gpulet in gpulets for slot in gpulet["slots"]], default=0),
            max([len(gpu["gpulets"]) for gpu in plan["gpus"]], default=0),
            frozenset(split),
            next((n for n in range(1, PART_STEPS + 1) if all(_is_whole(n * part) for part in parts)), None),
            all(len(names) == len(set(names)) for names in by_gpu),
        )

    def to_json(self) -> JsonObject:
        """Return the extent as JSON values."""
        return {
            "shares": sorted(self.shares),
            "slots_per_gpulet": self.slots_per_gpulet,
            "max_batch": self.max_batch,
            "gpulets_per_gpu": self.gpulets_per_gpu,
            "split_workloads": sorted(self.split_workloads),
            "part_steps": self.part_steps,
            "parts_apart": self.parts_apart,
        }

    @classmethod
    def from_json(cls, data: JsonObject) -> Self:
        """Return the extent from the result of ``to_json``."""
        return cls(**dict(data) | {name: frozenset(data[name]) for name in ("shares", "split_workloads")})


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < ROUNDING


def covers(scope: JsonObject, row: Row, reach: Reach | None) -> bool:
    """Return whether a bound of ``scope`` holds for the plan of ``row``, whose extent is ``reach``."""
    if reach is None or row.plan_class is None:
        return False
    if row.performance_model == GpuletModel.name and reach.gpulets_per_gpu > 2:
        return False  # with pairwise interference, exact methods consider at most two gpulets per GPU
    allowed, max_batch = scope["allowed_shares"], scope["max_batch"]
    split, steps = scope.get("split_workloads"), scope.get("part_steps")
    return (
        PlanClass(scope["plan_class"]).contains(row.plan_class)
        and (allowed is None or reach.shares <= set(allowed))
        and reach.slots_per_gpulet <= scope["slots_per_gpulet"]
        and (max_batch is None or reach.max_batch <= max_batch)
        and (split is None or reach.split_workloads <= set(split))
        and (steps is None or (reach.part_steps is not None and steps % reach.part_steps == 0))
        and (reach.parts_apart or not scope.get("parts_apart", False))
    )
