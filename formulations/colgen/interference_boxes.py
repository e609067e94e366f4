"""Boxes of total interference on one GPU, shared by the pricing problems of all plan classes.

A box fixes the number of residents N, or a range of it, and ranges of the totals C (contention) and P (power). Least
demands inside a box bound the worth of its GPUs. Lagrange multipliers charge for the ceilings of the box.

Contention is one sum for L2 and DRAM. Beside others a batch takes ``1 + a_l2 L + a_dram D`` times as long, where L and
D are their demands in percent. With weights ``v + w = 1`` and ``a = min(a_l2 / v, a_dram / w)`` the factor is at least
``1 + a C`` for the contention ``C = v L + w D``. The two are equal if every model's growths have the ratio v : w, as
they do if one pair of growths was fitted for a whole GPU type. The L2 columns of ``one_growth`` have the contention.

After the multipliers have charged for the demands, a box leaves a knapsack: groups (workloads, or classes of identical
ones) make offers, each a number of slots with a share and a worth. A GPU takes at most one offer of each group.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms
from instances.tables import Tables
from instances.tolerance import MOST_TERMS, summable

CONTENTION_SCALE, POWER_SCALE = 10.0, 50.0
"""Percent and watts that have equal weight in a multiplier step."""

SAME_RATIO = 1e-12
"""Relative difference of growths that is attributed to rounding."""

SURROUNDINGS = np.array([(1.0, 0.0, 0.0), (2.0, 20.0, 1.0), (3.0, 30.0, 1.1), (4.0, 40.0, 1.2)])
"""Residents, contention (percent) and power (part of the power below throttling) at which batches are compared."""

RESIDENTS, CONTENTION, POWER = 0, 2, 4
"""Positions of the floors in a box, an array of shape (6,); each ceiling follows its floor."""


def halved(box: Floats, axis: int, middle: float) -> tuple[Floats, Floats]:
    """Return the lower and upper part of a box along the axis with this floor, cut in the middle."""
    lower, upper = box.copy(), box.copy()
    lower[axis + 1] = upper[axis] = middle
    if axis == RESIDENTS:
        lower[axis + 1] = math.floor(middle)
        upper[axis] = lower[axis + 1] + 1.0
    return lower, upper


class OneGrowth(NamedTuple):
    """Tables with all contention in the L2 columns.

    Attributes
    ----------
    tables
        ``l2_pct`` is the weighted sum, ``alpha_l2`` the growth in it, and the growth in DRAM is zero. The times of the
        tables are at most the original ones.
    exact
        Whether the times of each model equal the original ones up to rounding, shape (models,).
    """

    tables: Tables
    exact: Flags


def one_growth(tables: Tables) -> OneGrowth:
    """Return tables with the weights of L2 and DRAM at which the models' total growth is largest.

    No growth of ``tables`` may be negative.
    """
    both = tables.alpha_l2 + tables.alpha_dram
    dram_weights = np.unique(np.append(tables.alpha_dram[both > 0.0] / both[both > 0.0], 0.0))
    loads = tables.l2_pct.max(axis=(1, 2)).mean(), tables.dram_pct.max(axis=(1, 2)).mean()
    growth = [_growths(tables, w).sum() * ((1.0 - w) * loads[0] + w * loads[1]) for w in dram_weights]
    weight = float(dram_weights[int(np.argmax(growth))])
    alpha = _growths(tables, weight)
    left_out = both - alpha
    if weight == 0.0:
        return OneGrowth(tables._replace(alpha_dram=np.zeros_like(alpha)), tables.alpha_dram == 0.0)
    summed = (1.0 - weight) * tables.l2_pct + weight * tables.dram_pct
    summed = summable(summed, max(tables.share_units, MOST_TERMS) * float(summed.max(initial=0.0)), np.floor)
    merged = tables._replace(l2_pct=summed, alpha_l2=alpha, alpha_dram=np.zeros_like(alpha))
    return OneGrowth(merged, left_out <= SAME_RATIO * both)


def _growths(tables: Tables, dram_weight: float) -> Floats:
    """Return the largest growth ``a`` of each model for these weights, shape (models,)."""
    if dram_weight == 0.0:
        return tables.alpha_l2
    of_dram = tables.alpha_dram / dram_weight
    return of_dram if dram_weight == 1.0 else np.minimum(tables.alpha_l2 / (1.0 - dram_weight), of_dram)


@compiled
def least_share_beside(
    tables: Tables,
    model: int,
    batch: int,
    start_units: int,
    budget_ms: Floats,
    row: int,
    factor: float,
    residents: int,
    contention_floor: float,
    power_floor: float,
    dram_floor: float = 0.0,
) -> int:
    """Return the least share from ``start_units`` up at which the batch is within its budget at the floors.

    In tables with two growths, contention is the L2 demand, and DRAM has a floor of its own. The budgets by share are
    those in row ``row``, times ``factor``. The floors are of the totals, the workload's own demands included. If no
    time rises with the share and there is one budget, bisection finds the share; otherwise each share is tried. If no
    share is enough, the result is ``share_units + 1``.
    """
    budget_by_share = budget_ms.shape[1] > 1
    bisect = tables.falling and not budget_by_share
    low = int(np.searchsorted(tables.permitted, start_units))
    high = len(tables.permitted)
    while low < high:
        middle = (low + high) // 2 if bisect else low
        u = tables.permitted[middle]
        others_contention = max(0.0, contention_floor - tables.l2_pct[model, batch, u])
        others_dram = max(0.0, dram_floor - tables.dram_pct[model, batch, u])
        time_ms = gpu_time_ms(tables, model, batch, u, residents, others_contention, others_dram, power_floor)
        if time_ms <= budget_ms[row, u if budget_by_share else 0] * factor:
            high = middle
        else:
            low = middle + 1
    return tables.permitted[low] if low < len(tables.permitted) else tables.share_units + 1


@compiled
def outshone(tables: Tables, model: int, batch: int, budget_ms: Floats, seen: Flags) -> bool:
    """Return whether in all ``SURROUNDINGS`` a batch marked in ``seen`` is better than ``batch``.

    It is better if it takes less share and demands no more. Row b of ``budget_ms`` has upper bounds on the budgets of
    batch b by share.
    """
    free_w = max(0.0, tables.max_power_w - tables.idle_power_w)
    for n, contention, part in SURROUNDINGS:
        is_beaten, residents, power = False, int(n), part * free_w
        v = least_share_beside(tables, model, batch, 1, budget_ms, batch, 1.0, residents, contention, power)
        for b in range(1, len(seen)):
            if is_beaten or v > tables.share_units:
                break
            if not seen[b]:
                continue
            u = least_share_beside(tables, model, b, 1, budget_ms, b, 1.0, residents, contention, power)
            is_beaten = (
                u < v
                and tables.l2_pct[model, b, u] <= tables.l2_pct[model, batch, v]
                and tables.power_w[model, b, u] <= tables.power_w[model, batch, v]
            )
        if not is_beaten and v <= tables.share_units:
            return False
    return True


@compiled
def completion_table(
    first: Ints,
    slots: Ints,
    units: NDArray[np.int16],
    worth: Floats,
    exactly: bool,
    residents: int,
    capacity: int,
    table: Floats,
) -> None:
    """Fill ``table[w, n, s]``: the largest worth of n slots of the groups w, w + 1, ... within s units, or -inf.

    Parameters
    ----------
    first
        Offers of group w are ``first[w]`` to ``first[w + 1] - 1``.
    slots, units, worth
        Number of slots, share and worth of each offer.
    exactly
        Whether exactly n slots are taken, or at most n.
    residents, capacity
        Largest values of n and s.
    table
        Output, shape (groups + 1, at least residents + 1, capacity + 1).
    """
    groups = len(first) - 1
    table[groups, 0, :] = 0.0
    table[groups, 1 : residents + 1, :] = -np.inf if exactly else 0.0
    for w in range(groups - 1, -1, -1):
        for n in range(residents + 1):
            row, rest_row = table[w, n], table[w + 1, n]
            for s in range(capacity + 1):
                row[s] = rest_row[s]
        for k in range(first[w], first[w + 1]):
            u, value = units[k], worth[k]
            for n in range(slots[k], residents + 1):
                row, rest_row = table[w, n, u : capacity + 1], table[w + 1, n - slots[k]]
                for s in range(len(row)):
                    added, before = value + rest_row[s], row[s]
                    row[s] = added if added > before else before  # max() would not be vectorised


@compiled
def best_of_table(
    first: Ints,
    slots: Ints,
    units: NDArray[np.int16],
    worth: Floats,
    residents: int,
    capacity: int,
    table: Floats,
    begin: int,
    chosen: Ints,
) -> int:
    """Write the offers that attain ``table[begin, residents, capacity]``; return their number."""
    n, s, count = residents, capacity, 0
    for w in range(begin, len(first) - 1):
        if table[w, n, s] == table[w + 1, n, s]:
            continue
        for k in range(first[w], first[w + 1]):
            u, left = units[k], n - slots[k]
            if left >= 0 and u <= s and table[w, n, s] == worth[k] + table[w + 1, left, s - u]:
                chosen[count] = k
                count += 1
                n -= slots[k]
                s -= u
                break
    return count


@compiled
def climb(
    multipliers: Floats,
    best: Floats,
    top: float,
    l2_pct: float,
    power_w: float,
    contention_cap: float,
    power_cap: float,
    threshold: float,
    step: int,
    rounds: int,
) -> bool:
    """Bound the worth of a box by a relaxed solution, and change the multipliers; return whether to solve it again.

    It need not be solved again once the bound is at most the threshold, no multipliers are better, or ``rounds`` steps
    and a last solution at the best multipliers are done.

    Parameters
    ----------
    multipliers
        Multipliers of contention and power of this solution, shape (2,); overwritten with those of the next one.
    best
        Best bound so far and its multipliers, shape (3,); at first infinity and any multipliers.
    top, l2_pct, power_w
        Worth of the relaxed solution after the charges, and its demands.
    contention_cap, power_cap
        Ceilings of the box.
    step
        Number of earlier solutions.
    """
    bound = top + multipliers[0] * contention_cap + multipliers[1] * power_cap
    if bound < best[0]:
        best[0], best[1], best[2] = bound, multipliers[0], multipliers[1]
    if best[0] <= threshold or step == rounds:
        return False
    if not _polyak_step(multipliers, l2_pct - contention_cap, power_w - power_cap, bound - threshold):
        return False
    if step + 1 == rounds:
        multipliers[0], multipliers[1] = best[1], best[2]
    return True


@compiled
def _polyak_step(multipliers: Floats, over_l2_pct: float, over_power_w: float, distance: float) -> bool:
    """Take a Polyak step towards a threshold at this distance; return ``False`` if no multipliers are better.

    That is so if the solution satisfies the ceilings and the multipliers of slack ceilings are zero.
    """
    over_contention, over_power = over_l2_pct / CONTENTION_SCALE, over_power_w / POWER_SCALE
    if multipliers[0] == 0.0:
        over_contention = max(over_contention, 0.0)
    if multipliers[1] == 0.0:
        over_power = max(over_power, 0.0)
    norm = over_contention * over_contention + over_power * over_power
    if norm < 1e-18:
        return False
    length = distance / norm
    multipliers[0] = max(0.0, multipliers[0] + length * over_contention / CONTENTION_SCALE)
    multipliers[1] = max(0.0, multipliers[1] + length * over_power / POWER_SCALE)
    return True


@compiled
def by_units_of(units: NDArray[np.int16], profit: Floats, capacity: int) -> Ints:
    """Return the choices of positive profit that fit on the GPU, by increasing share."""
    place = np.zeros(capacity + 2, dtype=np.int64)
    for k in range(len(profit)):
        if profit[k] > 0.0 and units[k] <= capacity:
            place[units[k] + 1] += 1
    place = np.cumsum(place)
    listed = np.empty(place[-1], dtype=np.int64)
    for k in range(len(profit)):
        if profit[k] > 0.0 and units[k] <= capacity:
            listed[place[units[k]]] = k
            place[units[k]] += 1
    return listed


@compiled
def contenders(
    workload: Ints, units: NDArray[np.int16], worth: Floats, by_units: Ints, residents: int, written: Ints
) -> int:
    """Write choices that contain some best solution, in increasing order; return their number.

    A choice is dominated if ``residents`` other workloads have choices that are worth as much and take no larger share:
    one of these is not in the solution and replaces it. So at most ``residents`` choices of each share are kept.

    Parameters
    ----------
    by_units
        The choices among which to choose, by increasing share.
    written
        Output, at least as long as ``by_units``.
    """
    best = np.empty(residents, dtype=np.int64)  # choices of different workloads so far, by decreasing worth
    size, stored, begin = 0, 0, 0
    while begin < len(by_units):
        share, end = units[by_units[begin]], begin
        while end < len(by_units) and units[by_units[end]] == share:
            k = by_units[end]
            end += 1
            if size == residents and worth[k] <= worth[best[size - 1]]:
                continue
            place = 0
            while place < size and workload[best[place]] != workload[k]:
                place += 1
            if place < size and worth[k] <= worth[best[place]]:
                continue
            if place == size:
                size = min(size + 1, residents)
                place = size - 1
            while place > 0 and worth[best[place - 1]] < worth[k]:
                best[place] = best[place - 1]
                place -= 1
            best[place] = k
        for j in range(size):
            if units[best[j]] == share:
                written[stored] = best[j]
                stored += 1
        begin = end
    written[:stored].sort()
    return stored
