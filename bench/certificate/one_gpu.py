"""Computations for one GPU: the alternatives at a box's floors, and the test whether a pattern fits.

The limits of alternatives and of sets of options are relaxed by the margin. A pattern whose batches and shares are all
decided is tested as the judge tests it, with the tolerance of constraints alone.
"""

import numpy as np

from bench.certificate.boxes import STEPS_PER_UNIT
from bench.certificate.knapsack import Alternatives
from bench.certificate.patterns import Candidates
from instances.arrays import Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms, gpu_times_ms
from instances.tables import Tables
from instances.tolerance import MARGIN

ROUNDING = 1e-13
"""Relative increase of a product before it is rounded up; far above the rounding errors of floats (about 1e-16)."""


@compiled
def time_at_floors(
    merged: Tables, model: int, batch: int, units: int, residents: int, demand_floor: float, power_floor: float
) -> float:
    """Return the least GPU time of a slot on a GPU whose total demands, its own included, are at least the floors.

    If the power slows no GPU, ``power_w`` of the merged tables is the DRAM demand, or the DRAM demand slows nothing
    (``merged_tables``).
    """
    others_demand = max(0.0, demand_floor - merged.l2_pct[model, batch, units])
    power = max(power_floor, merged.power_w[model, batch, units])
    others_dram = 0.0 if merged.throttle_per_w < 0.0 else power - merged.power_w[model, batch, units]
    return gpu_time_ms(merged, model, batch, units, residents, others_demand, others_dram, power)


@compiled
def least_share(
    merged: Tables,
    candidates: Candidates,
    model: int,
    option: int,
    residents: int,
    demand_floor: float,
    power_floor: float,
) -> int:
    """Return the least share at which an option meets its budget on a GPU whose total demands are at least the floors.

    The share is ``share_units + 1`` if no share meets the budget. The totals include the option's own demands. The
    search tries every share from the option's least share alone, because a budget may fall as the share grows.
    """
    batch, budget_by_share = candidates.batch[option], candidates.budget_ms.shape[1] > 1
    units = candidates.least_share_alone[option]
    while units <= merged.share_units:
        time_ms = time_at_floors(merged, model, batch, units, residents, demand_floor, power_floor)
        if time_ms <= candidates.budget_ms[option, units if budget_by_share else 0] * (1.0 + MARGIN):
            return units
        units = merged.next_share[units]
    return units


@compiled
def worth_at(candidates: Candidates, candidate: int, rate_rps: float) -> int:
    """Return the worth of a candidate, rounded up, if the largest throughput of its slot is ``rate_rps``."""
    return candidates.worth[candidate] + int(np.ceil(candidates.worth_per_rps[candidate] * rate_rps * (1.0 + ROUNDING)))


@compiled
def least_demands(
    merged: Tables,
    candidates: Candidates,
    candidate: int,
    low: int,
    high: int,
    residents: int,
    demand_floor: float,
    power_floor: float,
) -> tuple[int, float, float, float]:
    """Return the least share, demand, power and memory of a candidate over its options ``low`` to ``high - 1``.

    The share is ``share_units + 1`` if no option meets its budget at the floors.
    """
    model = candidates.model[candidate]
    units, demand, power, memory = merged.share_units + 1, np.inf, np.inf, np.inf
    for option in range(low, high):
        units_of_option = least_share(merged, candidates, model, option, residents, demand_floor, power_floor)
        if units_of_option <= merged.share_units:
            batch = candidates.batch[option]
            units, memory = min(units, units_of_option), min(memory, merged.memory_mib[model, batch])
            demand = min(demand, merged.l2_pct[model, batch, units_of_option])
            power = min(power, merged.power_w[model, batch, units_of_option])
    return units, demand, power, memory


