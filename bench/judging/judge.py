"""Judge of plans: it recomputes the value of a plan and lists every violated constraint.

The judge uses only the plan and the instance, no figures that the scheduler reports.
"""

import math
from collections import defaultdict
from collections.abc import Mapping
from itertools import islice

from bench.judging.colocation import check_shared_gpulet, excess_memory, judge_colocation, unsupported_batches
from bench.judging.mig import check_mig_gpulet, judge_mig_gpu
from bench.judging.verdict import SlotVerdict, Verdict, Violation
from instances import GOODPUT_STEP, Gpulet, GpuType, InputError, Instance, Objective, Partition, PlacedGpu, Plan, Slot
from instances.arrays import Floats
from instances.continuous import CONTINUOUS
from instances.errors import unknown_name
from instances.interference import gpu_time_beside_ms
from instances.tolerance import TOLERANCE, widened
from instances.view import View

__all__ = ["Verdict", "Violation", "judge"]


def judge(plan: Plan, instance: Instance) -> Verdict:
    """Judge ``plan`` against ``instance``.

    Raises
    ------
    InputError
        If the plan does not belong to this instance: it names another instance, an unknown workload, job or GPU type,
        or has a share, batch or rate that is not positive.
    """
    check_belongs(plan, instance)
    violations: list[Violation] = []
    slots: list[SlotVerdict] = []
    mig = instance.partition is Partition.MIG
    planned_for = instance
    if instance.objective is Objective.SCALE and instance.slo_rule.by_share:
        # Budgets depend on the rate of a slot, so they are those at the multiple of the rates that the plan reaches.
        planned_for = instance.scaled(_scale(plan, instance) or 1.0)
    views = {} if mig else {pool.type.name: View.of(planned_for, pool.type) for pool in instance.gpus}
    over_capacity_pct = None
    if instance.objective is Objective.COLOCATION:
        slots, violations, over_capacity_pct = judge_colocation(plan, instance, views)
    else:
        planned = _planned_otherwise(plan, instance)
        for position, gpu in enumerate(plan.gpus):
            found = (
                judge_mig_gpu(position, gpu, instance) if mig else _judge_gpu(position, gpu, views[gpu.type], planned)
            )
            slots += found[0]
            violations += found[1]
    violations += _judge_pool(plan, instance)
    violations += _judge_rates(plan, instance)

    used = [gpu for gpu in plan.gpus if gpu.gpulets]
    types = {pool.type.name: pool.type for pool in instance.gpus}
    cost = instance.cost_per_hour(used)
    # Shares sum to more than the whole GPU if they belong to jobs, or if the plan breaks the constraint on shares.
    free_pct = [100.0 * max(0.0, 1.0 - gpu.share_units / types[gpu.type].share_units) for gpu in used]
    busy_pct = _busy_pct(plan, slots, types)
    throughput = math.fsum(slot.throughput_rps for slot in slots)
    return Verdict(
        feasible=not violations,
        violations=tuple(violations),
        value=_value(plan, instance, cost, throughput),
        gpus_used=plan.gpus_used,
        cost_per_hour=cost,
        throughput_rps=throughput,
        goodput_rps=_goodput_rps(plan, instance, slots, violations),
        fragments_pct=math.fsum(free_pct) / len(used) if used else 0.0,
        utilisation_pct=math.fsum(busy_pct) / len(used) if used else 0.0,
        slots=tuple(slots),
        over_capacity_pct=over_capacity_pct,
    )


