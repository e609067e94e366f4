"""Enumeration of the contents that a better plan can have, on GPUs with at most two gpulets.

At the duals of the bound, the worth of every GPU of a better plan has a least value: the largest worth of a GPU, minus
the distance from the bound to the best known value. The enumeration lists the rates that such GPUs serve. It uses the
least batch times of ``gpulet_positions``, rounds rates up to a grid, and leaves out dominated contents. So the best
integer choice of the listed contents bounds every better plan.
"""

from typing import NamedTuple

import numpy as np

from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.temporal.gpulet_positions import SLOTS, GpuletPosition, Worth, all_times_ms
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.tables import Tables

NUMBERS_PER_GPULET = 1 + 2 * SLOTS
"""Numbers that describe a gpulet in a list: its share (0: no gpulet), then (workload, batch) per slot (-1: no slot)."""


class UndominatedList(NamedTuple):
    """Entries of which none dominates another; each has amounts, a worth and the content that it stands for.

    Attributes
    ----------
    size
        Number of entries, shape (1,).
    amounts
        Amounts by which entries are compared, the larger the better, shape (most entries, amounts): here the rates of
        the workloads; ``every_content`` appends their least rates, negated, and the worth of the throughput.
    worth
        Largest worth of the entry and of those that it dominates, shape (most entries,); 0 if worths are not used.
    content
        Numbers that describe the content, -1 for none, shape (most entries, numbers).
    """

    size: Ints
    amounts: Floats
    worth: Floats
    content: Ints


def empty_list(most_entries: int, amounts: int, numbers: int) -> UndominatedList:
    """Return an empty list with room for ``most_entries`` entries."""
    return UndominatedList(
        np.zeros(1, dtype=np.int64),
        np.zeros((most_entries, amounts)),
        np.zeros(most_entries),
        np.full((most_entries, numbers), -1, dtype=np.int64),
    )


@compiled
def insert_undominated(listed: UndominatedList, amounts: Floats, worth: float, content: Ints) -> bool:
    """Insert an entry unless a listed one dominates it, and remove those that it dominates.

    Return ``False`` if the list is full.
    """
    size = 0
    for k in range(listed.size[0]):
        if _dominates(listed.amounts[k], amounts):
            # No entry was removed before: entry k would dominate that entry too, but no listed entry dominates another.
            listed.worth[k] = max(listed.worth[k], worth)
            return True
        if _dominates(amounts, listed.amounts[k]):
            worth = max(worth, listed.worth[k])
        else:
            if size < k:
                listed.amounts[size], listed.worth[size] = listed.amounts[k], listed.worth[k]
                listed.content[size] = listed.content[k]
            size += 1
    if size == len(listed.worth):
        return False
    listed.amounts[size], listed.worth[size], listed.content[size] = amounts, worth, content
    listed.size[0] = size + 1
    return True


@compiled
def _dominates(first: Floats, second: Floats) -> bool:
    """Return whether every entry of the first array is at least that of the second, of the same length."""
    for k in range(len(second)):
        if first[k] < second[k]:
            return False
    return True


def empty_gpu_list(most_entries: int, workloads: int) -> UndominatedList:
    """Return an empty list of GPUs of one or two gpulets; its amounts are the workloads' rates in steps of a grid."""
    return empty_list(most_entries, workloads, 2 * NUMBERS_PER_GPULET)


@compiled
def list_gpulets(
    tables: Tables,
    demand: DemandOnGpu,
    position: GpuletPosition,
    grid: Worth,
    least_worth: float,
    turns: bool,
    listed: UndominatedList,
) -> bool:
    """List the undominated gpulets at a position that are worth at least ``least_worth``.

    Parameters
    ----------
    grid
        Worth of the rates; they are rounded up to its steps.
    turns
        Whether slots may take turns.
    listed
        Overwritten with the gpulets.

    Returns
    -------
    bool
        Whether there was room for all.
    """
    times_ms, periods_ms, _ = all_times_ms(tables, demand, position)
    workloads = len(grid.per_rps)
    listed.size[0] = 0
    steps, content = np.zeros(workloads), np.full(2 * NUMBERS_PER_GPULET, -1, dtype=np.int64)
    content[0], content[NUMBERS_PER_GPULET] = position.units, 0
    for w in range(workloads):
        m, best, best_batch = demand.model[w], 0.0, 0
        for b in range(1, tables.max_batch[m] + 1):
            if times_ms[m, b] <= demand.longest_ms[w, b] and 1000.0 * b / periods_ms[m, b] > best:
                best, best_batch = 1000.0 * b / periods_ms[m, b], b
        rate = min(best, grid.most_rps[w])
        if best_batch > 0 and rate * grid.per_rps[w] >= least_worth:
            steps[:] = 0
            steps[w], content[1], content[2] = _rounded_up(grid, w, rate), w, best_batch
            if not insert_undominated(listed, steps, rate * grid.per_rps[w], content):
                return False
    for w1 in range(workloads if turns else 0):
        for w2 in range(w1, workloads):
            for w3 in range(w2, workloads + 1):
                if w1 == w2 and w2 == w3:
                    continue
                if not _list_turns(tables, demand, times_ms, grid, least_worth, listed, content, w1, w2, w3):
                    return False
    return True


