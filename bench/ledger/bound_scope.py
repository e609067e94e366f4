"""Plans to which a bound or a claim applies, and the extent of a plan."""

import math
from collections import defaultdict
from dataclasses import dataclass, fields
from typing import Annotated, Self

from pydantic import Field

from bench.api import Scope, Status
from bench.ledger.row import JsonObject, Row
from bench.ledger.row_schema import Count
from instances import PART_STEPS, Plan
from instances.performance.gpulet import GpuletModel

ROUNDING = 1e-9
"""Distance from a whole number up to which the difference counts as rounding."""


@dataclass(frozen=True, slots=True)
class Reach:
    """Extent of a plan. A bound applies to the plan if the extent lies within the scope of the bound.

    The scope is ``Row.bound_scope``.

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
        Smallest n up to ``PART_STEPS`` such that every slot of a split workload serves a multiple of 1 / n of the
        workload's planned rate; ``None`` without such an n.
    parts_apart
        Whether no GPU has two slots of one workload.
    """

    shares: frozenset[int]
    slots_per_gpulet: Count
    max_batch: Count
    gpulets_per_gpu: Count
    split_workloads: frozenset[str]
    part_steps: Annotated[int, Field(ge=1)] | None
    parts_apart: bool

    @classmethod
    def of(cls, plan: Plan) -> Self:
        """Return the extent of a plan."""
        gpulets = [gpulet for gpu in plan.gpus for gpulet in gpu.gpulets]
        slots = [slot for gpulet in gpulets for slot in gpulet.slots]
        rates: dict[str, list[float]] = defaultdict(list)
        for slot in slots:
            rates[slot.workload].append(slot.rate_rps)
        workloads_by_gpu = [[slot.workload for gpulet in gpu.gpulets for slot in gpulet.slots] for gpu in plan.gpus]
        split = {workload: slot_rates for workload, slot_rates in rates.items() if len(slot_rates) > 1}
        parts = [rate / math.fsum(slot_rates) for slot_rates in split.values() for rate in slot_rates]
        possible_steps = (steps for steps in range(1, PART_STEPS + 1) if all(_is_whole(steps * part) for part in parts))
        return cls(
            frozenset([gpulet.share_units for gpulet in gpulets]),
            max([len(gpulet.slots) for gpulet in gpulets], default=0),
            max([slot.batch for slot in slots], default=0),
            max([len(gpu.gpulets) for gpu in plan.gpus], default=0),
            frozenset(split),
            next(possible_steps, None),
            all(len(names) == len(set(names)) for names in workloads_by_gpu),
        )

    def to_json(self) -> JsonObject:
        """Return the extent as JSON values."""
        values = {attribute.name: getattr(self, attribute.name) for attribute in fields(self)}
        return {name: sorted(value) if isinstance(value, frozenset) else value for name, value in values.items()}


def _is_whole(number: float) -> bool:
    return abs(number - round(number)) < ROUNDING


def scope_of(row: Row) -> Scope:
    """Return the scope of a row's claim ``optimal`` or ``infeasible``: that of its bound, or the narrowest class."""
    return row.bound_scope or Scope()


def scope_in_words(scope: Scope) -> str:
    """Return the class of a scope. If only some workloads may be split, name them: ``split of w7``."""
    split = scope.split_workloads
    if split is None:
        return str(scope.plan_class)
    return f"{scope.plan_class} of {split[0] if len(split) == 1 else f'{len(split)} workloads'}"


def claim_in_words(row: Row) -> str:
    """Return the status of a row; ``optimal`` includes its class of plans, such as ``optimal (spatial)``."""
    if row.status != Status.OPTIMAL:
        return str(row.status)
    return f"optimal ({', '.join(filter(None, (scope_in_words(scope_of(row)), row.reserve)))})"


def covers(scope: Scope, row: Row, reach: Reach | None) -> bool:
    """Return whether a bound of ``scope`` applies to the plan of ``row``, whose extent is ``reach``."""
    return reach is not None and row.plan_class is not None and outside(scope, row, reach) is None


def outside(scope: Scope, row: Row, reach: Reach) -> str | None:
    """Return a property of the plan of ``row`` that ``scope`` excludes, in words; ``None`` if there is none."""
    assert row.plan_class is not None
    allowed_shares, split_workloads, part_steps = scope.allowed_shares, scope.split_workloads, scope.part_steps
    if not scope.plan_class.contains(row.plan_class):
        return f"{row.plan_class} plans"
    if reach.slots_per_gpulet > scope.slots_per_gpulet:
        return f"{reach.slots_per_gpulet} slots on a gpulet"
    if row.performance_model == GpuletModel.name and reach.gpulets_per_gpu > 2:
        # With pairwise interference, exact methods consider at most two gpulets per GPU.
        return f"{reach.gpulets_per_gpu} gpulets on a GPU"
    if split_workloads is not None and not reach.split_workloads <= set(split_workloads):
        return "parts of further workloads"
    if part_steps is not None and (reach.part_steps is None or part_steps % reach.part_steps):
        return "parts of other sizes"
    if scope.parts_apart and not reach.parts_apart:
        return "parts of a workload on one GPU"
    if scope.max_batch is not None and reach.max_batch > scope.max_batch:
        return "larger batches"
    if allowed_shares is not None and not reach.shares <= set(allowed_shares):
        return "other shares"
    return None
