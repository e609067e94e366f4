"""Tests of one GPU: the alternatives at a box's floors, and whether a pattern fits.

Alternatives, and sets of options, are relaxed: limits have the margin. A decided pattern (the batch and the share of
every slot) is tested as the judge tests it, with the tolerance of constraints alone.
"""

import numpy as np

from bench.certificate.boxes import FINE
from bench.certificate.knapsack import Alternatives
from bench.certificate.patterns import Candidates
from instances.arrays import Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms, gpu_times_ms
from instances.tables import Tables
from instances.tolerance import MARGIN

ROUNDING = 1e-13
"""Relative rounding of a product, well above that of the processor."""


@compiled
def time_at_floors(
    merged: Tables, model: int, batch: int, units: int, residents: int, l2: float, power: float
) -> float:
    """Return the least GPU time of a slot on a GPU whose total demands, the slot's included, are at least these."""
    others = max(0.0, l2 - merged.l2_pct[model, batch, units])
    return gpu_time_ms(
        merged, model, batch, units, residents, others, 0.0, max(power, merged.power_w[model, batch, units])
    )


@compiled
def least_share(
    merged: Tables, candidates: Candidates, model: int, option: int, residents: int, l2_floor: float, power_floor: float
) -> int:
    """Return the least share at which an option meets its budget on a GPU whose total demands are at least these.

    Return ``share_units + 1`` if there is none. The totals include the option's own demands. The search starts at the
    option's least share alone and tries every larger share, because a budget may fall as the share grows.
    """
    b, last = candidates.batch[option], candidates.budget_ms.shape[1] - 1
    u = candidates.alone[option]
    while u <= merged.share_units:
        time_ms = time_at_floors(merged, model, b, u, residents, l2_floor, power_floor)
        if time_ms <= candidates.budget_ms[option, u if last else 0] * (1.0 + MARGIN):
            return u
        u = merged.next_share[u]
    return u


@compiled
def worth_at(candidates: Candidates, k: int, rate_rps: float) -> int:
    """Return the worth of candidate ``k``, rounded up, if the largest throughput of its slot is ``rate_rps``."""
    return candidates.worth[k] + int(np.ceil(candidates.per_rps[k] * rate_rps * (1.0 + ROUNDING)))


@compiled
def least_demands(
    merged: Tables,
    candidates: Candidates,
    k: int,
    low: int,
    high: int,
    residents: int,
    l2_floor: float,
    power_floor: float,
) -> tuple[int, float, float, float]:
    """Return the least share, L2, power and memory of candidate ``k`` over its options from ``low`` to ``high - 1``.

    The share is ``share_units + 1`` if no option meets its budget at the floors.
    """
    m = candidates.model[k]
    units, l2, power, memory = merged.share_units + 1, np.inf, np.inf, np.inf
    for o in range(low, high):
        u = least_share(merged, candidates, m, o, residents, l2_floor, power_floor)
        if u <= merged.share_units:
            b = candidates.batch[o]
            units, memory = min(units, u), min(memory, merged.memory_mib[m, b])
            l2, power = min(l2, merged.l2_pct[m, b, u]), min(power, merged.power_w[m, b, u])
    return units, l2, power, memory


@compiled
def alternatives_of_sets(
    merged: Tables, candidates: Candidates, residents: int, l2_floor: float, power_floor: float, given: Alternatives
) -> int:
    """Write an alternative per candidate: least share, demand and power of its options. Return their number."""
    count = 0
    for k in range(len(candidates.model)):
        low, high = candidates.first[k], candidates.first[k + 1]
        units, l2, power, _ = least_demands(merged, candidates, k, low, high, residents, l2_floor, power_floor)
        if units <= merged.share_units:
            given.candidate[count], given.units[count], given.worth[count] = k, units, candidates.worth[k]
            given.option[count] = -1
            given.l2[count] = int(np.floor(l2 * FINE * (1.0 - MARGIN)))
            given.power[count] = int(np.floor(power * FINE * (1.0 - MARGIN)))
            count += 1
    return count


@compiled
def alternatives_of_slots(
    tables: Tables,
    merged: Tables,
    candidates: Candidates,
    residents: int,
    l2_floor: float,
    power_floor: float,
    given: Alternatives,
) -> int:
    """Write one alternative per candidate, option and share that meets its budget; return their number.

    An alternative's worth is that of its throughput at the floors. In a pattern of the box, its worth is at most this.
    """
    count, last = 0, candidates.budget_ms.shape[1] - 1
    for k in range(len(candidates.model)):
        m = candidates.model[k]
        for o in range(candidates.first[k], candidates.first[k + 1]):
            b, u = candidates.batch[o], candidates.alone[o]
            while u <= merged.share_units:
                time_ms = time_at_floors(merged, m, b, u, residents, l2_floor, power_floor)
                if time_ms <= candidates.budget_ms[o, u if last else 0] * (1.0 + MARGIN):
                    given.candidate[count], given.units[count], given.option[count] = k, u, o
                    given.worth[count] = worth_at(candidates, k, 1000.0 * b / (time_ms + tables.exposed_ms[m, b]))
                    given.l2[count] = int(np.floor(merged.l2_pct[m, b, u] * FINE * (1.0 - MARGIN)))
                    given.power[count] = int(np.floor(merged.power_w[m, b, u] * FINE * (1.0 - MARGIN)))
                    count += 1
                u = merged.next_share[u]
    return count


