"""Plans of MIG instances as the checker judges them: feasible by the definitions, with the cost of the used GPUs."""

from collections import defaultdict
from fractions import Fraction
from math import fsum

from bench.certificate.failures import NotProvenError
from instances import Gpulet, Instance, MigProfile, PlacedGpu, Plan, Slot
from instances.tolerance import widened


def mig_cost_of(plan: Plan, instance: Instance) -> Fraction:
    """Return the cost of a feasible plan, in dollars per hour.

    Raises
    ------
    NotProvenError
        If the plan is not feasible.
    """
    if plan.instance != instance.name:
        raise NotProvenError(f'the plan is for the instance "{plan.instance}"')
    pools = {pool.type.name: pool for pool in instance.gpus}
    parts_by_workload: dict[str, list[float]] = defaultdict(list)
    cost = Fraction(0)
    used_gpus: dict[str, int] = defaultdict(int)
    for position, gpu in enumerate(plan.gpus):
        where = f"GPU {position} of the plan"
        if gpu.type not in pools:
            raise NotProvenError(f"{where}: the pool has no {gpu.type}")
        if not gpu.gpulets:
            continue
        profile = pools[gpu.type].type.mig
        assert profile is not None
        _check_layout(gpu, profile, where)
        for gpulet in gpu.gpulets:
            slot = _checked_slot(gpulet, profile, instance, where)
            parts_by_workload[slot.workload].append(slot.rate_rps)
        used_gpus[gpu.type] += 1
        cost += Fraction(repr(float(pools[gpu.type].type.price_per_hour)))
    for workload in instance.workloads:
        if widened(fsum(parts_by_workload[workload.id])) < workload.rate_rps:
            raise NotProvenError("the plan serves a workload at less than its rate")
    for name, pool in pools.items():
        if pool.count is not None and used_gpus[name] > pool.count:
            raise NotProvenError(f"the plan uses {used_gpus[name]} {name}, the pool has {pool.count}")
    return cost


def _check_layout(gpu: PlacedGpu, profile: MigProfile, where: str) -> None:
    """Check that the MIG instances of a GPU have sizes and starts that exist, and do not collide."""
    occupied_to = 0
    placements = ((-1 if gpulet.start is None else gpulet.start, gpulet.share_units) for gpulet in gpu.gpulets)
    for start, units in sorted(placements):
        slice_ = profile.slice_of(units)
        if slice_ is None or start not in slice_.starts or start < occupied_to:
            raise NotProvenError(f"{where}: it cannot have a MIG instance of {units} at {start} beside the others")
        occupied_to = start + max(units, slice_.span)


def _checked_slot(gpulet: Gpulet, profile: MigProfile, instance: Instance, where: str) -> Slot:
    """Return the slot of a MIG instance, whose configuration must be measured, in time and fast enough."""
    if len(gpulet.slots) != 1 or gpulet.duty_cycle_ms is not None:
        raise NotProvenError(f"{where}: slots take turns, which the claim does not cover")
    (slot,) = gpulet.slots
    if slot.workload not in instance.workload_index:
        raise NotProvenError(f"{where}: the instance has no workload {slot.workload}")
    workload = instance.workloads[instance.workload_index[slot.workload]]
    planned = (gpulet.share_units, slot.batch, gpulet.processes)
    measured = [row for row in profile.models[workload.model] if (row.units, row.batch, row.processes) == planned]
    if not measured:
        raise NotProvenError(f"{where}: no figures of {slot.workload} for this size, batch and number of processes")
    if not measured[0].latency_ms <= widened(workload.slo_ms / 2.0 / instance.latency_buffer):
        raise NotProvenError(f"{where}: {slot.workload} takes {measured[0].latency_ms:g} ms, longer than its budget")
    if slot.rate_rps > widened(measured[0].throughput_rps / instance.latency_buffer):
        raise NotProvenError(f"{where}: {slot.workload} has a higher rate than its MIG instance serves")
    return slot
