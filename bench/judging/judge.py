"""Judge of plans: it recomputes the value of a plan and lists every violated constraint.

The judge uses only the plan and the instance, and nothing that the scheduler reports about the plan.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import islice

from bench.judging.colocation import check_shared_gpulet, excess_memory, judge_colocation, unsupported_batches
from bench.judging.measured import MeasuredTruth
from bench.judging.mig import check_mig_gpulet, judge_mig_gpu
from bench.judging.slack import steady_slack, turn_slack
from bench.judging.verdict import SlotVerdict, Verdict, Violation
from instances import GOODPUT_STEP, Gpulet, GpuType, InputError, Instance, Objective, Partition, PlacedGpu, Plan, Slot
from instances.continuous import CONTINUOUS
from instances.errors import unknown_name
from instances.interference import gpu_time_beside_ms
from instances.tolerance import TOLERANCE, widened
from instances.view import View

__all__ = ["Verdict", "Violation", "judge"]


def judge(plan: Plan, instance: Instance, measured: MeasuredTruth | None = None) -> Verdict:
    """Judge ``plan`` against ``instance``, with ``measured`` times in place of the performance model's if given.

    Raises
    ------
    InputError
        If the plan does not belong to this instance: it names another instance, an unknown workload, job or GPU type,
        or has a share, batch or rate that is not positive. With ``measured``: if a time was not measured
        (``UnmeasuredError``), or as for ``MeasuredTruth.check``.
    """
    check_belongs(plan, instance)
    if measured is not None:
        measured.check(instance)
    violations: list[Violation] = []
    slots: list[SlotVerdict] = []
    is_mig = instance.partition is Partition.MIG
    view_instance = instance
    if instance.objective is Objective.SCALE and instance.slo_rule.by_share:
        # Budgets depend on the rate of a slot, so the judge takes the budgets at the scale that the plan reaches.
        view_instance = instance.scaled(_scale(plan, instance) or 1.0)
    views = {} if is_mig else {pool.type.name: View.of(view_instance, pool.type) for pool in instance.gpus}
    over_capacity_pct = None
    if instance.objective is Objective.COLOCATION:
        slots, violations, over_capacity_pct = judge_colocation(plan, instance, views)
    else:
        unequal_rps = _unequal_rates_rps(plan, instance)
        for position, gpu in enumerate(plan.gpus):
            if is_mig:
                gpu_slots, gpu_violations = judge_mig_gpu(position, gpu, instance)
            else:
                gpu_slots, gpu_violations = _judge_gpu(position, gpu, views[gpu.type], unequal_rps, measured)
            slots += gpu_slots
            violations += gpu_violations
    violations += _judge_pool(plan, instance)
    violations += _judge_rates(plan, instance)

    used_gpus = [gpu for gpu in plan.gpus if gpu.gpulets]
    types = {pool.type.name: pool.type for pool in instance.gpus}
    cost = instance.cost_per_hour(used_gpus)
    # The shares of a GPU exceed the whole GPU under ``colocation``, or if the plan breaks the constraint on shares.
    free_pct = [100.0 * max(0.0, 1.0 - gpu.share_units / types[gpu.type].share_units) for gpu in used_gpus]
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
        fragments_pct=math.fsum(free_pct) / len(used_gpus) if used_gpus else 0.0,
        utilisation_pct=math.fsum(busy_pct) / len(used_gpus) if used_gpus else 0.0,
        slots=tuple(slots),
        over_capacity_pct=over_capacity_pct,
        least_slack=min((slot.slack for slot in slots if slot.slack is not None), default=None),
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
            pool_types = [pool.type.name for pool in instance.gpus]
            raise unknown_name(f"{where}: gpus[{g}].type", "GPU type", gpu.type, pool_types)
        for p, gpulet in enumerate(gpu.gpulets):
            place = f"{where}: gpus[{g}].gpulets[{p}]"
            if gpulet.share_units < 1 or not gpulet.slots:
                raise InputError(place, "expected at least one share unit and one slot")
            if gpulet.share_units > pool.type.share_units:
                message = f"{gpulet.share_units}; a {pool.type.name} has {pool.type.share_units} share units"
                raise InputError(f"{place}.share_units", message)
            cycle_ms = gpulet.duty_cycle_ms
            if cycle_ms is None and len(gpulet.slots) > 1:
                raise InputError(place, "slots that take turns need a duty_cycle_ms")
            if cycle_ms is not None and not 0.0 < cycle_ms < math.inf:
                raise InputError(f"{place}.duty_cycle_ms", f"{cycle_ms} is not a finite time greater than 0")
            check_mig_gpulet(gpulet, instance.partition, place)
            if instance.objective is Objective.COLOCATION:
                check_shared_gpulet(gpulet, pool.type, place)
            for s, slot in enumerate(gpulet.slots):
                slot_place = f"{place}.slots[{s}]"
                if slot.workload not in instance.model_of:
                    kind = "job" if instance.objective is Objective.COLOCATION else "workload"
                    raise unknown_name(f"{slot_place}.workload", kind, slot.workload, list(instance.model_of))
                if slot.batch < 1 or not 0.0 < slot.rate_rps < math.inf:
                    raise InputError(slot_place, "expected a positive batch and a positive, finite rate_rps")


def _judge_gpu(
    position: int, gpu: PlacedGpu, view: View, unequal_rps: Mapping[str, float], measured: MeasuredTruth | None
) -> tuple[list[SlotVerdict], list[Violation]]:
    """Judge one GPU: shares, memory, batches, and the latency of every slot with its neighbours."""
    tables, allocated = view.tables, gpu.share_units
    violations: list[Violation] = []
    if allocated > tables.share_units:
        message = f"GPU {position}: {allocated} share units allocated, {tables.share_units} exist"
        violations.append(Violation("share", position, None, allocated, tables.share_units, message))
    for gpulet in gpu.gpulets:
        if view.gpu.allowed_shares is not None and gpulet.share_units not in view.gpu.allowed_shares:
            message = f"GPU {position}: a share of {gpulet.share_units} units is not permitted on {gpu.type}"
            violations.append(Violation("allowed-share", position, None, gpulet.share_units, 0, message))
    slots = [slot for gpulet in gpu.gpulets for slot in gpulet.slots]
    unsupported = unsupported_batches(position, slots, view)
    if unsupported:  # if there are no figures for one batch, no slot on the GPU has a prediction
        return [], [*violations, *unsupported]

    violations += excess_memory(position, slots, view)
    demands = view.demands(gpu, tables)
    slot_verdicts: list[SlotVerdict] = []
    measured_ms = None if measured is None else measured.gpu_times_ms(position, gpu, view)
    for gpulet_number, gpulet in enumerate(gpu.gpulets):
        times_ms = (
            [
                gpu_time_beside_ms(
                    view.tables, _model_row(view, slot), slot.batch, gpulet.share_units, demands, gpulet_number
                )
                for slot in gpulet.slots
            ]
            if measured_ms is None
            else [measured_ms[gpulet_number]]
        )
        gpulet_verdicts, gpulet_violations = _judge_gpulet(position, gpulet, view, times_ms, unequal_rps)
        slot_verdicts += gpulet_verdicts
        violations += gpulet_violations
    return slot_verdicts, violations


def _judge_gpulet(
    position: int, gpulet: Gpulet, view: View, times_ms: Sequence[float], unequal_rps: Mapping[str, float]
) -> tuple[list[SlotVerdict], list[Violation]]:
    """Judge the slots of one gpulet, whose GPU times are ``times_ms``: duty cycle, latencies and rates."""
    tables, buffer = view.tables, view.instance.latency_buffer
    slot_verdicts: list[SlotVerdict] = []
    violations: list[Violation] = []
    units = gpulet.share_units
    cycle_ms = gpulet.duty_cycle_ms
    if cycle_ms is not None and not view.instance.takes_turns:
        rule = CONTINUOUS if view.instance.services else view.instance.slo_rule
        problem = f"a gpulet has a duty cycle of {cycle_ms:g} ms; under {rule} its latencies have no bound"
        violations.append(Violation("duty-cycle", position, None, cycle_ms, math.inf, f"GPU {position}: {problem}"))
    inference_ms = [
        time_ms + float(tables.transfer_ms[_model_row(view, slot), slot.batch])
        for time_ms, slot in zip(times_ms, gpulet.slots, strict=True)
    ]
    if cycle_ms is not None and (busy_ms := buffer * math.fsum(inference_ms)) > widened(cycle_ms):
        message = f"GPU {position}: the slots of a gpulet take {busy_ms:.3f} ms of {cycle_ms:g} ms"
        violations.append(Violation("duty-cycle", position, None, busy_ms, cycle_ms, message))

    for slot, gpu_ms, inference_time_ms in zip(gpulet.slots, times_ms, inference_ms, strict=True):
        workload_index, model = view.instance.workload_index[slot.workload], _model_row(view, slot)
        if cycle_ms is None:
            budget_ms = float(view.budgets_at_ms(workload_index, slot.batch, slot.rate_rps, units))
            rates_rps = [slot.rate_rps]
            if slot.workload in unequal_rps:
                # At a rate below the planned rate, a batch fills more slowly, and its first request waits longer (InSS,
                # equation 3). The smaller budget counts, so a rate that is planned too low gains no budget.
                arriving_rps = float(view.rate_rps[workload_index]) * (slot.rate_rps / unequal_rps[slot.workload])
                budget_ms = min(budget_ms, float(view.budgets_at_ms(workload_index, slot.batch, arriving_rps, units)))
                rates_rps.append(arriving_rps)
            slack = steady_slack(view, workload_index, slot.batch, rates_rps, budget_ms, gpu_ms)
            period_ms = gpu_ms + float(tables.exposed_ms[model, slot.batch])
        else:
            # With the duty cycle D: D + t_inf <= SLO, and rate <= 1000 batch / D
            budget_ms = (widened(float(view.slo_ms[workload_index])) - cycle_ms) / buffer - (inference_time_ms - gpu_ms)
            slack = turn_slack(
                float(view.slo_ms[workload_index]), cycle_ms, inference_time_ms, math.fsum(inference_ms), buffer
            )
            period_ms = cycle_ms
            if slot.rate_rps * cycle_ms > widened(1000.0 * slot.batch):
                most_rps = 1000.0 * slot.batch / cycle_ms
                message = f"GPU {position}, {slot.workload}: {slot.rate_rps:g} req/s, the cycle serves {most_rps:g}"
                violations.append(Violation("rate", position, slot.workload, most_rps, slot.rate_rps, message))
        if not gpu_ms <= budget_ms:
            message = (
                f"GPU {position}, {slot.workload}: GPU time {gpu_ms:.3f} ms exceeds its budget of {budget_ms:.3f} ms"
                f" (batch {slot.batch}, {slot.rate_rps:g} req/s, SLO {view.slo_ms[workload_index]:g} ms)"
            )
            violations.append(Violation("latency", position, slot.workload, gpu_ms, budget_ms, message))
        # A request takes part in one batch or, while a language model decodes it, in one batch per step.
        passes = max(1, view.instance.workloads[workload_index].steps)
        throughput_rps = 1000.0 * slot.batch / (passes * period_ms) if period_ms < math.inf else 0.0
        executing_ms = period_ms if cycle_ms is None else inference_time_ms
        busy = min(1.0, slot.rate_rps * passes * executing_ms / (1000.0 * slot.batch))
        slot_verdicts.append(
            SlotVerdict(position, slot.workload, gpu_ms, inference_time_ms, budget_ms, throughput_rps, busy, slack)
        )
    return slot_verdicts, violations


def _model_row(view: View, slot: Slot) -> int:
    return int(view.model[view.instance.workload_index[slot.workload]])


def _judge_pool(plan: Plan, instance: Instance) -> list[Violation]:
    """Check that the plan uses no more GPUs of a type than the pool has."""
    violations = []
    for pool in instance.gpus:
        used_count = sum(gpu.type == pool.type.name for gpu in plan.gpus if gpu.gpulets)
        if pool.count is not None and used_count > pool.count:
            message = f"{used_count} GPUs of type {pool.type.name} used, the pool has {pool.count}"
            violations.append(Violation("pool", None, None, used_count, pool.count, message))
    return violations


def _unequal_rates_rps(plan: Plan, instance: Instance) -> dict[str, float]:
    """Return the total planned rate of each workload whose planned rate differs from its arriving rate.

    Slots must meet their latency budget at both rates. The result is empty under ``goodput``, where the plan sets the
    admitted rates, and under ``scale``, where the plan sets the multiple of the rates.
    """
    if instance.objective not in (Objective.COST, Objective.CAPACITY):
        return {}
    served_by_workload = planned_rps(plan)
    return {
        w.id: served_by_workload[w.id]
        for w in instance.workloads
        if served_by_workload.get(w.id, w.rate_rps) != w.rate_rps
    }


def planned_rps(plan: Plan) -> dict[str, float]:
    """Return the total planned rate of each workload that has a slot, by id."""
    rates_by_workload: dict[str, list[float]] = defaultdict(list)
    for _, _, slot in plan.slots():
        rates_by_workload[slot.workload].append(slot.rate_rps)
    return {workload: math.fsum(rates) for workload, rates in rates_by_workload.items()}


def _judge_rates(plan: Plan, instance: Instance) -> list[Violation]:
    """Check the served rate of every workload against the objective."""
    if instance.objective in (Objective.SCALE, Objective.COLOCATION):
        return []
    served_by_workload = planned_rps(plan)
    violations = []
    if instance.objective is Objective.GOODPUT:
        for position, _, slot in plan.slots():
            arriving_rps = instance.workloads[instance.workload_index[slot.workload]].rate_rps
            steps = slot.rate_rps / (GOODPUT_STEP * arriving_rps)
            if abs(steps - round(steps)) > TOLERANCE * steps:
                problem = f"{slot.rate_rps:g} req/s is not a multiple of 5 % of {arriving_rps:g}"
                message = f"GPU {position}, {slot.workload}: {problem}"
                violations.append(Violation("rate", position, slot.workload, slot.rate_rps, arriving_rps, message))
    for workload in instance.workloads:
        served_rps, arriving_rps = served_by_workload.get(workload.id, 0.0), workload.rate_rps
        message = ""
        if instance.objective is Objective.GOODPUT and served_rps > widened(arriving_rps):
            message = f"{workload.id}: {served_rps:g} req/s served, only {arriving_rps:g} arrive"
        elif instance.objective is not Objective.GOODPUT and widened(served_rps) < arriving_rps:
            message = f"{workload.id}: {served_rps:g} req/s served of {arriving_rps:g}"
        if message:
            violations.append(Violation("rate", None, workload.id, served_rps, arriving_rps, message))
    return violations


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
    served = planned_rps(plan)
    return min((served.get(w.id, 0.0) / w.rate_rps for w in instance.workloads), default=0.0)


def _goodput_rps(plan: Plan, instance: Instance, slots: list[SlotVerdict], violations: list[Violation]) -> float:
    """Return the rates served by slots without violations, at most the arriving rates.

    For best-effort jobs, return the throughput of the jobs on GPUs without violations.
    """
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
    """Return, for every gpulet, its share times its busy fraction, in percent of its GPU."""
    busy_by_gpu: dict[int, list[float]] = defaultdict(list)
    for slot in slots:
        busy_by_gpu[slot.gpu].append(slot.busy)
    busy_pct = []
    for position, gpu in enumerate(plan.gpus):
        busy_of_slots = iter(busy_by_gpu[position])  # empty if a batch has no figures
        for gpulet in gpu.gpulets:
            busy_fraction = min(1.0, math.fsum(islice(busy_of_slots, len(gpulet.slots))))
            busy_pct.append(100.0 * gpulet.share_units / types[gpu.type].share_units * busy_fraction)
    return busy_pct