def check_belongs(plan: Plan, instance: Instance, where: str = "plan") -> None:
    """Check that a plan belongs to an instance; ``where`` names the plan in errors.

    Raises
    ------
    InputError
        If the plan was made for another instance, or names GPU types, workloads or sizes that do not exist.
    """
    if plan.instance != instance.name:
        raise InputError(f"{where}: instance", f'made for "{plan.instance}"; expected a plan for "{instance.name}"')
    for g, gpu in enumerate(plan.gpus):
        pool = instance.pool(gpu.type)
        if pool is None:
            known = [pool.type.name for pool in instance.gpus]
            raise unknown_name(f"{where}: gpus[{g}].type", "GPU type", gpu.type, known)
        for p, gpulet in enumerate(gpu.gpulets):
            at = f"{where}: gpus[{g}].gpulets[{p}]"
            if gpulet.share_units < 1 or not gpulet.slots:
                raise InputError(at, "expected at least one share unit and one slot")
            if gpulet.share_units > pool.type.share_units:
                problem = f"{gpulet.share_units}; a {pool.type.name} has {pool.type.share_units} share units"
                raise InputError(f"{at}.share_units", problem)
            cycle_ms = gpulet.duty_cycle_ms
            if cycle_ms is None and len(gpulet.slots) > 1:
                raise InputError(at, "slots that take turns need a duty_cycle_ms")
            if cycle_ms is not None and not 0.0 < cycle_ms < math.inf:
                raise InputError(f"{at}.duty_cycle_ms", f"{cycle_ms} is not a finite time greater than 0")
            check_mig_gpulet(gpulet, instance.partition, at)
            if instance.objective is Objective.COLOCATION:
                check_shared_gpulet(gpulet, pool.type, at)
            for s, slot in enumerate(gpulet.slots):
                place = f"{at}.slots[{s}]"
                if slot.workload not in instance.model_of:
                    kind = "job" if instance.objective is Objective.COLOCATION else "workload"
                    raise unknown_name(f"{place}.workload", kind, slot.workload, list(instance.model_of))
                if slot.batch < 1 or not 0.0 < slot.rate_rps < math.inf:
                    raise InputError(place, "expected a positive batch and a positive, finite rate_rps")


def _judge_gpu(
    position: int, gpu: PlacedGpu, view: View, planned: Mapping[str, float]
) -> tuple[list[SlotVerdict], list[Violation]]:
    """Judge one GPU: shares, memory, batches, and the latency of every slot with its neighbours."""
    tables, allocated = view.tables, gpu.share_units
    found: list[Violation] = []
    if allocated > tables.share_units:
        message = f"GPU {position}: {allocated} share units allocated, {tables.share_units} exist"
        found.append(Violation("share", position, None, allocated, tables.share_units, message))
    for gpulet in gpu.gpulets:
        if view.gpu.allowed_shares is not None and gpulet.share_units not in view.gpu.allowed_shares:
            message = f"GPU {position}: a share of {gpulet.share_units} units is not permitted on {gpu.type}"
            found.append(Violation("allowed-share", position, None, gpulet.share_units, 0, message))
    resident = [slot for gpulet in gpu.gpulets for slot in gpulet.slots]
    unsupported = unsupported_batches(position, resident, view)
    if unsupported:  # which makes all predictions on the GPU impossible
        return [], [*found, *unsupported]

    found += excess_memory(position, resident, view)
    demands = view.demands(gpu, tables)
    slots: list[SlotVerdict] = []
    for at, gpulet in enumerate(gpu.gpulets):
        judged = _judge_gpulet(position, gpulet, view, demands, at, planned)
        slots += judged[0]
        found += judged[1]
    return slots, found


