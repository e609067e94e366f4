"""Branch-and-bound search of one box for GPUs worth more than a threshold, or a proof that none exists.

The search goes depth first over (workload, share, batch), one resident after another in the order of the workloads.
The table of the box's relaxation bounds the worth of the missing residents. A complete GPU is evaluated exactly.
"""

from typing import NamedTuple

import numpy as np

from formulations.colgen.capacity.relaxation import RelaxedCapacityBox
from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.interference_boxes import CONTENTION, POWER, RESIDENTS
from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_times_ms
from instances.tables import Tables
from instances.tolerance import MARGIN


class FilledGpus(NamedTuple):
    """Filled GPUs that a search found, one per row; ``stored`` is their number, shape (1,).

    Attributes
    ----------
    size, value
        Number of residents and total throughput of each GPU.
    workload, batch, units
        Workload, batch and share of each resident, shape (rows, most residents).
    """

    stored: Ints
    size: Ints
    workload: Ints
    batch: Ints
    units: Ints
    value: Floats


def empty_filled(rows: int, most_residents: int) -> FilledGpus:
    """Return buffers for ``rows`` filled GPUs."""
    shape = (rows, max(most_residents, 1))
    return FilledGpus(
        np.zeros(1, dtype=np.int64),
        np.zeros(rows, dtype=np.int64),
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape, dtype=np.int64),
        np.zeros(shape, dtype=np.int64),
        np.zeros(rows),
    )


class _Partial(NamedTuple):
    """Partial GPU of a depth-first search.

    Attributes
    ----------
    place
        Place of the resident at each depth, the number of its (workload, share, batch); see ``_next_place``.
    free_units, contention, power, memory
        Free share, and demands and memory of the residents, before each depth.
    worth, gain
        Throughput of the residents before each depth minus their charges; ``worth`` is also after the multipliers'
        charges for their demands.
    """

    place: Ints
    free_units: Ints
    worth: Floats
    gain: Floats
    contention: Floats
    power: Floats
    memory: Floats


@compiled
def search(
    exact: Tables,
    demand: DemandOnGpu,
    copy_of: Ints,
    charge: Floats,
    box: Floats,
    threshold: float,
    multipliers: Floats,
    relaxed: RelaxedCapacityBox,
    node_limit: int,
    filled: FilledGpus,
) -> tuple[bool, float, int]:
    """Search one box for GPUs worth more than ``threshold`` after their residents' charges, until ``filled`` is full.

    Parameters
    ----------
    exact
        Tables of the GPU type with separate L2 and DRAM.
    copy_of
        The preceding workload if it is identical to this one, else -1, shape (workloads,). A GPU takes identical
        workloads in order (symmetry breaking).
    demand, charge, box, threshold, multipliers, relaxed
        See ``relax``; ``relaxed`` is its output for the same box and multipliers.

    Returns
    -------
    complete : bool
        Whether the box was searched completely.
    worth : float
        If complete, an upper bound on the worth of the box's GPUs; at least ``threshold``.
    nodes : int
        Number of nodes visited.
    """
    tables, residents = demand.tables, int(box[RESIDENTS])
    shares, batches = len(tables.permitted), tables.transfer_ms.shape[1]
    contention_cap, power_cap = box[CONTENTION + 1] * (1.0 + MARGIN), box[POWER + 1] * (1.0 + MARGIN)
    needed_worth = threshold - multipliers[0] * contention_cap - multipliers[1] * power_cap
    partial = _Partial(
        np.full(residents, -1),
        np.full(residents + 1, tables.share_units),
        np.zeros(residents + 1),
        np.zeros(residents + 1),
        np.zeros(residents + 1),
        np.zeros(residents + 1),
        np.zeros(residents + 1),
    )
    workload, rows = np.empty(residents, dtype=np.int64), np.empty(residents, dtype=np.int64)
    batch, units, times_ms = np.empty_like(rows), np.empty_like(rows), np.empty(residents)
    worth, nodes, depth, by_share = threshold, 0, 0, demand.budget_ms.shape[2] > 1
    while depth >= 0:
        place = _next_place(
            demand,
            copy_of,
            charge,
            relaxed,
            partial,
            depth,
            residents,
            contention_cap,
            power_cap,
            needed_worth,
            threshold,
        )
        partial.place[depth] = place
        if place < 0:
            depth -= 1
            continue
        nodes += 1
        if nodes > node_limit:
            return False, np.inf, nodes
        pair, b = place // batches, place % batches
        w, u = pair // shares, tables.permitted[pair % shares]
        m = demand.model[w]
        workload[depth], rows[depth], batch[depth], units[depth] = w, m, b, u
        partial.free_units[depth + 1] = partial.free_units[depth] - u
        partial.worth[depth + 1] = partial.worth[depth] + relaxed.net[m, pair % shares, b] - charge[w]
        partial.gain[depth + 1] = partial.gain[depth] + relaxed.rate_rps[m, pair % shares, b] - charge[w]
        partial.contention[depth + 1] = partial.contention[depth] + tables.l2_pct[m, b, u]
        partial.power[depth + 1] = partial.power[depth] + tables.power_w[m, b, u]
        partial.memory[depth + 1] = partial.memory[depth] + tables.memory_mib[m, b]
        if depth + 1 < residents:
            depth += 1
            # The next resident is one of the later workloads.
            partial.place[depth] = (w + 1) * shares * batches - 1
            continue
        below_floors = partial.contention[residents] < box[CONTENTION] * (1.0 - MARGIN) or partial.power[
            residents
        ] < box[POWER] * (1.0 - MARGIN)
        if below_floors:
            continue
        gpu_times_ms(exact, rows, batch, units, residents, times_ms)
        value, charged, slack = 0.0, 0.0, np.inf
        for i in range(residents):
            budget_ms = demand.budget_ms[workload[i], batch[i], units[i] if by_share else 0]
            slack = min(slack, (budget_ms - times_ms[i]) / budget_ms)
            value += 1000.0 * batch[i] / (times_ms[i] + tables.exposed_ms[rows[i], batch[i]])
            charged += charge[workload[i]]
        if partial.memory[residents] > tables.memory_limit_mib:
            continue
        if slack < -MARGIN or value - charged <= threshold:
            continue
        worth = max(worth, (value - charged) + MARGIN * value)
        if slack >= 0.0 and not _store(filled, workload, batch, units, value):
            return False, np.inf, nodes
    return True, worth, nodes


