"""Contents of a GPU with split workloads: the part that each slot serves, and improvement.

In the class ``split`` a slot may serve any part of its workload's rate. Every SLO rule but ``p99`` and ``attainment``
then sets two limits on a batch: its longest time, and the largest rate that it can serve. So the rate is no decision
variable. The content of a GPU is workload, batch and share of its slots, and each slot serves the rate that its time
permits.
"""

import math
from typing import NamedTuple

import numpy as np

from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.improvement import exceeds, improvement
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms, gpu_times_ms

STEP_ROUNDING = 1e-9
"""Fraction of a rate step that may be missing from a whole step."""

SWEEPS = 4
"""Largest number of sweeps of ``improve``."""


@compiled
def part_served(demand: DemandOnGpu, class_index: int, batch: int, time_ms: float) -> float:
    """Return the part of a workload's rate that a slot can serve if a batch takes ``time_ms`` on the GPU.

    The part is 0 if this time violates the SLO.
    """
    if not time_ms <= demand.budget_ms[class_index, batch, 0]:
        return 0.0
    period_ms = demand.latency_buffer * (time_ms + demand.overhead_ms[demand.model[class_index], batch])
    part = min(1.0, float(1000.0 * demand.requests[class_index, batch] / (period_ms * demand.rate_rps[class_index])))
    return math.floor(part * demand.steps + STEP_ROUNDING) / demand.steps if demand.steps else part


class Contents(NamedTuple):
    """Slots of one GPU in arrays: class (``group``), batch, share, part of a workload served, and GPU time."""

    group: Ints
    batch: Ints
    units: Ints
    part: Floats
    time_ms: Floats


def empty_contents(slots: int) -> Contents:
    """Return buffers for ``slots`` slots."""
    return Contents(
        np.zeros(slots, dtype=np.int64),
        np.zeros(slots, dtype=np.int64),
        np.zeros(slots, dtype=np.int64),
        np.zeros(slots),
        np.zeros(slots),
    )


@compiled
def first_slots(contents: Contents, count: int) -> Contents:
    """Return views of the first ``count`` slots: writing to them changes ``contents``."""
    return Contents(
        contents.group[:count],
        contents.batch[:count],
        contents.units[:count],
        contents.part[:count],
        contents.time_ms[:count],
    )


@compiled
def worth_of(demand: DemandOnGpu, weight: Floats, contents: Contents) -> float:
    """Return the worth of the slots: parts times weights, where a class counts for at most its number of workloads.

    Parts and times are written to ``contents``. The worth is -inf if a slot violates its SLO, or the shares or the
    memory do not suffice.
    """
    tables, count = demand.tables, len(contents.units)
    model = demand.model[contents.group]
    memory, total_units = 0.0, 0
    for i in range(count):
        memory += tables.memory_mib[model[i], contents.batch[i]]
        total_units += contents.units[i]
    if memory > tables.memory_limit_mib or total_units > tables.share_units or count > tables.most_residents:
        return -np.inf
    gpu_times_ms(tables, model, contents.batch, contents.units, count, contents.time_ms)
    worth = 0.0
    for i in range(count):
        contents.part[i] = part_served(demand, contents.group[i], contents.batch[i], contents.time_ms[i])
        if contents.part[i] <= 0.0:
            return -np.inf
        part_before = 0.0
        for j in range(i):
            if contents.group[j] == contents.group[i]:
                part_before += contents.part[j]
        counted = min(contents.part[i], max(0.0, demand.copies[contents.group[i]] - part_before))
        worth += weight[contents.group[i]] * counted
    return worth


@compiled
def make_feasible(demand: DemandOnGpu, contents: Contents, count: int) -> int:
    """Lower or drop slots until the GPU is feasible; return the number of slots left.

    A slot that violates its SLO gets smaller batches, and is dropped if none meets the SLO. If the shares or the memory
    do not suffice, the last slots are dropped.
    """
    while count > 0 and not np.isfinite(worth_of(demand, demand.copies, first_slots(contents, count))):
        broken = 0
        while broken < count and _serves(demand, contents, count, broken):
            broken += 1
        if broken == count:  # all slots meet their SLO, so the shares or the memory do not suffice
            count -= 1
            continue
        while contents.batch[broken] > 0 and not _serves(demand, contents, count, broken):
            contents.batch[broken] -= 1
        if contents.batch[broken] == 0:
            count -= 1
            contents.group[broken], contents.batch[broken] = contents.group[count], contents.batch[count]
            contents.units[broken] = contents.units[count]
    return count


@compiled
def _serves(demand: DemandOnGpu, contents: Contents, count: int, slot: int) -> bool:
    """Return whether one slot meets its SLO beside the others."""
    model = demand.model[contents.group[:count]]
    gpu_times_ms(demand.tables, model, contents.batch, contents.units, count, contents.time_ms)
    return part_served(demand, contents.group[slot], contents.batch[slot], contents.time_ms[slot]) > 0.0


@compiled
def _try_batches(demand: DemandOnGpu, weight: Floats, contents: Contents, slot: int, best: float) -> float:
    """Give a slot the batch of most worth if that exceeds ``best``; return the larger worth."""
    best_batch = contents.batch[slot]
    for b in range(1, demand.tables.max_batch[demand.model[contents.group[slot]]] + 1):
        contents.batch[slot] = b
        worth = worth_of(demand, weight, contents)
        if exceeds(worth, best):
            best, best_batch = worth, b
    contents.batch[slot] = best_batch
    return best


improve = improvement(worth_of, _try_batches, SWEEPS)
"""Kernel that changes batches and moves share between slots; see ``improvement``."""


@compiled
def least_fractions(demand: DemandOnGpu) -> Floats:
    """Return the least quotient of share and part served, over the slots of a class alone on a GPU, shape (classes,).

    The share is a fraction of the GPU, and the part one of a workload. The quotient is infinite if no slot serves the
    class.
    """
    tables, least = demand.tables, np.full(len(demand.model), np.inf)
    for w in range(len(least)):
        m = demand.model[w]
        for u in tables.permitted:
            for b in range(1, tables.max_batch[m] + 1):
                time_ms = gpu_time_ms(tables, m, b, u, 1, 0.0, 0.0, tables.power_w[m, b, u])
                part = part_served(demand, w, b, time_ms)
                if part > 0.0:
                    least[w] = min(least[w], u / (tables.share_units * part))
    return least
