"""Plans of contents whose slots may take turns: planned rates, and the plan of a choice of contents."""

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from formulations.colgen.temporal.contents import GpuContents, pattern_of
from formulations.colgen.temporal.gpulet_positions import SLOTS
from instances import GOODPUT_STEP, Gpulet, Instance, Objective, PlacedGpu, Plan, Slot
from instances.one_gpu import Pattern

ROUNDING = 1e-10
"""Fraction of a workload's rate that may be missing because of rounding."""


@dataclass(slots=True)
class _PlannedSlot:
    """Slot of a plan: its GPU and gpulet, the least and largest rate that it can serve, and its planned rate."""

    gpu: int
    gpulet: int
    workload: int
    batch: int
    least_rps: float
    most_rps: float
    rate_rps: float = 0.0


def plan_of_contents(instance: Instance, gpus: Sequence[tuple[Pattern, GpuContents]]) -> Plan | None:
    """Return the plan of these GPUs, or ``None`` if they leave a workload unserved that must be served.

    ``gpus`` has each GPU's pattern, and its buffer with rates and cycles written.
    """
    slots: dict[int, list[_PlannedSlot]] = defaultdict(list)
    for gpu_position, (pattern, contents) in enumerate(gpus):
        for g, (_, slots_of_gpulet) in enumerate(pattern.gpulets):
            for s, (w, b, _) in enumerate(slots_of_gpulet):
                least_rps, most_rps = float(contents.least_rps[g, s]), float(contents.rate_rps[g, s])
                slots[w].append(_PlannedSlot(gpu_position, g, w, b, least_rps, most_rps))
    for w, workload in enumerate(instance.workloads):
        if not _plan_rates(instance.objective, workload.rate_rps, slots[w]):
            return None
    placed = []
    for gpu_position, (pattern, contents) in enumerate(gpus):
        gpulets = []
        for g, (units, slots_of_gpulet) in enumerate(pattern.gpulets):
            served = sorted({slot.workload for slot in slots_of_gpulet})
            on_gpulet = [slot for w in served for slot in slots[w] if (slot.gpu, slot.gpulet) == (gpu_position, g)]
            planned = tuple(
                Slot(instance.workloads[s.workload].id, s.batch, s.rate_rps) for s in on_gpulet if s.rate_rps > 0.0
            )
            cycle_ms = float(contents.cycle_ms[g]) if len(slots_of_gpulet) > 1 else None
            if planned:
                gpulets.append(Gpulet(units, planned, cycle_ms))
        if gpulets:
            placed.append(PlacedGpu(instance.gpus[pattern.pool].type.name, tuple(gpulets)))
    return Plan(instance.name, tuple(placed))


def _plan_rates(objective: Objective, workload_rps: float, slots: list[_PlannedSlot]) -> bool:
    """Plan the rate of every slot of a workload; return whether the workload is served as the objective demands.

    Under ``cost`` and ``capacity`` the rates add up to the workload's rate, under ``goodput`` to at most that. Slots
    without a permitted rate are dropped. If the least rates of the remaining slots exceed the workload's rate, the
    slots of the largest least rates are dropped. Under ``capacity`` every slot counts, so none may be dropped.
    """
    if objective is Objective.SCALE:
        for slot in slots:
            slot.rate_rps = slot.most_rps
        return True
    step = GOODPUT_STEP * workload_rps if objective is Objective.GOODPUT else 0.0
    least_rps, most_rps = [slot.least_rps for slot in slots], [slot.most_rps for slot in slots]
    if step:
        least_rps = [step * math.ceil(rate / step - 1e-9) for rate in least_rps]
        most_rps = [step * math.floor(rate / step + 1e-9) for rate in most_rps]
    usable = [k for k in range(len(slots)) if most_rps[k] > 0.0 and least_rps[k] <= most_rps[k]]
    if objective is not Objective.CAPACITY:
        while usable and math.fsum(least_rps[k] for k in usable) > workload_rps * (1.0 + ROUNDING):
            usable.remove(max(usable, key=lambda k: least_rps[k]))
    elif len(usable) < len(slots) or math.fsum(least_rps) > workload_rps * (1.0 + ROUNDING):
        return False
    left_rps = workload_rps - math.fsum(least_rps[k] for k in usable)
    most_extra_rps = math.fsum(most_rps[k] - least_rps[k] for k in usable)
    if most_extra_rps < left_rps - ROUNDING * workload_rps and objective is not Objective.GOODPUT:
        return False
    for k in sorted(usable, key=lambda k: most_rps[k] - least_rps[k]):
        slot_most_extra_rps = most_rps[k] - least_rps[k]
        # A slot gets extra rate in proportion to the most it can take, so under ``capacity`` none is without a rate.
        extra_rps = (
            slot_most_extra_rps
            if most_extra_rps <= max(left_rps, 0.0)
            else slot_most_extra_rps * left_rps / most_extra_rps
        )
        if step:
            steps, steps_left = math.ceil(extra_rps / step - 1e-9), math.floor(left_rps / step + 1e-9)
            extra_rps = min(slot_most_extra_rps, step * steps, step * steps_left)
        slots[k].rate_rps = least_rps[k] + max(0.0, extra_rps)
        left_rps, most_extra_rps = left_rps - extra_rps, most_extra_rps - slot_most_extra_rps
    return True


def start_patterns(instance: Instance, plan: Plan) -> list[Pattern] | None:
    """Return the patterns of a plan's GPUs; ``None`` if a gpulet has too many slots, or a name is unknown."""
    pools = {pool.type.name: t for t, pool in enumerate(instance.gpus)}
    position_of = instance.workload_index
    patterns = []
    for gpu in plan.gpus:
        if gpu.type not in pools or any(len(gpulet.slots) > SLOTS for gpulet in gpu.gpulets):
            return None
        if any(slot.workload not in position_of for gpulet in gpu.gpulets for slot in gpulet.slots):
            return None
        gpulets = [
            (gpulet.share_units, [(position_of[s.workload], s.batch) for s in gpulet.slots]) for gpulet in gpu.gpulets
        ]
        patterns.append(pattern_of(pools[gpu.type], gpulets))
    return patterns


def value_of(instance: Instance, plan: Plan, throughput_rps: float) -> float:
    """Return the value of a plan under the instance's objective; ``throughput_rps`` is that of all its slots."""
    if instance.objective is Objective.COST:
        return instance.cost_per_hour(plan.gpus)
    if instance.objective is Objective.CAPACITY:
        return throughput_rps
    served: dict[str, list[float]] = defaultdict(list)
    for _, _, slot in plan.slots():
        served[slot.workload].append(slot.rate_rps)
    if instance.objective is Objective.GOODPUT:
        return math.fsum(math.fsum(rates) for rates in served.values())
    return min((math.fsum(served[w.id]) / w.rate_rps for w in instance.workloads), default=0.0)
