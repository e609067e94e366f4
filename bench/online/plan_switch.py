"""Switch from one plan to the next on the same GPUs: kept processes and memory in the meantime."""

import math
from collections import Counter
from collections.abc import Sequence

from bench.simulation.exchange import identity
from instances import Gpulet, Instance, Partition, PlacedGpu, Plan
from instances.view import View


def aligned(plan: Plan, current: Plan) -> Plan:
    """Return ``plan`` with its GPUs in the positions of ``current`` where most of their processes run already.

    Pairs are joined from the largest share in common down; the others take the positions of their type that are left,
    those in use first, and then new ones. Positions that the plan does not use have no gpulets.
    """
    pairs = sorted(
        (-_common_units(gpu, there), not there.gpulets, g, position)
        for g, gpu in enumerate(plan.gpus)
        for position, there in enumerate(current.gpus)
        if gpu.type == there.type and gpu.gpulets
    )
    gpus = [PlacedGpu(gpu.type, ()) for gpu in current.gpus]
    placed: set[int] = set()
    for _, _, g, position in pairs:
        if g not in placed and not gpus[position].gpulets:
            gpus[position] = plan.gpus[g]
            placed.add(g)
    gpus += [gpu for g, gpu in enumerate(plan.gpus) if gpu.gpulets and g not in placed]
    return Plan(plan.instance, tuple(gpus))


def _common_units(one: PlacedGpu, other: PlacedGpu) -> int:
    """Return the share of the processes that run on both."""
    return one.share_units - sum(gpulet.share_units for gpulet in _without(one.gpulets, other.gpulets))


def resident(plans: Sequence[Plan]) -> dict[int, PlacedGpu]:
    """Return what runs or is prepared by position where several plans are resident; what they share is there once."""
    found: dict[int, PlacedGpu] = {}
    for plan in plans:
        for position, gpu in enumerate(plan.gpus):
            there = found.get(position, PlacedGpu(gpu.type, ()))
            extra = _without(gpu.gpulets, there.gpulets)
            if there.gpulets or extra:
                found[position] = PlacedGpu(gpu.type, (*there.gpulets, *extra))
    return found


def is_ready(plan: Plan, plans: Sequence[Plan]) -> bool:
    """Whether every process of ``plan`` is one of ``plans``."""
    there = resident(plans)
    nothing = PlacedGpu("", ())
    return not any(_without(gpu.gpulets, there.get(g, nothing).gpulets) for g, gpu in enumerate(plan.gpus))


def _without(gpulets: Sequence[Gpulet], others: Sequence[Gpulet]) -> list[Gpulet]:
    """Return those gpulets that need processes that none of the others has."""
    left = Counter(map(identity, others))
    missing = []
    for gpulet in gpulets:
        left[identity(gpulet)] -= 1
        if left[identity(gpulet)] < 0:
            missing.append(gpulet)
    return missing


def memory_pct(plans: Sequence[Plan], instance: Instance) -> float | None:
    """Return the memory of what is resident on the fullest GPU, in percent of its memory.

    More than 100 cannot be. ``None`` for GPUs cut into MIG instances, each of which has memory of its own.
    """
    if instance.partition is Partition.MIG:
        return None
    views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
    return max((_memory_pct(gpu, views[gpu.type]) for gpu in resident(plans).values()), default=0.0)


def _memory_pct(gpu: PlacedGpu, view: View) -> float:
    index, tables = view.instance.workload_index, view.tables
    memory_mib = math.fsum(
        tables.memory_mib[view.model[index[slot.workload]], slot.batch] for each in gpu.gpulets for slot in each.slots
    )
    return 100.0 * memory_mib / tables.memory_limit_mib
