"""Relaxation of ``capacity`` pricing in one box of interference.

Multipliers charge for contention and power, whose sums the box limits. Workloads and shares are chosen by dynamic
programming.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from formulations.colgen.demand import DemandOnGpu
from formulations.colgen.interference_boxes import CONTENTION, POWER, RESIDENTS, best_of_table, climb, completion_table
from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms
from instances.tables import Tables
from instances.tolerance import MARGIN

ROUNDS = 10
"""Multiplier steps in one relaxation."""


class RelaxedCapacityBox(NamedTuple):
    """Relaxation of one box, overwritten for each box.

    Attributes
    ----------
    time_ms, rate_rps
        Least GPU time of each (model, share, batch), infinite if it is infeasible in the box, and its largest
        throughput, shape (models, permitted shares, largest batch + 1).
    net
        ``rate_rps`` minus the multipliers' charges for contention and power.
    first, units
        Choices (workload, share) of workload w are ``first[w]`` to ``first[w + 1] - 1``, and their shares.
    worth, batch
        For each choice: largest worth over the batches after all charges, and that batch.
    offer_first, offer, offer_slots, offer_units, offer_worth
        Offers of the workloads, see ``completion_table``: the choice of each offer, 1 slot, its share and worth.
    table
        Completion table of the offers, shape (workloads + 1, most residents + 1, share units + 1).
    chosen
        Choices of the relaxed solution of each step, shape (steps, most residents).
    """

    time_ms: Floats
    rate_rps: Floats
    net: Floats
    first: Ints
    units: NDArray[np.int16]
    worth: Floats
    batch: Ints
    offer_first: Ints
    offer: Ints
    offer_slots: Ints
    offer_units: NDArray[np.int16]
    offer_worth: Floats
    table: Floats
    chosen: Ints


def empty_relaxed(tables: Tables, workloads: int, most_residents: int) -> RelaxedCapacityBox:
    """Return buffers for GPUs with at most ``most_residents`` of these workloads."""
    models, batches = tables.transfer_ms.shape
    shares = len(tables.permitted)
    choices, shape = workloads * shares, (models, shares, batches)
    return RelaxedCapacityBox(
        np.full(shape, np.inf),
        np.zeros(shape),
        np.full(shape, -np.inf),
        np.arange(workloads + 1) * shares,
        np.tile(tables.permitted, workloads).astype(np.int16),
        np.empty(choices),
        np.zeros(choices, dtype=np.int64),
        np.zeros(workloads + 1, dtype=np.int64),
        np.zeros(choices, dtype=np.int64),
        np.ones(choices, dtype=np.int64),
        np.zeros(choices, dtype=np.int16),
        np.zeros(choices),
        np.empty((workloads + 1, most_residents + 1, tables.share_units + 1)),
        np.zeros((ROUNDS + 1, max(most_residents, 1)), dtype=np.int64),
    )


@compiled
def _write_best_times(tables: Tables, box: Floats, relaxed: RelaxedCapacityBox) -> None:
    """Write the times and throughputs at the floors of a box: the best that any GPU inside it can have.

    ``box`` is that of a ``Region``, with one number of residents.
    """
    residents = int(box[RESIDENTS])
    contention_cap, power_cap = box[CONTENTION + 1] * (1.0 + MARGIN), box[POWER + 1] * (1.0 + MARGIN)
    for m in range(len(tables.kernels)):
        for j in range(len(tables.permitted)):
            u = tables.permitted[j]
            for b in range(1, tables.max_batch[m] + 1):
                contention, power = tables.l2_pct[m, b, u], tables.power_w[m, b, u]
                relaxed.time_ms[m, j, b] = np.inf
                if (
                    contention <= contention_cap
                    and power <= power_cap
                    and tables.memory_mib[m, b] <= tables.memory_limit_mib
                ):
                    others_contention = max(0.0, box[CONTENTION] - contention)
                    time_ms = gpu_time_ms(tables, m, b, u, residents, others_contention, 0.0, max(box[POWER], power))
                    relaxed.time_ms[m, j, b] = time_ms * (1.0 - MARGIN)
                    relaxed.rate_rps[m, j, b] = 1000.0 * b / (time_ms * (1.0 - MARGIN) + tables.exposed_ms[m, b])


@compiled
def relax(
    demand: DemandOnGpu,
    charge: Floats,
    box: Floats,
    threshold: float,
    multipliers: Floats,
    alive: Flags,
    rounds: int,
    relaxed: RelaxedCapacityBox,
) -> tuple[float, int]:
    """Bound the worth of GPUs in a box after their residents' charges; stop once the bound is at most ``threshold``.

    Parameters
    ----------
    charge
        Charge for each workload, requests per second, shape (workloads,); negative if the workload's dual rewards it.
    box
        Box of a ``Region``, with one number of residents.
    multipliers
        Multipliers of contention and power to start from, shape (2,); overwritten with those of the output ``relaxed``.
    alive
        Choices that may be part of a GPU worth more than ``threshold``; those that cannot are removed.
    rounds
        Multiplier steps, at most ``ROUNDS``.

    Returns
    -------
    bound : float
        Upper bound on the worth; -inf if the box is empty.
    steps : int
        Number of relaxed solutions written.
    """
    tables, residents = demand.tables, int(box[RESIDENTS])
    capacity = tables.share_units
    contention_cap, power_cap = box[CONTENTION + 1] * (1.0 + MARGIN), box[POWER + 1] * (1.0 + MARGIN)
    _write_best_times(tables, box, relaxed)
    best, step, going = np.array([np.inf, 0.0, 0.0]), 0, True
    while going:
        _charge_demands(tables, multipliers, relaxed)
        _best_batches(demand, charge, alive, relaxed)
        _fill_table(relaxed, residents, capacity)
        top = relaxed.table[0, residents, capacity]
        if top == -np.inf:
            return -np.inf, step
        best_of_table(
            relaxed.offer_first,
            relaxed.offer_slots,
            relaxed.offer_units,
            relaxed.offer_worth,
            residents,
            capacity,
            relaxed.table,
            0,
            relaxed.chosen[step],
        )
        contention_sum, power_sum = 0.0, 0.0
        for n in range(residents):
            k = relaxed.offer[relaxed.chosen[step, n]]
            relaxed.chosen[step, n] = k
            m, u = demand.model[k // len(tables.permitted)], relaxed.units[k]
            contention_sum += tables.l2_pct[m, relaxed.batch[k], u]
            power_sum += tables.power_w[m, relaxed.batch[k], u]
        if step < rounds:
            needed_worth = threshold - multipliers[0] * contention_cap - multipliers[1] * power_cap
            for k in range(len(alive)):
                if alive[k]:
                    units_left = capacity - relaxed.units[k]
                    alive[k] = units_left >= 0
                    if alive[k]:
                        alive[k] = relaxed.worth[k] + relaxed.table[0, residents - 1, units_left] > needed_worth
        going = climb(
            multipliers, best, top, contention_sum, power_sum, contention_cap, power_cap, threshold, step, rounds
        )
        step += 1
    return best[0], step


@compiled
def _charge_demands(tables: Tables, multipliers: Floats, relaxed: RelaxedCapacityBox) -> None:
    """Write ``net`` for each (model, share, batch) that fits into the box."""
    for m in range(len(tables.kernels)):
        for j in range(len(tables.permitted)):
            u = tables.permitted[j]
            for b in range(1, tables.max_batch[m] + 1):
                if relaxed.time_ms[m, j, b] < np.inf:
                    relaxed.net[m, j, b] = (
                        relaxed.rate_rps[m, j, b]
                        - multipliers[0] * tables.l2_pct[m, b, u]
                        - multipliers[1] * tables.power_w[m, b, u]
                    )


@compiled
def _best_batches(demand: DemandOnGpu, charge: Floats, alive: Flags, relaxed: RelaxedCapacityBox) -> None:
    """Write the best batch of each (workload, share), and its worth."""
    shares = len(demand.tables.permitted)
    budget_by_share = demand.budget_ms.shape[2] > 1
    for w in range(len(demand.model)):
        m = demand.model[w]
        for j in range(shares):
            if not alive[w * shares + j]:
                relaxed.worth[w * shares + j] = -np.inf
                continue
            worth, batch = -np.inf, 0
            u = demand.tables.permitted[j] if budget_by_share else 0
            for b in range(1, demand.tables.max_batch[m] + 1):
                if relaxed.time_ms[m, j, b] <= demand.budget_ms[w, b, u] and relaxed.net[m, j, b] > worth:
                    worth, batch = relaxed.net[m, j, b], b
            k = w * shares + j
            relaxed.worth[k], relaxed.batch[k] = worth - charge[w], batch


@compiled
def _fill_table(relaxed: RelaxedCapacityBox, residents: int, capacity: int) -> None:
    """Write ``table`` and its offers: the choices worth more than all choices of the workload with smaller shares."""
    count = 0
    for w in range(len(relaxed.first) - 1):
        relaxed.offer_first[w] = count
        best = -np.inf
        for k in range(relaxed.first[w], relaxed.first[w + 1]):
            if relaxed.worth[k] > best:
                best = relaxed.worth[k]
                relaxed.offer[count], relaxed.offer_units[count], relaxed.offer_worth[count] = k, relaxed.units[k], best
                count += 1
    relaxed.offer_first[len(relaxed.first) - 1] = count
    completion_table(
        relaxed.offer_first,
        relaxed.offer_slots,
        relaxed.offer_units,
        relaxed.offer_worth,
        True,  # exactly n slots
        residents,
        capacity,
        relaxed.table,
    )


@compiled
def losses_rps(demand: DemandOnGpu, box: Floats, relaxed: RelaxedCapacityBox, step: int) -> tuple[float, float, float]:
    """Return ``Region.losses`` of a step's relaxed solution: throughput lost from the floors to each ceiling.

    The first entry is 0, since the number of residents is known.
    """
    tables, residents = demand.tables, int(box[RESIDENTS])
    contention_loss, power_loss = 0.0, 0.0
    for k in relaxed.chosen[step, :residents]:
        m, b, u = demand.model[k // len(tables.permitted)], relaxed.batch[k], relaxed.units[k]
        contention, power, exposed_ms = tables.l2_pct[m, b, u], tables.power_w[m, b, u], tables.exposed_ms[m, b]
        others_low, others_high = max(0.0, box[CONTENTION] - contention), max(0.0, box[CONTENTION + 1] - contention)
        power_low, power_high = max(box[POWER], power), max(box[POWER + 1], power)
        best_ms = gpu_time_ms(tables, m, b, u, residents, others_low, 0.0, power_low)
        contention_ms = gpu_time_ms(tables, m, b, u, residents, others_high, 0.0, power_low)
        power_ms = gpu_time_ms(tables, m, b, u, residents, others_low, 0.0, power_high)
        best = 1000.0 * b / (best_ms + exposed_ms)
        contention_loss += best - 1000.0 * b / (contention_ms + exposed_ms)
        power_loss += best - 1000.0 * b / (power_ms + exposed_ms)
    return 0.0, contention_loss, power_loss
