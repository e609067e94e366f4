"""Scheduler around a rule that splits GPUs into gpulets: GPU types, pools and objectives."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run, Status
from heuristics.gpulet.margins import Margins, view_with
from heuristics.gpulet.state import Gpulets
from heuristics.packing import cheapest
from heuristics.tiny import tiny_instance
from instances import SCALE_STEP, Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot
from instances.continuous import CONTINUOUS
from instances.parts import MOST_PARTS
from instances.view import View

DOUBLINGS = 3
"""Largest number of times that the number of GPUs is doubled if the pool has no limit and the rule fails."""

CuttingRule = Callable[[View, int], Gpulets | None]
"""Type of a rule: (view, available GPUs) to gpulets that serve every workload, or ``None``."""


@dataclass(frozen=True, slots=True)
class CuttingScheduler:
    """Base of the schedulers that split GPUs into gpulets by the rule ``cut``.

    Attributes
    ----------
    margins
        Reserves of the plans. ``printed``: none beyond the instance's latency buffer. ``glet-code``: those of the
        published code (``heuristics.gpulet.margins``): rates, batch times, latencies and inputs of a GPU.
    """

    name: ClassVar[str]
    objectives: ClassVar[frozenset[Objective]] = frozenset({Objective.COST, Objective.CAPACITY, Objective.SCALE})

    margins: Margins = field(default=Margins.PRINTED, kw_only=True)

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_cutting(self.cut)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return a plan that serves all workloads."""
        return cut_pools(instance, run, self.cut, self.margins)

    def cut(self, view: View, gpus: int) -> Gpulets | None:
        """Serve all workloads on ``gpus`` GPUs of one type; return ``None`` if that fails."""
        raise NotImplementedError


def cut_pools(instance: Instance, run: Run, cut: CuttingRule, margins: Margins = Margins.PRINTED) -> Outcome:
    """Apply the rule to each GPU type separately; return the cheapest plan.

    Under ``scale``, return the plan of the largest scale. Under the other objectives, even ``capacity``, workloads are
    served at their given rates.
    """
    if not instance.takes_turns:
        rule = CONTINUOUS if instance.services else instance.slo_rule
        reason = f"duty cycles give no guarantee under {rule}: the latency of batches that take turns is unknown"
        return Outcome(Status.UNKNOWN, reason=reason)
    if instance.objective is Objective.SCALE:
        return _largest_scale(instance, run, cut, margins)
    plans, reasons = [], []
    for pool in instance.gpus:
        view = view_with(margins, instance, pool.type)
        if (oversized_reason := _oversized_reason(view)) is not None:
            reasons.append(oversized_reason)
            continue
        gpulets = _cut_enough(view, pool, cut)
        if gpulets is None:
            reasons.append(f"not all workloads fit on {pool.in_words}")
        else:
            plans.append(Plan(instance.name, placed_gpus(view, gpulets, instance)))
    return cheapest(plans, instance, "; ".join(reasons))


def _largest_scale(instance: Instance, run: Run, cut: CuttingRule, margins: Margins) -> Outcome:
    """Raise the scale by ``SCALE_STEP`` until the rule fails, on each GPU type separately; return the best plan."""
    largest, best, reasons = 0, None, []
    for pool in instance.gpus:
        if pool.count is None:
            reasons.append(f"scale is unbounded: the pool sets no number of {pool.type.name} GPUs")
            continue
        steps = 0
        while run.remaining_s > 0.0 and instance.workloads:
            scaled = instance.scaled((steps + 1) * SCALE_STEP)
            view = view_with(margins, scaled, pool.type)
            gpulets = None if _oversized_reason(view) else cut(view, pool.count)
            if gpulets is None:
                break
            steps += 1
            if steps > largest:
                largest, best = steps, Plan(instance.name, placed_gpus(view, gpulets, scaled))
                run.report(plan=best)
        if not steps:
            reasons.append(f"the workloads do not fit on {pool.in_words} even at {SCALE_STEP:g} of the rates")
    if best is None:
        return Outcome(Status.UNKNOWN, reason="; ".join(reasons))
    return Outcome(Status.FEASIBLE, best)


def _oversized_reason(view: View) -> str | None:
    """Return a text that names a workload which needs more than ``MOST_PARTS`` whole GPUs; ``None`` without one."""
    full_rps = Gpulets.undivided(view, 0, interference=True).alone_rps[:, view.tables.share_units]
    for workload, limit_rps in zip(view.instance.workloads, (full_rps * MOST_PARTS).tolist(), strict=True):
        if 0.0 < limit_rps < workload.rate_rps:
            rate = f"{workload.rate_rps:g} req/s"
            return f"{workload.id}: {workload.model} asks for {rate}: too much for {MOST_PARTS:,} whole {view.gpu.name}"
    return None


def _cut_enough(view: View, pool: GpuPool, cut: CuttingRule) -> Gpulets | None:
    """Apply the rule to the GPUs of the pool; return ``None`` if it fails.

    In a pool without a limit, the rule first gets the GPUs that the workloads need without sharing, then up to
    ``DOUBLINGS`` times twice as many.
    """
    if pool.count is not None:
        return cut(view, pool.count)
    full_rps = Gpulets.undivided(view, 0, interference=True).alone_rps[:, view.tables.share_units]
    if np.any(full_rps <= 0.0):
        return None
    gpus = int(np.ceil(view.rate_rps / full_rps).sum())
    tries = (cut(view, gpus * 2**doublings) for doublings in range(DOUBLINGS + 1))
    return next((gpulets for gpulets in tries if gpulets is not None), None)


def placed_gpus(view: View, gpulets: Gpulets, instance: Instance) -> tuple[PlacedGpu, ...]:
    """Return the GPUs in use as GPUs of a plan that serves the rates of ``instance``.

    If the view has a larger rate for a workload, the rates of all its slots are reduced by the same factor. A gpulet
    with one slot gets no duty cycle: no other slot waits for its turn.
    """
    workloads = instance.workloads
    rate_factor = [
        workload.rate_rps / view_rps if view_rps > 0.0 else 1.0
        for workload, view_rps in zip(workloads, view.rate_rps.tolist(), strict=True)
    ]
    gpus = []
    for g in range(0, len(gpulets.units), 2):
        gpu_gpulets = []
        for i in (g, g + 1):
            slots = tuple(
                Slot(workloads[w].id, int(gpulets.batch[i, s]), float(gpulets.rate_rps[i, s]) * rate_factor[w])
                for s, w in enumerate(gpulets.workload[i, : gpulets.slots[i]].tolist())
            )
            if slots:
                cycle = float(gpulets.cycle_ms[i]) if len(slots) > 1 else None
                gpu_gpulets.append(Gpulet(int(gpulets.units[i]), slots, cycle))
        if gpu_gpulets:
            gpus.append(PlacedGpu(view.gpu.name, tuple(gpu_gpulets)))
    return tuple(gpus)


def warm_cutting(cut: CuttingRule) -> None:
    """Run a rule once on a tiny instance, so that its kernels are loaded before time is measured."""
    cut_pools(tiny_instance(Objective.COST, SloRule.DUTY_CYCLE), Run(), cut)
