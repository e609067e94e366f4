"""Scheduler around a rule that cuts GPUs into gpulets: GPU types, pools and objectives."""

from collections.abc import Callable

import numpy as np

from bench.api import Outcome, Run, Status
from heuristics.gpulets import Gpulets, GpuletTerms, alone_rps
from instances import Gpulet, GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from instances.catalogue import gpu_type
from instances.view import View

OBJECTIVES = frozenset({Objective.COST, Objective.CAPACITY, Objective.SCALE})

SCALE_STEP = 0.005
"""Scales are multiples of this."""

DOUBLINGS = 3
"""Of the GPUs that are tried where there is no limit."""

Cut = Callable[[View, int], Gpulets | None]
"""A rule: (view, GPUs available) to gpulets that serve every workload, or ``None``."""


def terms_of(view: View, interference: bool) -> GpuletTerms:
    """Return what the instance of ``view`` asks for."""
    terms = GpuletTerms(view.model, view.slo_ms, view.instance.latency_buffer, interference, np.zeros((0, 0)))
    return terms._replace(alone_rps=alone_rps(view.tables, terms))


def cut_pools(instance: Instance, run: Run, cut: Cut) -> Outcome:
    """Cut the GPUs of each type alone and keep the best plan: the cheapest, under ``scale`` the one of the largest.

    Rates are served as asked and not exceeded, under ``capacity`` too.
    """
    if instance.objective is Objective.SCALE:
        return _largest_scale(instance, run, cut)
    found: list[tuple[float, Plan]] = []
    reasons = []
    for pool in instance.gpus:
        view = View.of(instance, pool.type)
        gpulets = _cut_enough(view, pool, cut)
        if gpulets is None:
            reasons.append(f"not everything fits on {_offer(pool)}")
            continue
        gpus = placed_gpus(view, gpulets)
        found.append((pool.type.price_per_hour * len(gpus), Plan(instance.name, gpus)))
    if not found:
        return Outcome(Status.UNKNOWN, reason="; ".join(reasons))
    return Outcome(Status.FEASIBLE, min(found, key=lambda each: each[0])[1])


def _largest_scale(instance: Instance, run: Run, cut: Cut) -> Outcome:
    """Return the plan of the largest scale on the grid before the first failure, over the GPU types."""
    largest, best, reasons = 0, None, []
    for pool in instance.gpus:
        if pool.count is None:
            reasons.append(f"scale has no limit: the pool has as many {pool.type.name} as needed")
            continue
        steps = 0
        while run.remaining_s > 0.0 and instance.workloads:
            view = View.of(instance.scaled((steps + 1) * SCALE_STEP), pool.type)
            gpulets = cut(view, pool.count)
            if gpulets is None:
                break
            steps += 1
            if steps > largest:
                largest, best = steps, Plan(instance.name, placed_gpus(view, gpulets))
                run.report(plan=best)
        if not steps:
            reasons.append(f"nothing fits on {_offer(pool)} at {SCALE_STEP:g} of the rates")
    if best is None:
        return Outcome(Status.UNKNOWN, reason="; ".join(reasons))
    return Outcome(Status.FEASIBLE, best)


def _offer(pool: GpuPool) -> str:
    return f"{'any number of' if pool.count is None else pool.count} {pool.type.name}"


def _cut_enough(view: View, pool: GpuPool, cut: Cut) -> Gpulets | None:
    """Cut the GPUs of the pool or, where there is no limit, as many as it takes: first those that whole GPUs would."""
    if pool.count is not None:
        return cut(view, pool.count)
    full_rps = terms_of(view, interference=True).alone_rps[:, view.tables.share_units]
    if np.any(full_rps <= 0.0):
        return None
    gpus = int(np.ceil(view.rate_rps / full_rps).sum())
    tries = (cut(view, gpus << doubled) for doubled in range(DOUBLINGS + 1))
    return next((gpulets for gpulets in tries if gpulets is not None), None)


def placed_gpus(view: View, gpulets: Gpulets) -> tuple[PlacedGpu, ...]:
    """Return the GPUs in use as a plan has them.

    A gpulet with one slot needs no cycle: batches that are collected within one meet every other analytic rule too.
    """
    workloads = view.instance.workloads
    keeps_cycle = view.instance.slo_rule is SloRule.P99
    gpus = []
    for g in range(0, len(gpulets.units), 2):
        cut = []
        for i in (g, g + 1):
            slots = tuple(
                Slot(workloads[w].id, b, r)
                for w, b, r in zip(
                    gpulets.workload[i, : gpulets.slots[i]].tolist(),
                    gpulets.batch[i, : gpulets.slots[i]].tolist(),
                    gpulets.rate_rps[i, : gpulets.slots[i]].tolist(),
                    strict=True,
                )
            )
            if slots:
                cycle = float(gpulets.cycle_ms[i]) if len(slots) > 1 or keeps_cycle else None
                cut.append(Gpulet(int(gpulets.units[i]), slots, cycle))
        if cut:
            gpus.append(PlacedGpu(view.gpu.name, tuple(cut)))
    return tuple(gpus)


def warm_cutting(cut: Cut) -> None:
    """Run a rule once on a tiny instance, so that its kernels are loaded before the clock starts."""
    tiny = tuple(Workload(f"w{n}", "alexnet", 20.0, 100.0) for n in range(2))
    pool = GpuPool(gpu_type("v100"), 1)
    cut_pools(Instance("warm", Objective.COST, SloRule.DUTY_CYCLE, "igniter", (pool,), tiny), Run(), cut)
