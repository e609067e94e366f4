"""Options of a search: the configurations of workloads, or of parts of them, on a GPU type."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from heuristics.packing import MOST_PARTS, UnservableError, fewest_parts, shares_alone, trickle_rps
from instances import GOODPUT_STEP, Objective, Plan
from instances.arrays import Floats, Ints
from instances.tolerance import widened
from instances.view import View

BATCHES_TRIED = 3
"""Batches tried per rate of an item: those of the fewest units; more only if the objective is throughput."""


class Items(NamedTuple):
    """Items to place: whole workloads, or parts of them; arrays of shape (items,).

    Attributes
    ----------
    workload
        Position in the instance.
    rate_rps
        Rate to serve; under ``goodput`` the largest rate.
    batch
        Batch in the given start plan, always among the options; 0 without one.
    """

    workload: Ints
    rate_rps: Floats
    batch: Ints


class ItemOptions(NamedTuple):
    """Options of every item on one GPU type; arrays of shape (options,) except ``first``.

    Attributes
    ----------
    first
        The options of item i are ``first[i]:first[i + 1]``, shape (items + 1,): by rate, highest first, then by
        ``units``.
    step
        Under ``goodput`` the rate in steps of ``GOODPUT_STEP``, otherwise 1.
    model
        Row of the DNN model in the tables.
    budget_ms
        Largest GPU time that meets the SLO at this rate, by share, shape (options, 1 or share units + 1).
    units
        Least share that serves it alone, throttling included.
    """

    first: Ints
    item: Ints
    step: Ints
    model: Ints
    batch: Ints
    rate_rps: Floats
    budget_ms: Floats
    units: Ints


class _Rows(NamedTuple):
    """Batches that serve a (workload, rate) pair on a full GPU; ``pair`` ascending, then ``units``."""

    pair: Ints
    batch: Ints
    budget_ms: Floats
    units: Ints


def _rows(view: View, workload: Ints, rate_rps: Floats, wanted: Ints) -> _Rows:
    """Return the batches to try for every pair of workload and rate, with the batch in ``wanted`` if it is servable."""
    every_batch = view.instance.objective is Objective.CAPACITY
    model = view.model[workload]
    top = view.tables.max_batch[model]
    if not every_batch:
        # A batch that takes longer than the SLO to fill is never full; it only makes every batch slower.
        with np.errstate(over="ignore"):
            waiting = view.slo_ms[workload] * rate_rps / 1000.0
        useful = np.ceil(np.minimum(waiting, top)).astype(np.int64)
        useful = np.where(view.steps[workload] > 0, view.places_needed(workload, rate_rps), useful)
        top = np.clip(np.maximum(useful, wanted), 1, top)
    pair = np.repeat(np.arange(len(workload)), top)
    batch = np.arange(len(pair)) - np.repeat(np.cumsum(top) - top, top) + 1
    budget = view.budgets_ms(workload[pair], batch, rate_rps[pair])
    units = shares_alone(view.tables, model[pair], batch, budget)
    kept = np.flatnonzero(units <= view.tables.share_units)
    kept = kept[np.lexsort((units[kept], pair[kept]))]
    if not every_batch:
        place = np.arange(len(kept)) - np.searchsorted(pair[kept], pair[kept])
        kept = kept[(place < BATCHES_TRIED) | (batch[kept] == wanted[pair[kept]])]
    return _Rows(pair[kept], batch[kept], budget[kept], units[kept])


def whole_items(views: Sequence[View]) -> Items:
    """Return one item per workload, or the fewest equal parts that can be served if no GPU serves it whole.

    ``views`` has a view of the instance for each of its GPU types.

    Raises
    ------
    UnservableError
        If a workload cannot be served, or only in too many parts; under ``goodput`` it is an item without options.
    """
    workload = np.arange(len(views[0].rate_rps), dtype=np.int64)
    if views[0].instance.objective is Objective.GOODPUT:
        return Items(workload, views[0].rate_rps.copy(), np.zeros_like(workload))
    parts = np.ones_like(workload)
    whole = np.zeros(len(workload), dtype=bool)
    for view in views:
        whole[_rows(view, workload, view.rate_rps, np.zeros_like(workload)).pair] = True
    for w in np.flatnonzero(~whole).tolist():
        parts[w] = _parts(views, w)
    rate_rps = np.repeat(views[0].rate_rps / parts, parts)
    return Items(np.repeat(workload, parts), rate_rps, np.zeros(len(rate_rps), dtype=np.int64))


def _parts(views: Sequence[View], workload: int) -> int:
    """Return the fewest equal parts in which a workload can be served that cannot be served whole."""
    rate = float(views[0].rate_rps[workload])

    def servable_at(rate_rps: float) -> bool:
        asked = np.array([workload]), np.array([rate_rps]), np.zeros(1, dtype=np.int64)
        return any(len(_rows(view, *asked).batch) for view in views)

    if not servable_at(rate / MOST_PARTS):
        trickle = float(trickle_rps(views[0].rate_rps, views[0].slo_ms)[workload])
        gpus = " or ".join(view.gpu.name for view in views)
        raise UnservableError(views[0].instance.workloads[workload], gpus, in_parts=servable_at(trickle))
    return fewest_parts(lambda count: servable_at(rate / count))


def items_of(plan: Plan, views: Sequence[View]) -> Items:
    """Return the slots of ``plan`` as items, so that split workloads stay split.

    A workload becomes items as in ``whole_items`` if the plan does not serve its full rate, or if no GPU can serve one
    of its slots. Under ``goodput`` all workloads do.
    """
    whole = whole_items(views)
    index = views[0].instance.workload_index
    slots = [slot for _, _, slot in plan.slots() if slot.workload in index]
    workload = np.array([index[slot.workload] for slot in slots], dtype=np.int64)
    rate_rps = np.array([slot.rate_rps for slot in slots], dtype=np.float64)
    batch = np.array([slot.batch for slot in slots], dtype=np.int64)
    if views[0].instance.objective is Objective.GOODPUT:
        whole.batch[workload] = batch
        return whole
    served_rps = np.bincount(workload, weights=rate_rps, minlength=len(index))
    as_planned = widened(served_rps.astype(np.float64)) >= views[0].rate_rps
    servable = np.zeros(len(slots), dtype=bool)
    for view in views:
        servable[_rows(view, workload, rate_rps, batch).pair] = True
    as_planned[workload[~servable]] = False
    ours, theirs = ~as_planned[whole.workload], as_planned[workload]
    return Items(
        *(
            np.concatenate([mine[ours], slot[theirs]])
            for mine, slot in zip(whole, (workload, rate_rps, batch), strict=True)
        )
    )


def options_of(view: View, items: Items) -> ItemOptions:
    """Return the options of ``items`` on the GPU type of ``view``."""
    steps = np.ones(1, dtype=np.int64)
    if view.instance.objective is Objective.GOODPUT:
        steps = np.arange(round(1.0 / GOODPUT_STEP), 0, -1)
    workload = np.repeat(items.workload, len(steps))
    rate_rps = (items.rate_rps[:, None] * (steps / steps[0])[None, :]).ravel()
    rows = _rows(view, workload, rate_rps, np.repeat(items.batch, len(steps)))
    item = rows.pair // len(steps)
    return ItemOptions(
        np.searchsorted(item, np.arange(len(items.workload) + 1)),
        item,
        steps[rows.pair % len(steps)],
        view.model[workload[rows.pair]],
        rows.batch,
        rate_rps[rows.pair],
        rows.budget_ms,
        rows.units,
    )
