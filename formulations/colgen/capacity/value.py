"""What a set of workloads is worth on one GPU: found by the one-GPU kernels, and bounded by halving boxes."""

import numpy as np
from numba import njit
from numpy.typing import NDArray

from formulations.colgen.boxes import MARGIN, least_share
from formulations.colgen.capacity.takes import capacity_takes
from formulations.colgen.relaxation import relax_box
from instances.least_shares import least_shares
from instances.spare_shares import spend_spare_shares
from instances.tables import Tables

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

MULTIPLIER_ROUNDS = 10

SET_BOXES = 48
"""Boxes into which one set's box is halved at most before its bound is left as it is."""


@njit(cache=True)
def value_pattern(
    tables: Tables, model: Ints, budget_ms: Floats, workload: Ints, batch: Ints, units: Ints, node_limit: int
) -> float:
    """Throughput of one GPU with these residents: batches by coordinate ascent, spare shares spent for each.

    Parameters
    ----------
    tables, model, budget_ms
        See ``capacity_takes``.
    workload
        The residents, shape (residents,).
    batch
        Where to start; overwritten with the best found.
    units
        Written.
    node_limit
        Of each spending of spare shares.

    Returns
    -------
    float
        Requests per second; -1 if the residents do not fit with the batches tried.
    """
    count = len(workload)
    rows = model[workload]
    budget = np.empty(count)
    trial_units = np.empty(count, dtype=np.int64)
    trial = batch.copy()
    best = -1.0
    improved = True
    first = True
    while improved:
        improved = False
        for i in range(-1 if first else 0, count):
            for step in (-1, 1, 2, 4):
                if i < 0 and step != 1:
                    continue
                trial[:] = batch
                if i >= 0:
                    trial[i] += step
                    if trial[i] < 1 or trial[i] >= budget_ms.shape[1]:
                        continue
                possible = True
                for j in range(count):
                    budget[j] = budget_ms[workload[j], trial[j]]
                    possible = possible and budget[j] > 0.0
                if not possible or not least_shares(tables, rows, trial, budget, trial_units):
                    continue
                value, _ = spend_spare_shares(tables, rows, trial, budget, trial_units, node_limit)
                if value > best * (1.0 + 1e-12):
                    best = value
                    batch[:] = trial
                    units[:] = trial_units
                    improved = i >= 0 or improved
        first = False
    return best


@njit(cache=True)
def can_fit(tables: Tables, model: Ints, budget_ms: Floats, members: Ints, batch: Ints) -> bool:
    """Whether the least that a set must take, whichever its batches, fits on one GPU: false is a proof.

    Writes into ``batch`` those that take the least shares there, a good place to look for batches that really fit.
    """
    l2_floor, power_floor = 0.0, 0.0
    while True:
        total, l2, power = 0, 0.0, 0.0
        for j in range(len(members)):
            w = members[j]
            m = model[w]
            units, own_l2, own_power = tables.share_units + 1, np.inf, np.inf
            for b in range(1, budget_ms.shape[1]):
                if budget_ms[w, b] > 0.0:
                    limit_ms = budget_ms[w, b] * (1.0 + MARGIN)
                    u = least_share(tables, m, b, 1, limit_ms, len(members), l2_floor, power_floor)
                    if u <= tables.share_units:
                        if u < units:
                            units, batch[j] = u, b
                        own_l2 = min(own_l2, tables.l2_pct[m, b, u])
                        own_power = min(own_power, tables.power_w[m, b, u])
            total += units
            l2 += own_l2
            power += own_power
            if total > tables.share_units:
                return False
        if l2 <= l2_floor * (1.0 + MARGIN) and power <= power_floor * (1.0 + MARGIN):
            return True
        l2_floor, power_floor = max(l2, l2_floor), max(power, power_floor)


@njit(cache=True)
def set_bound(
    tables: Tables, model: Ints, budget_ms: Floats, members: Ints, charge: float, box: Floats, threshold: float
) -> float:
    """Bound the worth of one set of workloads in a box by halving the box, until at most ``threshold``.

    Parameters
    ----------
    tables, model, budget_ms
        See ``capacity_takes``.
    members
        The set, shape (residents,).
    charge
        Sum of their charges.
    box, threshold
        Where, and the bound that is good enough.
    """
    count, shares = len(members), len(tables.permitted)
    rows, budgets = model[members], budget_ms[members]
    first = np.arange(count + 1) * shares
    size = count * shares
    units = np.empty(size, dtype=np.int16)
    gain, l2, power, worth = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    usable = np.empty(size, dtype=np.bool_)
    table = np.empty((count + 1, count + 1, tables.share_units + 1))
    chosen = np.empty(count, dtype=np.int64)
    waiting = np.empty((SET_BOXES + 2, 5))
    waiting[0] = box
    waiting_bound = np.full(SET_BOXES + 2, np.inf)
    alive = 1
    for step in range(SET_BOXES):
        worst = int(np.argmax(waiting_bound[:alive]))
        if waiting_bound[worst] <= threshold + charge or alive == 0:
            break
        here = waiting[worst].copy()
        alive -= 1
        waiting[worst], waiting_bound[worst] = waiting[alive], waiting_bound[alive]
        for half in range(1 if step == 0 else 2):
            part = here.copy()
            if step > 0:
                _halve(part, half)
            capacity_takes(tables, rows, budgets, part, units, gain, l2, power)
            most_l2, most_power = 0.0, 0.0
            for i in range(count):
                own_l2, own_power = 0.0, 0.0
                for k in range(first[i], first[i + 1]):
                    if units[k] <= tables.share_units:
                        u = units[k]
                        for b in range(1, budgets.shape[1]):
                            if budgets[i, b] > 0.0:
                                own_l2 = max(own_l2, tables.l2_pct[rows[i], b, u])
                                own_power = max(own_power, tables.power_w[rows[i], b, u])
                most_l2 += own_l2
                most_power += own_power
            if most_l2 * (1.0 + MARGIN) < part[1] or most_power * (1.0 + MARGIN) < part[3]:
                continue
            bound, _, _ = relax_box(
                first,
                part,
                tables.share_units,
                units,
                l2,
                power,
                gain,
                threshold + charge,
                np.zeros(2),
                MULTIPLIER_ROUNDS,
                worth,
                usable,
                table,
                chosen,
            )
            if bound > threshold + charge:
                waiting[alive], waiting_bound[alive] = part, bound
                alive += 1
        if alive == 0:
            break
    best = threshold
    for i in range(alive):
        best = max(best, waiting_bound[i] - charge)
    return best


@njit(cache=True)
def _halve(box: Floats, half: int) -> None:
    """Keep the lower (0) or upper (1) half of a box along its wider axis; an open end is cut at twice its start."""
    l2_cut = (box[1] + box[2]) / 2.0 if np.isfinite(box[2]) else 2.0 * box[1] + 10.0
    power_cut = (box[3] + box[4]) / 2.0 if np.isfinite(box[4]) else 2.0 * box[3] + 50.0
    if (l2_cut - box[1]) / 10.0 >= (power_cut - box[3]) / 25.0:
        box[2 - half] = l2_cut
    else:
        box[4 - half] = power_cut
