"""Plans as the checker judges them: feasible by the definitions, with the value computed from the plan alone."""

from collections import defaultdict
from collections.abc import Mapping
from fractions import Fraction
from math import fsum, inf

import numpy as np

from bench.certificate.certificate import BoundClaim
from bench.certificate.failures import NotProvenError
from instances import GOODPUT_STEP, PART_STEPS, Instance, Objective, PlacedGpu, Plan
from instances.interference import gpu_times_ms
from instances.tolerance import TOLERANCE, widened
from instances.view import View


def value_of(plan: Plan, instance: Instance, claim: BoundClaim) -> Fraction:
    """Return the value of a feasible plan: dollars per hour, requests per second, or a multiple of the rates.

    Raises
    ------
    NotProvenError
        If the plan is not feasible, or not of the claim's class.
    """
    if plan.instance != instance.name:
        raise NotProvenError(f'the plan is for the instance "{plan.instance}"')
    served = _served(plan, instance, claim)
    rates_rps = {w.id: w.rate_rps for w in instance.workloads}
    scale = min((served.get(name, 0.0) / rate for name, rate in rates_rps.items()), default=inf)
    if instance.objective is Objective.SCALE:
        instance = instance.scaled(scale) if 0.0 < scale < inf else instance
    elif instance.objective is not Objective.GOODPUT and any(
        widened(served.get(name, 0.0)) < rate for name, rate in rates_rps.items()
    ):
        raise NotProvenError("the plan serves a workload at less than its rate")
    views = {pool.type.name: View.of(instance, pool.type) for pool in instance.gpus}
    used_gpus = [gpu for gpu in plan.gpus if gpu.gpulets]
    for pool in instance.gpus:
        count = sum(gpu.type == pool.type.name for gpu in used_gpus)
        if pool.count is not None and count > pool.count:
            raise NotProvenError(f"the plan uses {count} {pool.type.name}, the pool has {pool.count}")
    # If the served rate of a workload differs from its arriving rate, its slots must be in time at their planned rates
    # and at their parts of the arriving rate. Under goodput and scale, the plan itself sets the arriving rate.
    plan_sets_rates = instance.objective in (Objective.GOODPUT, Objective.SCALE)
    unequal_rps = {} if plan_sets_rates else {name: rate for name, rate in served.items() if rate != rates_rps[name]}
    throughput = [
        _throughput_rps(gpu, views[gpu.type], unequal_rps, f"GPU {position} of the plan")
        for position, gpu in enumerate(plan.gpus)
    ]
    match instance.objective:
        case Objective.COST:
            price = {pool.type.name: Fraction(repr(float(pool.type.price_per_hour))) for pool in instance.gpus}
            return sum((price[gpu.type] for gpu in used_gpus), start=Fraction(0))
        case Objective.SCALE:
            return Fraction(scale)
        case Objective.CAPACITY:
            return Fraction(fsum(throughput))
        case _:
            return Fraction(fsum(served.values()))


def _served(plan: Plan, instance: Instance, claim: BoundClaim) -> dict[str, float]:
    """Return the rate that the plan serves of each workload; check names, classes and rates."""
    index_of, pool_types = instance.workload_index, {pool.type.name for pool in instance.gpus}
    parts_by_workload: dict[str, list[float]] = defaultdict(list)
    parts_of_any_size = claim.plan_class == "split" and claim.parts is None
    for position, gpu in enumerate(plan.gpus):
        if gpu.type not in pool_types:
            raise NotProvenError(f"GPU {position} of the plan: the pool has no {gpu.type}")
        for gpulet in gpu.gpulets:
            if len(gpulet.slots) != 1 or gpulet.duty_cycle_ms is not None:
                raise NotProvenError(f"GPU {position} of the plan: slots take turns, which the claim does not cover")
            slot = gpulet.slots[0]
            if slot.workload not in index_of:
                raise NotProvenError(f"GPU {position} of the plan: the instance has no workload {slot.workload}")
            rate_rps = instance.workloads[index_of[slot.workload]].rate_rps
            steps = slot.rate_rps / (GOODPUT_STEP * rate_rps)
            in_steps = instance.objective is Objective.GOODPUT or claim.parts is not None
            if in_steps and abs(steps - round(steps)) > TOLERANCE * steps:
                raise NotProvenError(
                    f"GPU {position} of the plan: {slot.workload} is not served in steps of 1/{PART_STEPS}"
                )
            parts_by_workload[slot.workload].append(slot.rate_rps)
        if not parts_of_any_size and len({gpulet.slots[0].workload for gpulet in gpu.gpulets}) < len(gpu.gpulets):
            raise NotProvenError(
                f"GPU {position} of the plan: two slots of one workload, which the claim does not cover"
            )
    served = {name: fsum(parts_rps) for name, parts_rps in parts_by_workload.items()}
    for name, parts_rps in parts_by_workload.items():
        if len(parts_rps) > 1 and claim.plan_class != "split":
            raise NotProvenError(f"the plan serves {name} in parts, which the claim does not cover")
        rate_rps = instance.workloads[index_of[name]].rate_rps
        if instance.objective is Objective.GOODPUT and served[name] > widened(rate_rps):
            raise NotProvenError(f"the plan serves more of {name} than arrives")
    return served


def _throughput_rps(gpu: PlacedGpu, view: View, unequal_rps: Mapping[str, float], where: str) -> float:
    """Return the throughput of one GPU's slots; check shares, batches, memory and times.

    ``unequal_rps`` is the served rate of each workload whose served and arriving rates differ.
    """
    tables, index_of = view.tables, view.instance.workload_index
    slots = [gpulet.slots[0] for gpulet in gpu.gpulets]
    workloads = [index_of[slot.workload] for slot in slots]
    model, batch = view.model[workloads], np.array([slot.batch for slot in slots], dtype=np.int64)
    units = np.array([gpulet.share_units for gpulet in gpu.gpulets], dtype=np.int64)
    if units.sum() > tables.share_units or not np.isin(units, tables.permitted).all():
        raise NotProvenError(f"{where}: {units.sum()} of {tables.share_units} share units, or a share not permitted")
    if np.any(batch > tables.max_batch[model]):
        raise NotProvenError(f"{where}: a batch larger than its model supports")
    if tables.memory_mib[model, batch].sum() > tables.memory_limit_mib:
        raise NotProvenError(f"{where}: not enough memory")
    if len(slots) > tables.most_residents:
        raise NotProvenError(f"{where}: {len(slots)} slots; the claim covers {tables.most_residents}")
    times_ms = np.empty(len(slots))
    gpu_times_ms(tables, model, batch, units, len(slots), times_ms)
    for workload, slot, share_units, time_ms in zip(workloads, slots, units.tolist(), times_ms.tolist(), strict=True):
        rates = {slot.rate_rps}
        if slot.workload in unequal_rps:
            rates.add(float(view.rate_rps[workload]) * (slot.rate_rps / unequal_rps[slot.workload]))
        if not all(time_ms <= float(view.budgets_at_ms(workload, slot.batch, rate, share_units)) for rate in rates):
            raise NotProvenError(f"{where}: {slot.workload} takes {time_ms:.3f} ms, longer than its budget")
    return fsum((1000.0 * batch / (times_ms + tables.exposed_ms[model, batch])).tolist())