@compiled
def _rounded_up(grid: Worth, workload: int, rate_rps: float) -> float:
    """Return a rate in grid steps, rounded up."""
    return np.ceil(rate_rps / grid.step_rps[workload] - 1e-9)


@compiled
def _list_turns(
    tables: Tables,
    demand: DemandOnGpu,
    times_ms: Floats,
    grid: Worth,
    least_worth: float,
    listed: UndominatedList,
    content: Ints,
    w1: int,
    w2: int,
    w3: int,
) -> bool:
    """List the gpulets of two workloads, and of three if ``w3`` is below the number of workloads."""
    m1, m2, pair = demand.model[w1], demand.model[w2], w3 == len(grid.per_rps)
    m3 = 0 if pair else demand.model[w3]
    steps = np.zeros(len(grid.per_rps))
    for b1 in range(1, tables.max_batch[m1] + 1):
        t1 = times_ms[m1, b1]
        if 2.0 * t1 > demand.slo_ms[w1]:
            continue
        for b2 in range(b1 if w1 == w2 else 1, tables.max_batch[m2] + 1):
            t2 = times_ms[m2, b2]
            # A request waits for up to one cycle, and then takes the time of its batch.
            if t1 + t2 + max(t1 - demand.slo_ms[w1], t2 - demand.slo_ms[w2]) > 0.0:
                continue
            for b3 in range(b2 if w2 == w3 else 1, 2 if pair else tables.max_batch[m3] + 1):
                t3 = 0.0 if pair else times_ms[m3, b3]
                cycle_ms = t1 + t2 + t3
                if cycle_ms + max(t1 - demand.slo_ms[w1], t2 - demand.slo_ms[w2]) > 0.0:
                    continue
                if not pair and cycle_ms + t3 > demand.slo_ms[w3]:
                    continue
                per_ms = 1000.0 / cycle_ms
                worth = _worth_of_rate(grid, w1, b1 * per_ms) + _worth_of_rate(grid, w2, b2 * per_ms)
                if not pair:
                    worth += _worth_of_rate(grid, w3, b3 * per_ms)
                if worth < least_worth:
                    continue
                steps[:] = 0
                rate1 = (b1 + (b2 if w2 == w1 else 0)) * per_ms
                rate2 = (b2 + (b1 if w2 == w1 else 0) + (b3 if w3 == w2 else 0)) * per_ms
                steps[w1] = _rounded_up(grid, w1, min(rate1, grid.most_rps[w1]))
                steps[w2] = _rounded_up(grid, w2, min(rate2, grid.most_rps[w2]))
                if not pair:
                    rate3 = rate2 if w3 == w2 else b3 * per_ms
                    steps[w3] = _rounded_up(grid, w3, min(rate3, grid.most_rps[w3]))
                content[1], content[2], content[3], content[4] = w1, b1, w2, b2
                content[5], content[6] = (-1, -1) if pair else (w3, b3)
                if not insert_undominated(listed, steps, worth, content):
                    return False
    return True


@compiled
def _worth_of_rate(grid: Worth, workload: int, rate_rps: float) -> float:
    """Return the worth of a rate before it is rounded up."""
    return grid.per_rps[workload] * min(rate_rps, grid.most_rps[workload])


@compiled
def combine(
    grid: Worth, first: UndominatedList, second: UndominatedList, least_worth: float, gpus: UndominatedList
) -> bool:
    """Add the undominated GPUs of two gpulets worth at least ``least_worth``; return whether there was room."""
    most = np.ceil(grid.most_rps / grid.step_rps - 1e-9)
    for i in range(first.size[0]):
        for j in range(second.size[0]):
            worth = first.worth[i] + second.worth[j]
            if worth < least_worth:
                continue
            steps = np.minimum(first.amounts[i] + second.amounts[j], most)
            content = np.append(first.content[i, :NUMBERS_PER_GPULET], second.content[j, :NUMBERS_PER_GPULET])
            if not insert_undominated(gpus, steps, worth, content):
                return False
    return True
