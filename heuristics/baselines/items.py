"""Items to place: whole workloads, equal parts of those that no GPU serves whole, or the slots of a start plan."""

from collections.abc import Sequence

import numpy as np

from heuristics.packing import UnservableError
from instances import Objective, Plan
from instances.arrays import Flags, Floats, Ints
from instances.configurations import BATCHES_TRIED, lean_configurations
from instances.parts import MOST_PARTS, fewest_parts, trickle_rps
from instances.tolerance import widened
from instances.view import View


def whole_items(views: Sequence[View]) -> tuple[Ints, Floats]:
    """Return workload and rate of the items: a workload, or its fewest equal parts if no GPU serves it whole.

    ``views`` has a view of the instance for each of its GPU types.

    Raises
    ------
    UnservableError
        If a workload cannot be served, or only in too many parts. Under ``goodput``, such a workload is an item
        without configurations instead.
    """
    workload, rate_rps = np.arange(len(views[0].rate_rps), dtype=np.int64), views[0].rate_rps
    if views[0].instance.objective is Objective.GOODPUT:
        return workload, rate_rps.copy()
    parts = np.ones_like(workload)
    for w in np.flatnonzero(~_servable(views, workload, rate_rps)).tolist():
        parts[w] = _parts(views, w)
    return np.repeat(workload, parts), np.repeat(rate_rps / parts, parts)


def _servable(views: Sequence[View], workload: Ints, rate_rps: Floats, batch: Ints | None = None) -> Flags:
    """Return for each item whether some GPU type serves it at its full rate, shape (items,).

    The result is wrong under ``goodput``, where items also have configurations at lower rates.
    """
    servable = np.zeros(len(workload), dtype=bool)
    # One batch is enough for most items, and each batch takes time if budgets depend on the share.
    for batches in (1, BATCHES_TRIED):
        for view in views:
            rest = np.flatnonzero(~servable)
            batch_of_rest = None if batch is None else batch[rest]
            served = lean_configurations(view, workload[rest], rate_rps[rest], batch_of_rest, batches).item
            servable[rest[served]] = True
    return servable


def _parts(views: Sequence[View], workload: int) -> int:
    """Return the least number of equal parts of a workload that GPUs can serve; no GPU serves the whole workload."""
    rate = float(views[0].rate_rps[workload])

    def servable_at(rate_rps: float) -> bool:
        return bool(_servable(views, np.array([workload]), np.array([rate_rps]))[0])

    if not servable_at(rate / MOST_PARTS):
        trickle = float(trickle_rps(views[0].rate_rps, views[0].slo_ms)[workload])
        gpus = " or ".join(view.gpu.name for view in views)
        raise UnservableError(views[0].instance.workloads[workload], gpus, in_parts=servable_at(trickle))
    return fewest_parts(lambda count: servable_at(rate / count))


def items_of(plan: Plan, views: Sequence[View]) -> tuple[Ints, Floats, Ints]:
    """Return workload, rate and batch of the slots of ``plan``, so that split workloads stay split.

    If the plan does not serve the full rate of a workload, or no GPU can serve one of its slots, the workload becomes
    items as in ``whole_items``, with batch 0 (none given). Under ``goodput``, all workloads become items as in
    ``whole_items``, with the batches of their slots.
    """
    whole, whole_rps = whole_items(views)
    whole_batch = np.zeros_like(whole)
    index = views[0].instance.workload_index
    slots = [slot for _, _, slot in plan.slots() if slot.workload in index]
    workload = np.array([index[slot.workload] for slot in slots], dtype=np.int64)
    rate_rps = np.array([slot.rate_rps for slot in slots], dtype=np.float64)
    batch = np.array([slot.batch for slot in slots], dtype=np.int64)
    if views[0].instance.objective is Objective.GOODPUT:
        whole_batch[workload] = batch
        return whole, whole_rps, whole_batch
    served_rps = np.bincount(workload, weights=rate_rps, minlength=len(index))
    as_planned = widened(served_rps.astype(np.float64)) >= views[0].rate_rps
    as_planned[workload[~_servable(views, workload, rate_rps, batch)]] = False
    is_whole_item, is_slot_item = ~as_planned[whole], as_planned[workload]
    return (
        np.concatenate([whole[is_whole_item], workload[is_slot_item]]),
        np.concatenate([whole_rps[is_whole_item], rate_rps[is_slot_item]]),
        np.concatenate([whole_batch[is_whole_item], batch[is_slot_item]]),
    )
