"""The judge's rules for best-effort jobs that share whole GPUs (MediatorDNN): nothing is promised, much is measured.

Every job has a gpulet of the whole GPU: all of it is open to each, as under MPS without limits. A slot's ``batch`` is
the largest that the job puts on the GPU at once; its ``rate_rps`` is what the scheduler expects and decides nothing.
The jobs of each GPU run side by side for 200 seconds as ``instances.colocation`` describes, on batches that no
scheduler has seen; the instance's seed draws them, so that every plan meets the same. Three scores come of it: requests
served per second, GPUs used, and the time over capacity, in which the jobs of a GPU ask for more than all of it
(Fig. 9).

Kinds of violation: ``job`` (it is not placed exactly once), ``batch`` (larger than what has figures) and ``memory``.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from bench.judging.verdict import SlotVerdict, Violation
from instances import Gpulet, GpuType, InputError, Instance, PlacedGpu, Plan, Slot
from instances.colocation import Launches, Sample, draw_launches, run_alone, run_together
from instances.view import View

_FULL = 1.0 + 1e-9
"""All of a GPU, with room for rounding."""


def check_shared_gpulet(gpulet: Gpulet, gpu: GpuType, where: str) -> None:
    """Make sure that a gpulet is one job's, of the whole GPU.

    Raises
    ------
    InputError
        If it is not; ``where`` names its place in the plan.
    """
    if len(gpulet.slots) > 1 or gpulet.duty_cycle_ms is not None or gpulet.share_units != gpu.share_units:
        problem = f"under colocation a gpulet is one job's, has all {gpu.share_units} share units and no duty cycle"
        raise InputError(where, problem)


def judge_colocation(
    plan: Plan, instance: Instance, views: Mapping[str, View]
) -> tuple[list[SlotVerdict], list[Violation], float]:
    """Judge the GPUs and the grouping.

    Returns
    -------
    tuple
        What is predicted for the slots, the violations, and the time over capacity in percent: the mean over GPUs that
        run something. A GPU with a batch that has no figures has no predictions and counts with none.
    """
    judged: list[SlotVerdict] = []
    found = _judge_groups(plan, instance)
    over_pct = []
    for position, gpu in enumerate(plan.gpus):
        slots = [slot for gpulet in gpu.gpulets for slot in gpulet.slots]
        view = views[gpu.type]
        wrong = _judge_batches(position, slots, view)
        if slots and not wrong:
            judged += _judge_slots(position, slots, view)
            over_pct.append(over_capacity_pct(demand_over_time(gpu, view)))
            wrong = _judge_memory(position, slots, view)
        found += wrong
    return judged, found, math.fsum(over_pct) / len(over_pct) if over_pct else 0.0


def demand_over_time(gpu: PlacedGpu, view: View) -> NDArray[np.float64]:
    """Return the part of a GPU that each job of ``gpu`` would take in each second if it had one to itself.

    Returns
    -------
    numpy.ndarray
        Shape (jobs, seconds), in plan order.
    """
    return run_alone(view.tables, [_drawn(slot, view) for gpulet in gpu.gpulets for slot in gpulet.slots])


def over_capacity_pct(demand: NDArray[np.float64]) -> float:
    """Return in percent how much of the time jobs with this demand ask for more than all of their GPU."""
    return 100.0 * float((demand.sum(axis=0) > _FULL).mean())


def _judge_groups(plan: Plan, instance: Instance) -> list[Violation]:
    """Check that every job is placed once."""
    placed = Counter(slot.workload for _, _, slot in plan.slots())
    return [
        Violation("job", None, job.id, placed[job.id], 1, f"{job.id}: placed {placed[job.id]} times, expected once")
        for job in instance.jobs
        if placed[job.id] != 1
    ]


def _judge_batches(position: int, slots: Sequence[Slot], view: View) -> list[Violation]:
    found = []
    for slot in slots:
        top = view.gpu.models[view.instance.model_of[slot.workload]].max_batch
        if slot.batch > top:
            message = f"GPU {position}, {slot.workload}: batch {slot.batch}, figures exist up to {top}"
            found.append(Violation("batch", position, slot.workload, slot.batch, top, message))
    return found


def _judge_memory(position: int, slots: Sequence[Slot], view: View) -> list[Violation]:
    limit = view.gpu.memory_mib
    models = (view.gpu.models[view.instance.model_of[slot.workload]] for slot in slots)
    memory = math.fsum(model.memory_mib(slot.batch) for model, slot in zip(models, slots, strict=True))
    if memory <= limit:
        return []
    message = f"GPU {position}: {memory:.0f} MiB resident, {limit:.0f} MiB exist"
    return [Violation("memory", position, None, memory, limit, message)]


def _judge_slots(position: int, slots: Sequence[Slot], view: View) -> list[SlotVerdict]:
    """Run the jobs of one GPU side by side. Times are means over completed launches; infinite where there is none."""
    drawn = [_drawn(slot, view) for slot in slots]
    done = run_together(view.tables, drawn)
    judged = []
    for n, (slot, job) in enumerate(zip(slots, drawn, strict=True)):
        count = int(done.launches[n])
        gpu_ms = float(done.on_gpu_ms[n]) / count if count else math.inf
        transfer_ms = float(view.tables.transfer_ms[job.model, job.batch[:count]].mean()) if count else 0.0
        throughput_rps, busy = float(done.throughput_rps[n]), float(done.taken[n].mean())
        judged.append(
            SlotVerdict(position, slot.workload, gpu_ms, gpu_ms + transfer_ms, math.inf, throughput_rps, busy)
        )
    return judged


def _drawn(slot: Slot, view: View) -> Launches:
    """Draw the batches that a slot's job meets."""
    job = next(job for job in view.instance.jobs if job.id == slot.workload)
    model = list(view.gpu.models).index(job.model)
    return draw_launches(view.tables, model, job, slot.batch, view.instance.seed, Sample.TRIAL)