def _judge_gpulet(
    position: int, gpulet: Gpulet, view: View, demands: Floats, own: int, planned: Mapping[str, float]
) -> tuple[list[SlotVerdict], list[Violation]]:
    tables, buffer = view.tables, view.instance.latency_buffer
    slots: list[SlotVerdict] = []
    found: list[Violation] = []
    units = gpulet.share_units
    times_ms = [gpu_time_beside_ms(tables, _model(view, s), s.batch, units, demands, own) for s in gpulet.slots]
    cycle_ms = gpulet.duty_cycle_ms
    if cycle_ms is not None and not view.instance.takes_turns:
        rule = CONTINUOUS if view.instance.services else view.instance.slo_rule
        problem = f"a gpulet has a duty cycle of {cycle_ms:g} ms; under {rule} its latencies have no bound"
        found.append(Violation("duty-cycle", position, None, cycle_ms, math.inf, f"GPU {position}: {problem}"))
    inference_ms = [
        t + float(tables.transfer_ms[_model(view, s), s.batch]) for t, s in zip(times_ms, gpulet.slots, strict=True)
    ]
    if cycle_ms is not None and (taken_ms := buffer * math.fsum(inference_ms)) > widened(cycle_ms):
        message = f"GPU {position}: the slots of a gpulet take {taken_ms:.3f} ms of {cycle_ms:g} ms"
        found.append(Violation("duty-cycle", position, None, taken_ms, cycle_ms, message))

    for slot, t_gpu, t_inf in zip(gpulet.slots, times_ms, inference_ms, strict=True):
        w, m = view.instance.workload_index[slot.workload], _model(view, slot)
        if cycle_ms is None:
            budget = float(view.budgets_at_ms(w, slot.batch, slot.rate_rps, units))
            if slot.workload in planned:
                # At a rate below the planned one, a batch fills more slowly, and its first request waits longer (InSS,
                # equation 3). A rate that is planned too low by the tolerance gives no longer budget.
                arriving_rps = float(view.rate_rps[w]) * (slot.rate_rps / planned[slot.workload])
                budget = min(budget, float(view.budgets_at_ms(w, slot.batch, arriving_rps, units)))
            period_ms = t_gpu + float(tables.exposed_ms[m, slot.batch])
        else:
            # D + t_inf <= SLO and r <= 1000 b / D
            budget = (widened(float(view.slo_ms[w])) - cycle_ms) / buffer - (t_inf - t_gpu)
            period_ms = cycle_ms
            if slot.rate_rps * cycle_ms > widened(1000.0 * slot.batch):
                most = 1000.0 * slot.batch / cycle_ms
                message = f"GPU {position}, {slot.workload}: {slot.rate_rps:g} req/s, the cycle serves {most:g}"
                found.append(Violation("rate", position, slot.workload, most, slot.rate_rps, message))
        if not t_gpu <= budget:
            message = (
                f"GPU {position}, {slot.workload}: GPU time {t_gpu:.3f} ms exceeds its budget of {budget:.3f} ms"
                f" (batch {slot.batch}, {slot.rate_rps:g} req/s, SLO {view.slo_ms[w]:g} ms)"
            )
            found.append(Violation("latency", position, slot.workload, t_gpu, budget, message))
        passes = max(1, view.instance.workloads[w].steps)
        throughput = 1000.0 * slot.batch / (passes * period_ms) if period_ms < math.inf else 0.0
        executing_ms = period_ms if cycle_ms is None else t_inf
        busy = min(1.0, slot.rate_rps * passes * executing_ms / (1000.0 * slot.batch))
        slots.append(SlotVerdict(position, slot.workload, t_gpu, t_inf, budget, throughput, busy))
    return slots, found


def _model(view: View, slot: Slot) -> int:
    return int(view.model[view.instance.workload_index[slot.workload]])


def _judge_pool(plan: Plan, instance: Instance) -> list[Violation]:
    """Check that the plan uses no more GPUs of a type than the pool has."""
    found = []
    for pool in instance.gpus:
        used = sum(gpu.type == pool.type.name for gpu in plan.gpus if gpu.gpulets)
        if pool.count is not None and used > pool.count:
            message = f"{used} GPUs of type {pool.type.name} used, the pool has {pool.count}"
            found.append(Violation("pool", None, None, used, pool.count, message))
    return found


def _planned_otherwise(plan: Plan, instance: Instance) -> dict[str, float]:
    """Return the planned rate of each workload, over all slots, that differs from the arriving rate.

    Slots must meet their latency budget at both rates. The result is empty under ``goodput``, where the plan sets the
    admitted rates, and under ``scale``, where it sets the multiple of the rates.
    """
    if instance.objective not in (Objective.COST, Objective.CAPACITY):
        return {}
    served = _served_rps(plan)
    return {w.id: served[w.id] for w in instance.workloads if served.get(w.id, w.rate_rps) != w.rate_rps}


