"""Branch-and-bound search of one box for GPUs worth more than a threshold, or a proof that none exists.

The search goes depth first over options (workload, share, batch), one resident after another in the order of the
workloads. Options that no GPU of enough worth in the box can have are left out first; few remain. The table of the
box's relaxation bounds the worth of the missing residents. A complete GPU is evaluated exactly.
"""

from typing import NamedTuple

import numpy as np

from formulations.colgen.capacity.relaxation import RelaxedCapacityBox
from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.interference_boxes import CONTENTION, POWER, RESIDENTS
from formulations.colgen.pairs import Pairs, may_follow
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


class _Options(NamedTuple):
    """Options of the residents in one box, sorted by workload.

    Attributes
    ----------
    first
        The options of workload w are ``first[w]`` to ``first[w + 1] - 1``, shape (workloads + 1,).
    workload, batch, units
        Workload, batch and share of each option.
    worth, gain
        Largest throughput minus the workload's charge; ``worth`` is also after the multipliers' charges.
    contention, power, memory
        Demands and memory.
    """

    first: Ints
    workload: Ints
    batch: Ints
    units: Ints
    worth: Floats
    gain: Floats
    contention: Floats
    power: Floats
    memory: Floats


class _Partial(NamedTuple):
    """Partial GPU of a depth-first search.

    Attributes
    ----------
    option
        Option of the resident at each depth.
    free_units, contention, power, memory
        Free share, and demands and memory of the residents, before each depth.
    worth, gain
        Throughput of the residents before each depth minus their charges; ``worth`` is also after the multipliers'
        charges for their demands.
    """

    option: Ints
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
    pairs: Pairs,
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
    pairs
        Conditions of a branch on pairs of workloads.
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
    contention_cap, power_cap = box[CONTENTION + 1] * (1.0 + MARGIN), box[POWER + 1] * (1.0 + MARGIN)
    needed_worth = threshold - multipliers[0] * contention_cap - multipliers[1] * power_cap
    options = _options_of(demand, charge, relaxed, residents, needed_worth)
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
        option = _next_option(
            tables,
            options,
            copy_of,
            pairs,
            relaxed,
            partial,
            depth,
            residents,
            contention_cap,
            power_cap,
            needed_worth,
            threshold,
        )
        partial.option[depth] = option
        if option < 0:
            depth -= 1
            continue
        nodes += 1
        if nodes > node_limit:
            return False, np.inf, nodes
        w = options.workload[option]
        workload[depth], rows[depth] = w, demand.model[w]
        batch[depth], units[depth] = options.batch[option], options.units[option]
        partial.free_units[depth + 1] = partial.free_units[depth] - units[depth]
        partial.worth[depth + 1] = partial.worth[depth] + options.worth[option]
        partial.gain[depth + 1] = partial.gain[depth] + options.gain[option]
        partial.contention[depth + 1] = partial.contention[depth] + options.contention[option]
        partial.power[depth + 1] = partial.power[depth] + options.power[option]
        partial.memory[depth + 1] = partial.memory[depth] + options.memory[option]
        if depth + 1 < residents:
            depth += 1
            # The next resident is one of the later workloads.
            partial.option[depth] = options.first[w + 1] - 1
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
def _options_of(
    demand: DemandOnGpu, charge: Floats, relaxed: RelaxedCapacityBox, residents: int, needed_worth: float
) -> _Options:
    """Return the options that a GPU of the box may have whose worth is above ``needed_worth``."""
    tables = demand.tables
    shares, by_share = len(tables.permitted), demand.budget_ms.shape[2] > 1
    workloads, first = len(demand.model), np.zeros(len(demand.model) + 1, dtype=np.int64)
    rows = workloads * shares * (tables.transfer_ms.shape[1] - 1)
    options = _Options(
        first,
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows, dtype=np.int64),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
        np.empty(rows),
    )
    count = 0
    for w in range(workloads):
        m = demand.model[w]
        for j in range(shares):
            u = tables.permitted[j]
            # ``relaxed.worth`` is that of the best batch of the workload at this share. The other residents are worth
            # at most ``others``, the worth of the best ones among all workloads.
            others = relaxed.table[0, residents - 1, tables.share_units - u]
            if relaxed.worth[w * shares + j] + others <= needed_worth:
                continue
            for b in range(1, tables.max_batch[m] + 1):
                worth = relaxed.net[m, j, b] - charge[w]
                if worth + others > needed_worth and relaxed.time_ms[m, j, b] <= demand.budget_ms[
                    w, b, u if by_share else 0
                ] * (1.0 + MARGIN):
                    options.workload[count], options.batch[count], options.units[count] = w, b, u
                    options.worth[count], options.gain[count] = worth, relaxed.rate_rps[m, j, b] - charge[w]
                    options.contention[count], options.power[count] = tables.l2_pct[m, b, u], tables.power_w[m, b, u]
                    options.memory[count] = tables.memory_mib[m, b]
                    count += 1
        first[w + 1] = count
    return options


@compiled
def _next_option(
    tables: Tables,
    options: _Options,
    copy_of: Ints,
    pairs: Pairs,
    relaxed: RelaxedCapacityBox,
    partial: _Partial,
    depth: int,
    residents: int,
    contention_cap: float,
    power_cap: float,
    needed_worth: float,
    threshold: float,
) -> int:
    """Return the next option after ``partial.option[depth]`` that may lead to a solution, or -1."""
    residents_left, free = residents - depth, partial.free_units[depth]
    missing_worth = needed_worth - partial.worth[depth]
    # The last resident completes a GPU inside the box, so its demands are not charged.
    missing_gain = threshold - partial.gain[depth] if residents_left == 1 else -np.inf
    contention_free, power_free = contention_cap - partial.contention[depth], power_cap - partial.power[depth]
    memory_free = tables.memory_limit_mib - partial.memory[depth]
    option, options_end = partial.option[depth] + 1, options.first[len(options.first) - 1]
    while option < options_end:
        w = options.workload[option]
        if option == options.first[w]:
            if relaxed.table[w, residents_left, free] <= missing_worth:
                return -1
            if copy_of[w] >= 0 and (depth == 0 or options.workload[partial.option[depth - 1]] != copy_of[w]):
                option = options.first[w + 1]
                continue
        units_left = free - options.units[option]
        if (
            units_left >= 0
            and options.worth[option] + relaxed.table[w + 1, residents_left - 1, units_left] > missing_worth
            and options.gain[option] > missing_gain
            and options.contention[option] <= contention_free
            and options.power[option] <= power_free
            and options.memory[option] <= memory_free
            and may_follow(pairs, options.workload, partial.option, depth, w, residents_left == 1)
        ):
            return option
        option += 1
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
