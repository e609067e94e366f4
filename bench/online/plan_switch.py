"""Switch from one plan to the next on the same GPUs: reused processes, and memory during the switch."""

import math
from collections import Counter
from collections.abc import Sequence

from bench.simulation.exchange import identity
from instances import Gpulet, Instance, Partition, PlacedGpu, Plan
from instances.view import View


def aligned(plan: Plan, current: Plan) -> Plan:
    """Return ``plan`` with its GPUs at the positions of ``current`` where most of their processes already run.

    GPUs are matched in descending order of the share that both have in common. The remaining GPUs take free positions
    of their type: first those of GPUs in use, then those of empty GPUs, then new positions. Positions that remain free
    have no gpulets.
    """
    pairs = sorted(
        (-_common_units(gpu, current_gpu), not current_gpu.gpulets, index, position)
        for index, gpu in enumerate(plan.gpus)
        for position, current_gpu in enumerate(current.gpus)
        if gpu.type == current_gpu.type and gpu.gpulets
    )
    gpus = [PlacedGpu(gpu.type, ()) for gpu in current.gpus]
    placed: set[int] = set()
    for _, _, index, position in pairs:
        if index not in placed and not gpus[position].gpulets:
            gpus[position] = plan.gpus[index]
            placed.add(index)
    gpus += [gpu for index, gpu in enumerate(plan.gpus) if gpu.gpulets and index not in placed]
    return Plan(plan.instance, tuple(gpus))


def _common_units(gpu: PlacedGpu, other: PlacedGpu) -> int:
    """Return the total share of the processes that both GPUs have."""
    return gpu.share_units - sum(gpulet.share_units for gpulet in unmatched(gpu.gpulets, other.gpulets))


def resident(plans: Sequence[Plan]) -> dict[int, PlacedGpu]:
    """Return the resident gpulets of several plans by GPU position; a process common to several plans counts once."""
    gpu_at: dict[int, PlacedGpu] = {}
    for plan in plans:
        for position, gpu in enumerate(plan.gpus):
            resident_gpu = gpu_at.get(position, PlacedGpu(gpu.type, ()))
            new_gpulets = unmatched(gpu.gpulets, resident_gpu.gpulets)
            if resident_gpu.gpulets or new_gpulets:
                gpu_at[position] = PlacedGpu(gpu.type, (*resident_gpu.gpulets, *new_gpulets))
    return gpu_at


def is_ready(plan: Plan, plans: Sequence[Plan]) -> bool:
    """Return whether every process of ``plan`` is a process of ``plans``."""
    resident_gpus = resident(plans)
    return not any(
        unmatched(gpu.gpulets, resident_gpus[position].gpulets if position in resident_gpus else ())
        for position, gpu in enumerate(plan.gpus)
    )


def unmatched(gpulets: Sequence[Gpulet], others: Sequence[Gpulet]) -> list[Gpulet]:
    """Return the gpulets without a matching process among ``others``."""
    remaining = Counter(map(identity, others))
    missing = []
    for gpulet in gpulets:
        remaining[identity(gpulet)] -= 1
        if remaining[identity(gpulet)] < 0:
            missing.append(gpulet)
    return missing


def memory_pct(plans: Sequence[Plan], instance: Instance) -> float | None:
    """Return the memory of the resident processes on the fullest GPU, in percent of its memory.

    Above 100, the GPU cannot hold the processes of all ``plans`` at the same time, as a switch between them requires.
    The result is ``None`` for MIG, where each GPU instance has its own memory.
    """
    if instance.partition is Partition.MIG:
        return None
    views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
    return max((_memory_pct(gpu, views[gpu.type]) for gpu in resident(plans).values()), default=0.0)


def _memory_pct(gpu: PlacedGpu, view: View) -> float:
    index, tables = view.instance.workload_index, view.tables
    memory_mib = math.fsum(
        tables.memory_mib[view.model[index[slot.workload]], slot.batch]
        for gpulet in gpu.gpulets
        for slot in gpulet.slots
    )
    return 100.0 * memory_mib / tables.memory_limit_mib