@compiled
def alternatives_of_sets(
    merged: Tables,
    candidates: Candidates,
    residents: int,
    demand_floor: float,
    power_floor: float,
    alternatives: Alternatives,
) -> int:
    """Write one alternative per candidate that meets its budget; return their number.

    An alternative has the least share, demand and power of the candidate's options.
    """
    count = 0
    for candidate in range(len(candidates.model)):
        low, high = candidates.first_option[candidate], candidates.first_option[candidate + 1]
        units, demand, power, _ = least_demands(
            merged, candidates, candidate, low, high, residents, demand_floor, power_floor
        )
        if units <= merged.share_units:
            alternatives.candidate[count] = candidate
            alternatives.units[count] = units
            alternatives.worth[count] = candidates.worth[candidate]
            alternatives.option[count] = -1
            alternatives.demand[count] = int(np.floor(demand * STEPS_PER_UNIT * (1.0 - MARGIN)))
            alternatives.power[count] = int(np.floor(power * STEPS_PER_UNIT * (1.0 - MARGIN)))
            count += 1
    return count


@compiled
def alternatives_of_slots(
    tables: Tables,
    merged: Tables,
    candidates: Candidates,
    residents: int,
    demand_floor: float,
    power_floor: float,
    alternatives: Alternatives,
) -> int:
    """Write one alternative per candidate, option and share that meets its budget; return their number.

    The worth of an alternative follows from its throughput at the floors, so it is an upper bound in all patterns of
    the box.
    """
    count, budget_by_share = 0, candidates.budget_ms.shape[1] > 1
    for candidate in range(len(candidates.model)):
        model = candidates.model[candidate]
        for option in range(candidates.first_option[candidate], candidates.first_option[candidate + 1]):
            batch, units = candidates.batch[option], candidates.least_share_alone[option]
            while units <= merged.share_units:
                time_ms = time_at_floors(merged, model, batch, units, residents, demand_floor, power_floor)
                if time_ms <= candidates.budget_ms[option, units if budget_by_share else 0] * (1.0 + MARGIN):
                    alternatives.candidate[count] = candidate
                    alternatives.units[count] = units
                    alternatives.option[count] = option
                    alternatives.worth[count] = worth_at(
                        candidates, candidate, 1000.0 * batch / (time_ms + tables.exposed_ms[model, batch])
                    )
                    alternatives.demand[count] = int(
                        np.floor(merged.l2_pct[model, batch, units] * STEPS_PER_UNIT * (1.0 - MARGIN))
                    )
                    alternatives.power[count] = int(
                        np.floor(merged.power_w[model, batch, units] * STEPS_PER_UNIT * (1.0 - MARGIN))
                    )
                    count += 1
                units = merged.next_share[units]
    return count


@compiled
def fits(tables: Tables, merged: Tables, candidates: Candidates, chosen: Ints, node_limit: int) -> int:
    """Return whether one GPU serves the chosen candidates at some batches and shares: 1, 0, or -1 if undecided.

    Each candidate has a range of options, at first all its options. Floors are lower bounds on the total demand and
    power of every choice within the ranges. At these floors, each candidate has a least share, demand and power over
    its range. Their sums are higher floors, so this step is repeated up to a fixed point. If the least shares then
    exceed the GPU, or the least memories its memory, no choice fits. Otherwise the widest range is halved.

    If each range has one option, the least shares are computed from the true tables: each share is raised until its
    slot meets its budget. No feasible choice has smaller shares, so the test is exact.
    """
    slot_count = len(chosen)
    stack_size = 2 + 8 * slot_count
    low, high = np.empty((stack_size, slot_count), dtype=np.int64), np.empty((stack_size, slot_count), dtype=np.int64)
    for member in range(slot_count):
        low[0, member], high[0, member] = (
            candidates.first_option[chosen[member]],
            candidates.first_option[chosen[member] + 1],
        )
    stacked, nodes = 1, 0  # ``low`` and ``high`` are a stack of ranges, of which ``stacked`` are untested
    while stacked > 0:
        stacked -= 1
        nodes += 1
        if nodes > node_limit or stacked + 2 >= stack_size:
            return -1
        if not _may_fit(merged, candidates, chosen, low[stacked], high[stacked]):
            continue
        widest = np.argmax(high[stacked] - low[stacked])
        if high[stacked, widest] - low[stacked, widest] == 1:
            if _fits_exactly(tables, candidates, chosen, low[stacked]):
                return 1
            continue
        middle = (low[stacked, widest] + high[stacked, widest]) // 2
        low[stacked + 1], high[stacked + 1] = low[stacked], high[stacked]
        high[stacked, widest] = low[stacked + 1, widest] = middle
        stacked += 2
    return 0