def _served_rps(plan: Plan) -> dict[str, float]:
    parts: dict[str, list[float]] = defaultdict(list)
    for _, _, slot in plan.slots():
        parts[slot.workload].append(slot.rate_rps)
    return {workload: math.fsum(rates) for workload, rates in parts.items()}


def _judge_rates(plan: Plan, instance: Instance) -> list[Violation]:
    """Check the served rate of every workload against the objective."""
    if instance.objective in (Objective.SCALE, Objective.COLOCATION):
        return []
    served = _served_rps(plan)
    found = []
    if instance.objective is Objective.GOODPUT:
        for position, _, slot in plan.slots():
            asked = instance.workloads[instance.workload_index[slot.workload]].rate_rps
            steps = slot.rate_rps / (GOODPUT_STEP * asked)
            if abs(steps - round(steps)) > TOLERANCE * steps:
                problem = f"{slot.rate_rps:g} req/s is not a multiple of 5 % of {asked:g}"
                message = f"GPU {position}, {slot.workload}: {problem}"
                found.append(Violation("rate", position, slot.workload, slot.rate_rps, asked, message))
    for workload in instance.workloads:
        rate, arriving = served.get(workload.id, 0.0), workload.rate_rps
        message = ""
        if instance.objective is Objective.GOODPUT and rate > widened(arriving):
            message = f"{workload.id}: {rate:g} req/s served, only {arriving:g} arrive"
        elif instance.objective is not Objective.GOODPUT and widened(rate) < arriving:
            message = f"{workload.id}: {rate:g} req/s served of {arriving:g}"
        if message:
            found.append(Violation("rate", None, workload.id, rate, arriving, message))
    return found


def _value(plan: Plan, instance: Instance, cost: float, throughput: float) -> float:
    match instance.objective:
        case Objective.COST:
            return cost
        case Objective.CAPACITY | Objective.COLOCATION:
            return throughput
        case Objective.GOODPUT:
            return math.fsum(slot.rate_rps for _, _, slot in plan.slots())
        case Objective.SCALE:
            return _scale(plan, instance)


def _scale(plan: Plan, instance: Instance) -> float:
    """Return the multiple of all rates that the plan serves."""
    served = _served_rps(plan)
    return min((served.get(w.id, 0.0) / w.rate_rps for w in instance.workloads), default=0.0)


def _goodput_rps(plan: Plan, instance: Instance, slots: list[SlotVerdict], violations: list[Violation]) -> float:
    """Return the rates served by slots without violations, at most the arriving rates; for jobs, their throughput."""
    broken_gpus = {v.gpu for v in violations if v.workload is None and v.gpu is not None}
    broken_slots = {(v.gpu, v.workload) for v in violations}
    if instance.objective is Objective.COLOCATION:
        return math.fsum(slot.throughput_rps for slot in slots if slot.gpu not in broken_gpus)
    served: dict[str, float] = defaultdict(float)
    for position, _, slot in plan.slots():
        if position not in broken_gpus and (position, slot.workload) not in broken_slots:
            served[slot.workload] += slot.rate_rps
    return math.fsum(min(served[w.id], w.rate_rps) for w in instance.workloads if w.id in served)


def _busy_pct(plan: Plan, slots: list[SlotVerdict], types: Mapping[str, GpuType]) -> list[float]:
    """Return share times busy fraction of every gpulet in percent of its GPU, summed over the slots of a cycle."""
    busy: dict[int, list[float]] = defaultdict(list)
    for slot in slots:
        busy[slot.gpu].append(slot.busy)
    found = []
    for position, gpu in enumerate(plan.gpus):
        in_order = iter(busy[position])  # empty if a batch has no figures
        for gpulet in gpu.gpulets:
            fraction = min(1.0, math.fsum(islice(in_order, len(gpulet.slots))))
            found.append(100.0 * gpulet.share_units / types[gpu.type].share_units * fraction)
    return found
