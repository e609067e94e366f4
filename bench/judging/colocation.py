"""Rules of the judge for best-effort jobs that share whole GPUs (MediatorDNN).

Every job has a gpulet of the whole GPU, as under MPS without limits. A slot's ``batch`` is the largest batch of the
job. Its ``rate_rps`` is the scheduler's estimate and has no effect. The jobs of each GPU run concurrently for 200
seconds, as ``instances.colocation`` describes, on batches unknown to the schedulers. The instance's seed draws these
batches, so they are the same for every plan. The run gives three scores: requests served per second, GPUs used, and
time over capacity, in which the jobs of a GPU need more than the whole GPU (Fig. 9).

Kinds of violation: ``job`` (not placed exactly once), ``batch`` (larger than the largest with figures) and ``memory``.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from bench.judging.verdict import SlotVerdict, Violation
from instances import Gpulet, GpuType, InputError, Instance, PlacedGpu, Plan, Slot
from instances.arrays import Floats
from instances.colocation import Launches, Sample, draw_launches, run_alone, run_together
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
    """Judge the GPUs and the grouping.

    Returns
    -------
    tuple
        The predictions for the slots, the violations, and the time over capacity in percent as a mean over used GPUs.
        A GPU with a batch without figures has no predictions and does not count in the mean.
    """
    judged: list[SlotVerdict] = []
    found = _judge_groups(plan, instance)
    over_pct = []
    for position, gpu in enumerate(plan.gpus):
        slots = [slot for gpulet in gpu.gpulets for slot in gpulet.slots]
        view = views[gpu.type]
        wrong = unsupported_batches(position, slots, view)
        if slots and not wrong:
            judged += _judge_slots(position, slots, view)
            over_pct.append(over_capacity_pct(demand_over_time(gpu, view)))
            wrong = excess_memory(position, slots, view)
        found += wrong
    return judged, found, math.fsum(over_pct) / len(over_pct) if over_pct else 0.0


def demand_over_time(gpu: PlacedGpu, view: View) -> Floats:
    """Return the fraction of a GPU that each job of ``gpu`` uses in each second if it runs alone.

    Returns
    -------
    numpy.ndarray
        Shape (jobs, seconds), in plan order.
    """
    return run_alone(view.tables, [_drawn(slot, view) for gpulet in gpu.gpulets for slot in gpulet.slots])


def over_capacity_pct(demand: Floats) -> float:
    """Return the percentage of the time in which jobs with this demand need more than their whole GPU."""
    return 100.0 * float((demand.sum(axis=0) > _FULL).mean())


def _judge_groups(plan: Plan, instance: Instance) -> list[Violation]:
    """Check that every job is placed exactly once."""
    placed = Counter(slot.workload for _, _, slot in plan.slots())
    return [
        Violation("job", None, job.id, placed[job.id], 1, f"{job.id}: placed {placed[job.id]} times, expected once")
        for job in instance.jobs
        if placed[job.id] != 1
    ]


def unsupported_batches(position: int, slots: Sequence[Slot], view: View) -> list[Violation]:
    """Return a violation for every slot whose batch is larger than the largest with figures."""
    found = []
    for slot in slots:
        top = view.gpu.models[view.instance.model_of[slot.workload]].max_batch
        if slot.batch > top:
            message = f"GPU {position}, {slot.workload}: batch {slot.batch}, figures exist up to {top}"
            found.append(Violation("batch", position, slot.workload, slot.batch, top, message))
    return found


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
    """Run the jobs of one GPU concurrently; times are means over completed launches, or infinite without one."""
    drawn = [_drawn(slot, view) for slot in slots]
    done = run_together(view.tables, drawn)
    judged = []
    for n, (slot, job) in enumerate(zip(slots, drawn, strict=True)):
        count = int(done.launches[n])
        gpu_ms = float(done.on_gpu_ms[n]) / count if count else math.inf
        transfer_ms = float(view.tables.transfer_ms[job.model, job.batch[:count]].mean()) if count else 0.0
        throughput_rps, busy = float(done.throughput_rps[n]), float(done.utilisation[n].mean())
        judged.append(
            SlotVerdict(position, slot.workload, gpu_ms, gpu_ms + transfer_ms, math.inf, throughput_rps, busy)
        )
    return judged


def _drawn(slot: Slot, view: View) -> Launches:
    """Draw the batches of a slot's job."""
    job = next(job for job in view.instance.jobs if job.id == slot.workload)
    model = list(view.gpu.models).index(job.model)
    return draw_launches(view.tables, model, job, slot.batch, view.instance.seed, Sample.TRIAL)