@compiled
def _may_fit(merged: Tables, candidates: Candidates, chosen: Ints, low: Ints, high: Ints) -> bool:
    """Return whether the least shares and memories fit on the GPU at the fixed point of the floors."""
    residents = len(chosen)
    demand_floor, power_floor = 0.0, 0.0
    while True:
        total_units, demand, power, memory = 0, 0.0, 0.0, 0.0
        for member in range(residents):
            units, slot_demand, slot_power, slot_memory = least_demands(
                merged, candidates, chosen[member], low[member], high[member], residents, demand_floor, power_floor
            )
            total_units = total_units + units
            demand = demand + slot_demand
            power = power + slot_power
            memory = memory + slot_memory
        if total_units > merged.share_units or memory > merged.memory_limit_mib * (1.0 + MARGIN):
            return False
        demand, power = demand * (1.0 - MARGIN), power * (1.0 - MARGIN)
        if demand <= demand_floor * (1.0 + MARGIN) and power <= power_floor * (1.0 + MARGIN):
            return True
        demand_floor, power_floor = max(demand, demand_floor), max(power, power_floor)


@compiled
def _fits_exactly(tables: Tables, candidates: Candidates, chosen: Ints, option: Ints) -> bool:
    """Return whether the GPU serves these options at the least shares that meet all budgets."""
    slot_count, budget_by_share = len(chosen), candidates.budget_ms.shape[1] > 1
    model, batch, units = candidates.model[chosen], candidates.batch[option], candidates.least_share_alone[option]
    times_ms, raised, memory = np.empty(slot_count), True, 0.0
    for j in range(slot_count):
        memory += tables.memory_mib[model[j], batch[j]]
    if memory > tables.memory_limit_mib:
        return False
    while raised:
        if units.sum() > tables.share_units:
            return False
        gpu_times_ms(tables, model, batch, units, slot_count, times_ms)
        raised = False
        for j in range(slot_count):
            if times_ms[j] > candidates.budget_ms[option[j], units[j] if budget_by_share else 0]:
                units[j] = tables.next_share[units[j]]
                if units[j] > tables.share_units:
                    return False
                raised = True
    return True


@compiled
def exact_worth(tables: Tables, candidates: Candidates, chosen: Ints, option: Ints, units: Ints) -> tuple[bool, int]:
    """Return whether these slots meet their budgets and fit into the memory of one GPU, and the sum of their worths.

    The caller checks that the shares sum to at most one GPU.
    """
    slot_count, budget_by_share = len(chosen), candidates.budget_ms.shape[1] > 1
    model, batch = candidates.model[chosen], candidates.batch[option]
    times_ms, worth, memory = np.empty(slot_count), 0, 0.0
    gpu_times_ms(tables, model, batch, units, slot_count, times_ms)
    for j in range(slot_count):
        if times_ms[j] > candidates.budget_ms[option[j], units[j] if budget_by_share else 0]:
            return False, 0
        exposed_ms = tables.exposed_ms[model[j], batch[j]]
        worth += worth_at(candidates, chosen[j], 1000.0 * batch[j] / (times_ms[j] + exposed_ms))
        memory += tables.memory_mib[model[j], batch[j]]
    return memory <= tables.memory_limit_mib, worth