@compiled
def _next_place(
    demand: DemandOnGpu,
    copy_of: Ints,
    charge: Floats,
    relaxed: RelaxedCapacityBox,
    partial: _Partial,
    depth: int,
    residents: int,
    contention_cap: float,
    power_cap: float,
    needed_worth: float,
    threshold: float,
) -> int:
    """Return the next place after ``partial.place[depth]`` that may lead to a solution, or -1.

    A place is the number of a (workload, share, batch). Batches vary fastest, then shares, then workloads, so that
    whole shares and workloads can be skipped.
    """
    tables = demand.tables
    shares, batches = len(tables.permitted), tables.transfer_ms.shape[1]
    residents_left, free = residents - depth, partial.free_units[depth]
    missing_worth = needed_worth - partial.worth[depth]
    # The last resident completes a GPU inside the box, so its demands are not charged.
    missing_gain = threshold - partial.gain[depth] if residents_left == 1 else -np.inf
    contention_free, power_free = contention_cap - partial.contention[depth], power_cap - partial.power[depth]
    memory_free = tables.memory_limit_mib - partial.memory[depth]
    place, by_share = partial.place[depth] + 1, demand.budget_ms.shape[2] > 1
    while place < len(relaxed.worth) * batches:
        pair, b = place // batches, place % batches
        w, j = pair // shares, pair % shares
        if b == 0 and j == 0:
            if relaxed.table[w, residents_left, free] <= missing_worth:
                return -1
            if copy_of[w] >= 0 and (depth == 0 or partial.place[depth - 1] // (shares * batches) != copy_of[w]):
                place += shares * batches
                continue
        u = tables.permitted[j]
        if b == 0:
            # Batches start at 1. A place with batch 0 stands for all batches of its share.
            if u > free:
                place += (shares - j) * batches
            elif relaxed.worth[pair] + relaxed.table[w + 1, residents_left - 1, free - u] <= missing_worth:
                place += batches
            else:
                place += 1
            continue
        m = demand.model[w]
        if (
            relaxed.time_ms[m, j, b] <= demand.budget_ms[w, b, u if by_share else 0] * (1.0 + MARGIN)
            and relaxed.net[m, j, b] - charge[w] + relaxed.table[w + 1, residents_left - 1, free - u] > missing_worth
            and relaxed.rate_rps[m, j, b] - charge[w] > missing_gain
            and tables.l2_pct[m, b, u] <= contention_free
            and tables.power_w[m, b, u] <= power_free
            and tables.memory_mib[m, b] <= memory_free
        ):
            return place
        place += 1
    return -1


@compiled
def _store(filled: FilledGpus, workload: Ints, batch: Ints, units: Ints, value: float) -> bool:
    """Store a filled GPU unless a better one has the same workloads; return whether there is room for another."""
    residents, row = len(workload), 0
    while row < filled.stored[0] and not (
        filled.size[row] == residents and np.all(filled.workload[row, :residents] == workload)
    ):
        row += 1
    if row == filled.stored[0]:
        filled.stored[0] += 1
    elif value <= filled.value[row]:
        return True
    filled.size[row], filled.value[row] = residents, value
    filled.workload[row, :residents] = workload
    filled.batch[row, :residents], filled.units[row, :residents] = batch, units
    return filled.stored[0] < len(filled.value)