@compiled
def fits(tables: Tables, merged: Tables, candidates: Candidates, chosen: Ints, node_limit: int) -> int:
    """Return whether one GPU serves the chosen candidates at some batches and shares: 1, 0, or -1 if undecided.

    Each candidate has a range of options; at first it has all of them. Floors are lower bounds on the total demand and
    power of every choice within the ranges. At given floors, each candidate has a least share, demand and power over
    its range. Their sums are higher floors, so this step is repeated up to a fixed point. If the least shares then
    exceed the GPU, or the least memories its memory, no choice fits. Otherwise the widest range is halved.

    If each range has one option, the least shares are computed from the true tables: each share is raised until its
    slot meets its budget. The fixed point has the least shares of all feasible choices, so it decides.
    """
    count = len(chosen)
    depth = 2 + 8 * count
    low, high = np.empty((depth, count), dtype=np.int64), np.empty((depth, count), dtype=np.int64)
    for j in range(count):
        low[0, j], high[0, j] = candidates.first[chosen[j]], candidates.first[chosen[j] + 1]
    stored, nodes = 1, 0
    while stored > 0:
        stored -= 1
        nodes += 1
        if nodes > node_limit or stored + 2 >= depth:
            return -1
        if not _may_fit(merged, candidates, chosen, low[stored], high[stored]):
            continue
        widest = np.argmax(high[stored] - low[stored])
        if high[stored, widest] - low[stored, widest] == 1:
            if _fits_exactly(tables, candidates, chosen, low[stored]):
                return 1
            continue
        middle = (low[stored, widest] + high[stored, widest]) // 2
        low[stored + 1], high[stored + 1] = low[stored], high[stored]
        high[stored, widest] = low[stored + 1, widest] = middle
        stored += 2
    return 0


@compiled
def _may_fit(merged: Tables, candidates: Candidates, chosen: Ints, low: Ints, high: Ints) -> bool:
    residents = len(chosen)
    l2_floor, power_floor = 0.0, 0.0
    while True:
        total, l2, power, memory = 0, 0.0, 0.0, 0.0
        for j in range(residents):
            units, own_l2, own_power, own_memory = least_demands(
                merged, candidates, chosen[j], low[j], high[j], residents, l2_floor, power_floor
            )
            total, l2, power, memory = total + units, l2 + own_l2, power + own_power, memory + own_memory
        if total > merged.share_units or memory > merged.memory_limit_mib * (1.0 + MARGIN):
            return False
        l2, power = l2 * (1.0 - MARGIN), power * (1.0 - MARGIN)
        if l2 <= l2_floor * (1.0 + MARGIN) and power <= power_floor * (1.0 + MARGIN):
            return True
        l2_floor, power_floor = max(l2, l2_floor), max(power, power_floor)


@compiled
def _fits_exactly(tables: Tables, candidates: Candidates, chosen: Ints, option: Ints) -> bool:
    count, last = len(chosen), candidates.budget_ms.shape[1] - 1
    model, batch, units = candidates.model[chosen], candidates.batch[option], candidates.alone[option]
    times_ms, raised, memory = np.empty(count), True, 0.0
    for j in range(count):
        memory += tables.memory_mib[model[j], batch[j]]
    if memory > tables.memory_limit_mib:
        return False
    while raised:
        if units.sum() > tables.share_units:
            return False
        gpu_times_ms(tables, model, batch, units, count, times_ms)
        raised = False
        for j in range(count):
            if times_ms[j] > candidates.budget_ms[option[j], units[j] if last else 0]:
                units[j] = tables.next_share[units[j]]
                if units[j] > tables.share_units:
                    return False
                raised = True
    return True


@compiled
def exact_worth(tables: Tables, candidates: Candidates, chosen: Ints, option: Ints, units: Ints) -> tuple[bool, int]:
    """Return whether these slots fit on one GPU, and the sum of their worths beside each other."""
    count, last = len(chosen), candidates.budget_ms.shape[1] - 1
    model, batch = candidates.model[chosen], candidates.batch[option]
    times_ms, worth, memory = np.empty(count), 0, 0.0
    gpu_times_ms(tables, model, batch, units, count, times_ms)
    for j in range(count):
        if times_ms[j] > candidates.budget_ms[option[j], units[j] if last else 0]:
            return False, 0
        exposed = tables.exposed_ms[model[j], batch[j]]
        worth += worth_at(candidates, chosen[j], 1000.0 * batch[j] / (times_ms[j] + exposed))
        memory += tables.memory_mib[model[j], batch[j]]
    return memory <= tables.memory_limit_mib, worth
