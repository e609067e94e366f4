"""Scheduler around a packing rule: GPU types, pools and objectives, for iGniter and its baselines."""

from collections.abc import Callable

import numpy as np

from bench.api import Outcome, Status
from heuristics.demand_items import DemandItems, UnservableError, placed_gpus
from instances import GpuPool, Instance, Objective, PlacedGpu, Plan, SloRule, Workload
from instances.arrays import Ints
from instances.catalogue import gpu_type
from instances.one_gpu import Resident, fit_gpu
from instances.spare_shares import throughput_rps
from instances.view import View

Packing = tuple[Ints, Ints, Ints, Ints]
"""Result of a packing kernel: column of each item (-1 if it was left out), and per GPU the residents' items, their
share units and their number; see ``heuristics.demand_items.placed_gpus``."""

Pack = Callable[[View, DemandItems, int], Packing]
"""Type of a packing rule: (view, items, available GPUs) to a packing."""


def pack_pools(instance: Instance, pack: Pack, spend_spare: bool) -> Outcome:
    """Pack onto each GPU type alone and return the best plan (iGniter, Sec. 4.1, last paragraph).

    Under ``cost`` that is the cheapest type with a large enough pool, under ``capacity`` and ``goodput`` the one with
    the largest value.

    Parameters
    ----------
    instance
        The instance to solve.
    pack
        The packing rule.
    spend_spare
        Distribute the spare shares of each GPU (``capacity`` only).
    """
    best: tuple[float, tuple[PlacedGpu, ...]] | None = None
    reasons = []
    for pool in instance.gpus:
        view = View.of(instance, pool.type)
        try:
            items = DemandItems.of(view)
        except UnservableError as why:
            reasons.append(str(why))
            continue
        column, resident, units, residents = pack(view, items, _available(pool, len(items.workload)))
        left_out = int(np.count_nonzero(column < 0))
        if left_out and instance.objective is not Objective.GOODPUT:
            offered = "any number of" if pool.count is None else pool.count
            reasons.append(f"{left_out} of {len(column)} do not fit on {offered} GPUs of type {pool.type.name}")
            continue
        gpus = placed_gpus(view, items, column, resident, units, residents)
        if spend_spare and instance.objective is Objective.CAPACITY:
            gpus = tuple(with_spare_spent(view, gpu) for gpu in gpus)
        worth = _worth(view, pool, gpus)
        if best is None or worth > best[0]:
            best = (worth, gpus)
    if best is None:
        unservable = len(reasons) == len(instance.gpus) and not any("do not fit" in reason for reason in reasons)
        return Outcome(Status.INFEASIBLE if unservable else Status.UNKNOWN, reason="; ".join(reasons))
    return Outcome(Status.FEASIBLE, Plan(instance.name, best[1]))


def _available(pool: GpuPool, items: int) -> int:
    return items if pool.count is None else min(pool.count, items)


def _worth(view: View, pool: GpuPool, gpus: tuple[PlacedGpu, ...]) -> float:
    """Return the value of a plan for comparison; larger is better."""
    if view.instance.objective is Objective.COST:
        return -pool.type.price_per_hour * len(gpus)
    if view.instance.objective is Objective.CAPACITY:
        return sum(_throughput_rps(view, gpu) for gpu in gpus)
    return sum(slot.rate_rps for gpu in gpus for gpulet in gpu.gpulets for slot in gpulet.slots)


def _throughput_rps(view: View, gpu: PlacedGpu) -> float:
    """Return the largest throughput of the slots of one GPU."""
    placed = [(gpulet.share_units, slot) for gpulet in gpu.gpulets for slot in gpulet.slots]
    total: float = throughput_rps(
        view.tables,
        view.model[[view.instance.workload_index[slot.workload] for _, slot in placed]],
        np.array([slot.batch for _, slot in placed], dtype=np.int64),
        np.array([units for units, _ in placed], dtype=np.int64),
    )
    return total


def with_spare_spent(view: View, gpu: PlacedGpu) -> PlacedGpu:
    """Return the same residents with the spare shares distributed, or ``gpu`` unchanged if its residents do not fit."""
    residents = [
        Resident(view.instance.workload_index[slot.workload], slot.batch, slot.rate_rps)
        for gpulet in gpu.gpulets
        for slot in gpulet.slots
    ]
    return fit_gpu(view, residents, spend_spare=True) or gpu


def warm_packing(pack: Pack) -> None:
    """Run a packing rule once on a tiny instance, so that its kernel is loaded before time is measured."""
    gpu = gpu_type("v100")
    tiny = (Workload("w", "alexnet", 20.0, 100.0),)
    for objective in (Objective.CAPACITY, Objective.GOODPUT):
        pack_pools(Instance("warm", objective, SloRule.HALF_SLO, "igniter", (GpuPool(gpu, 1),), tiny), pack, True)
