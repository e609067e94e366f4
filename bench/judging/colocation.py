"""Rules of the judge for best-effort jobs that share whole GPUs (MediatorDNN).

Every job has a gpulet of the whole GPU, as under MPS without limits. A slot's ``batch`` is the largest batch of the
job. Its ``rate_rps`` is the scheduler's estimate and has no effect. The judge simulates the jobs of each GPU together
for 200 seconds, as ``instances.colocation`` describes. Their batches are unknown to the schedulers. The instance's seed
determines these batches, so they are the same for every plan. The simulation gives three scores: requests served per
second, GPUs used, and the time in which the jobs of a GPU need more than the whole GPU (Fig. 9).

Kinds of violation: ``job`` (not placed exactly once), ``batch`` (larger than the largest profiled batch) and
``memory``.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from bench.judging.verdict import SlotVerdict, Violation
from instances import Gpulet, GpuType, InputError, Instance, PlacedGpu, Plan, Slot
from instances.arrays import Floats
from instances.colocation import Launches, Sample, draw_launches, run_alone, run_together
from instances.performance import performance_model
from instances.tolerance import widened
from instances.view import View

_FULL = widened(1.0)
"""Whole GPU, with the tolerance of constraints."""


def check_shared_gpulet(gpulet: Gpulet, gpu: GpuType, where: str) -> None:
    """Check that a gpulet belongs to one job and has the whole GPU.

    Raises
    ------
    InputError
        If it does not; ``where`` is the position in the plan.
    """
    if len(gpulet.slots) > 1 or gpulet.duty_cycle_ms is not None or gpulet.share_units != gpu.share_units:
        problem = f"under colocation, a gpulet has one job, all {gpu.share_units} share units and no duty cycle"
        raise InputError(where, problem)


def judge_colocation(
    plan: Plan, instance: Instance, views: Mapping[str, View]
) -> tuple[list[SlotVerdict], list[Violation], float]:
    """Judge the placement of the jobs, and the batches, memory and throughput of the jobs on every GPU.

    Returns
    -------
    tuple
        The predictions for the slots, the violations, and the time over capacity in percent as a mean over used GPUs.
        A GPU with an unprofiled batch has no predictions and does not count in the mean.
    """
    slot_verdicts: list[SlotVerdict] = []
    violations = _judge_placements(plan, instance)
    over_pct = []
    for position, gpu in enumerate(plan.gpus):
        slots = [slot for gpulet in gpu.gpulets for slot in gpulet.slots]
        view = views[gpu.type]
        new_violations = unsupported_batches(position, slots, view)
        if slots and not new_violations:
            slot_verdicts += _judge_slots(position, slots, view)
            over_pct.append(over_capacity_pct(demand_over_time(gpu, view)))
            new_violations = excess_memory(position, slots, view)
        violations += new_violations
    return slot_verdicts, violations, math.fsum(over_pct) / len(over_pct) if over_pct else 0.0


def demand_over_time(gpu: PlacedGpu, view: View, sample: Sample = Sample.TRIAL) -> Floats:
    """Return the fraction of a GPU that each job of ``gpu`` uses in each second if it runs alone.

    Parameters
    ----------
    sample
        Batches of the jobs: those by which plans are judged, or those that schedulers see.

    Returns
    -------
    numpy.ndarray
        Shape (jobs, seconds), in plan order.
    """
    return run_alone(view.tables, [_drawn(slot, view, sample) for gpulet in gpu.gpulets for slot in gpulet.slots])


def over_capacity_pct(demand: Floats) -> float:
    """Return the percentage of the time in which jobs with this demand need more than their whole GPU."""
    return 100.0 * float((demand.sum(axis=0) > _FULL).mean())


def _judge_placements(plan: Plan, instance: Instance) -> list[Violation]:
    """Check that every job is placed exactly once."""
    placed = Counter(slot.workload for _, _, slot in plan.slots())
    return [
        Violation("job", None, job.id, placed[job.id], 1, f"{job.id}: placed {placed[job.id]} times, expected once")
        for job in instance.jobs
        if placed[job.id] != 1
    ]


def unsupported_batches(position: int, slots: Sequence[Slot], view: View) -> list[Violation]:
    """Return a violation for every slot whose batch is larger than the largest profiled batch."""
    violations = []
    for slot in slots:
        largest_batch = view.gpu.models[view.instance.model_of[slot.workload]].max_batch
        if slot.batch > largest_batch:
            message = f"GPU {position}, {slot.workload}: batch {slot.batch}, figures exist up to {largest_batch}"
            violations.append(Violation("batch", position, slot.workload, slot.batch, largest_batch, message))
    return violations


def excess_memory(position: int, slots: Sequence[Slot], view: View) -> list[Violation]:
    """Return a violation if the slots of a GPU need more memory than it has."""
    rows = {name: row for row, name in enumerate(view.gpu.models)}
    memory = sum(
        float(view.tables.memory_mib[rows[view.instance.model_of[slot.workload]], slot.batch]) for slot in slots
    )
    if memory <= view.tables.memory_limit_mib:
        return []
    limit = view.gpu.memory_mib
    message = f"GPU {position}: {memory:.0f} MiB resident, {limit:.0f} MiB exist"
    return [Violation("memory", position, None, memory, limit, message)]


def _judge_slots(position: int, slots: Sequence[Slot], view: View) -> list[SlotVerdict]:
    """Simulate the jobs of one GPU together; return their mean times over completed launches, or infinite times."""
    launches = [_drawn(slot, view, Sample.TRIAL) for slot in slots]
    run = run_together(view.tables, launches, performance_model(view.instance.performance_model).concurrent)
    slot_verdicts = []
    for row, (slot, job_launches) in enumerate(zip(slots, launches, strict=True)):
        completed = int(run.launches[row])
        gpu_ms = float(run.on_gpu_ms[row]) / completed if completed else math.inf
        transfer_ms = (
            float(view.tables.transfer_ms[job_launches.model, job_launches.batch[:completed]].mean())
            if completed
            else 0.0
        )
        throughput_rps, busy = float(run.throughput_rps[row]), float(run.utilisation[row].mean())
        slot_verdicts.append(
            SlotVerdict(position, slot.workload, gpu_ms, gpu_ms + transfer_ms, math.inf, throughput_rps, busy)
        )
    return slot_verdicts


def _drawn(slot: Slot, view: View, sample: Sample) -> Launches:
    """Draw the batches of a slot's job."""
    job = next(job for job in view.instance.jobs if job.id == slot.workload)
    model = list(view.gpu.models).index(job.model)
    return draw_launches(view.tables, model, job, slot.batch, view.instance.seed, sample)
