"""Cells of a GPU's configurations: an upper bound on the throughput inside a cell, and the plan behind the bound.

A cell gives every resident an interval of its configurations. A resident's throughput at given shares and batches is
``1000 b f / (A + y f)``. A is its work in milliseconds at full clock, linear in the demands of its neighbours. f is the
clock as a fraction of the full clock, and y is the transfer time that no execution hides. The throughput is convex in A
and concave in the total power. So a chord in A and a tangent in the power are upper bounds, with slopes bounded over
the cell. The remaining problem is separable: each resident adds its throughput beside the least demands of the others,
minus the loss that its own demands cause its neighbours. A dynamic program over the shares of the GPU maximises the
sum.

Rounding errors are about 1e-15, and ``MARGIN`` is far larger. Comparisons that drop a configuration are relaxed by
``MARGIN``, and every upper bound is raised by it.
"""

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.configurations import Configurations
from instances.interference import gpu_times_ms
from instances.tables import Tables

MARGIN = 1e-11
"""Relative tolerance for rounding."""


@compiled
def overestimate(
    gpu: Tables, configurations: Configurations, members: Ints, low: Ints, high: Ints, chosen: Ints
) -> float:
    """Return an upper bound on the requests per second of every feasible plan of one GPU in a cell; -inf without plans.

    Parameters
    ----------
    members
        Class of each resident, ascending, shape (residents,).
    low, high
        First configuration of each resident, and the end of its configurations; narrowed to those that a plan may use.
    chosen
        Overwritten with the configurations that attain the bound.
    """
    resident_count = len(members)
    feasible = np.ones((resident_count, np.max(high - low)), dtype=np.bool_)
    first_rows = low.copy()
    least_amounts, most_amounts = np.empty((resident_count, 5)), np.empty((resident_count, 5))
    if not _drop_infeasible(gpu, configurations, low, high, first_rows, feasible, least_amounts, most_amounts):
        return -np.inf
    for i in range(1, resident_count):
        if members[i] == members[i - 1]:
            # Symmetry breaking: the first of identical residents takes the earlier configuration.
            high[i - 1] = min(high[i - 1], high[i])
            low[i] = max(low[i], low[i - 1])
            if low[i - 1] >= high[i - 1] or low[i] >= high[i]:
                return -np.inf
    return _separable_bound(gpu, configurations, low, high, first_rows, feasible, least_amounts, most_amounts, chosen)


@compiled
def _drop_infeasible(
    gpu: Tables,
    configurations: Configurations,
    low: Ints,
    high: Ints,
    first_rows: Ints,
    feasible: Flags,
    least_amounts: Floats,
    most_amounts: Floats,
) -> bool:
    """Drop configurations that violate a limit even beside the least demands in the cell, until nothing changes.

    ``least_amounts`` and ``most_amounts`` are overwritten with each resident's least and largest L2, DRAM, power, units
    and memory. Return whether every resident has a configuration left.
    """
    resident_count = len(low)
    while True:
        for i in range(resident_count):
            least_amounts[i] = np.inf
            most_amounts[i] = -np.inf
            for row in range(low[i], high[i]):
                if feasible[i, row - first_rows[i]]:
                    for quantity in range(5):
                        amount = _amount(gpu, configurations, row, quantity)
                        least_amounts[i, quantity] = min(least_amounts[i, quantity], amount)
                        most_amounts[i, quantity] = max(most_amounts[i, quantity], amount)
            if least_amounts[i, 3] == np.inf:
                return False
        changed = False
        for i in range(resident_count):
            others_least = _sum_of_others(least_amounts, i)
            for row in range(low[i], high[i]):
                if not feasible[i, row - first_rows[i]]:
                    continue
                fits = configurations.units[row] + others_least[3] <= gpu.share_units and (
                    _amount(gpu, configurations, row, 4) + others_least[4] <= gpu.memory_limit_mib * (1.0 + MARGIN)
                )
                if fits:
                    work_ms, _ = _work_ms(gpu, configurations, row, resident_count, others_least[0], others_least[1])
                    clock = _clock(gpu, _amount(gpu, configurations, row, 2) + others_least[2])
                    fits = clock > 0.0 and work_ms <= configurations.budget_ms[row, 0] * clock * (1.0 + MARGIN)
                if not fits:
                    feasible[i, row - first_rows[i]] = False
                    changed = True
            while low[i] < high[i] and not feasible[i, low[i] - first_rows[i]]:
                low[i] += 1
            while high[i] > low[i] and not feasible[i, high[i] - 1 - first_rows[i]]:
                high[i] -= 1
        if not changed:
            return True


@compiled
def _amount(gpu: Tables, configurations: Configurations, row: int, quantity: int) -> float:
    """Return L2, DRAM, power, units or memory of a configuration."""
    model, batch, units = configurations.model[row], configurations.batch[row], configurations.units[row]
    if quantity == 0:
        return float(gpu.l2_pct[model, batch, units])
    if quantity == 1:
        return float(gpu.dram_pct[model, batch, units])
    if quantity == 2:
        return float(gpu.power_w[model, batch, units])
    return float(units) if quantity == 3 else float(gpu.memory_mib[model, batch])


@compiled
def _sum_of_others(amounts: Floats, left_out: int) -> Floats:
    """Return the sum of each quantity over all residents but one."""
    total = np.zeros(amounts.shape[1])
    for i in range(len(amounts)):
        if i != left_out:
            total += amounts[i]
    return total


@compiled
def _work_ms(
    gpu: Tables, configurations: Configurations, row: int, residents: int, l2_pct: float, dram_pct: float
) -> tuple[float, bool]:
    """Return the GPU time at full clock beside others with these demands, and whether the growth is clipped at 1."""
    model, batch, units = configurations.model[row], configurations.batch[row], configurations.units[row]
    company = 1.0 if residents <= 1 else gpu.company[model, batch, units]
    growth = company + gpu.alpha_l2[model] * l2_pct + gpu.alpha_dram[model] * dram_pct
    clipped = gpu.pairwise and growth < 1.0
    if clipped:
        growth = 1.0
    delay = 0.0 if residents <= 1 else gpu.alpha_sch * residents + gpu.beta_sch
    work_ms = gpu.scheduling_ms[model] + gpu.kernels[model] * delay + gpu.active_ms[model, batch, units] * growth
    return work_ms, clipped


@compiled
def _clock(gpu: Tables, power_w: float) -> float:
    """Return the fraction of the full frequency at this total power, not counting idle power; may be negative."""
    excess_w = gpu.idle_power_w + power_w - gpu.max_power_w
    return 1.0 if excess_w <= 0.0 else 1.0 + gpu.throttle_per_w * excess_w


@compiled
def _slopes(
    gpu: Tables, configurations: Configurations, row: int, residents: int, others_least: Floats, others_most: Floats
) -> tuple[float, float, float, float]:
    """Return the throughput beside the least demands, and its least loss per percent of L2, of DRAM and per watt."""
    model, batch, units = configurations.model[row], configurations.batch[row], configurations.units[row]
    exposed_ms, rps_factor = gpu.exposed_ms[model, batch], 1000.0 * batch
    power_w = _amount(gpu, configurations, row, 2) + others_least[2]
    least_work_ms, clipped = _work_ms(gpu, configurations, row, residents, others_least[0], others_least[1])
    clock = _clock(gpu, power_w)
    throughput = rps_factor * clock / (least_work_ms + exposed_ms * clock)
    loss_per_ms = 0.0
    if not clipped:
        # The slope of the chord in A, f / ((A0 + y f) (A1 + y f)), rises and then falls with f, so it is least at an
        # end of the range of f.
        most_work_ms, _ = _work_ms(gpu, configurations, row, residents, others_most[0], others_most[1])
        slowest_clock = max(0.0, _clock(gpu, _amount(gpu, configurations, row, 2) + others_most[2]))
        loss_per_ms = rps_factor * min(
            clock / ((least_work_ms + exposed_ms * clock) * (most_work_ms + exposed_ms * clock)),
            slowest_clock
            / ((least_work_ms + exposed_ms * slowest_clock) * (most_work_ms + exposed_ms * slowest_clock)),
        )
    active_ms = gpu.active_ms[model, batch, units]
    loss_per_watt = 0.0
    if gpu.idle_power_w + power_w >= gpu.max_power_w:
        # Slope of the tangent in the power, at the least power
        loss_per_watt = -gpu.throttle_per_w * rps_factor * least_work_ms / (least_work_ms + exposed_ms * clock) ** 2
    loss_per_l2 = loss_per_ms * active_ms * gpu.alpha_l2[model]
    loss_per_dram = loss_per_ms * active_ms * gpu.alpha_dram[model]
    return throughput, loss_per_l2, loss_per_dram, loss_per_watt


@compiled
def _separable_bound(
    gpu: Tables,
    configurations: Configurations,
    low: Ints,
    high: Ints,
    first_rows: Ints,
    feasible: Flags,
    least_amounts: Floats,
    most_amounts: Floats,
    chosen: Ints,
) -> float:
    """Return the upper bound of a cell after ``_drop_infeasible``; see the module's text."""
    resident_count, share_units = len(low), gpu.share_units
    throughput = np.empty(feasible.shape)
    least_losses = np.full((resident_count, 3), np.inf)
    for i in range(resident_count):
        others_least, others_most = _sum_of_others(least_amounts, i), _sum_of_others(most_amounts, i)
        for row in range(low[i], high[i]):
            if feasible[i, row - first_rows[i]]:
                rps, loss_per_l2, loss_per_dram, loss_per_watt = _slopes(
                    gpu, configurations, row, resident_count, others_least, others_most
                )
                throughput[i, row - first_rows[i]] = rps
                least_losses[i, 0] = min(least_losses[i, 0], loss_per_l2)
                least_losses[i, 1] = min(least_losses[i, 1], loss_per_dram)
                least_losses[i, 2] = min(least_losses[i, 2], loss_per_watt)
        if least_losses[i, 0] == np.inf:
            return -np.inf
    # table[i, s]: largest sum of throughputs minus losses of the residents i, i + 1, ... in s units
    table = np.full((resident_count + 1, share_units + 1), -np.inf)
    table[resident_count] = 0.0
    largest_net = np.full((resident_count, share_units + 1), -np.inf)
    best_row = np.zeros((resident_count, share_units + 1), dtype=np.int64)
    total_rps = 0.0
    for i in range(resident_count - 1, -1, -1):
        loss_of_others = _sum_of_others(least_losses, i)
        largest_rps = 0.0
        for row in range(low[i], high[i]):
            if feasible[i, row - first_rows[i]]:
                rps, units = throughput[i, row - first_rows[i]], configurations.units[row]
                largest_rps = max(largest_rps, rps)
                for quantity in range(3):
                    rps -= loss_of_others[quantity] * (
                        _amount(gpu, configurations, row, quantity) - least_amounts[i, quantity]
                    )
                if rps > largest_net[i, units]:
                    largest_net[i, units], best_row[i, units] = rps, row
        total_rps += largest_rps
        for units in range(share_units + 1):
            if largest_net[i, units] > -np.inf:
                for available_units in range(units, share_units + 1):
                    table[i, available_units] = max(
                        table[i, available_units], largest_net[i, units] + table[i + 1, available_units - units]
                    )
    if table[0, share_units] == -np.inf:
        return -np.inf
    free_units = share_units
    for i in range(resident_count):
        for units in range(free_units + 1):
            if (
                largest_net[i, units] > -np.inf
                and largest_net[i, units] + table[i + 1, free_units - units] == table[i, free_units]
            ):
                chosen[i] = best_row[i, units]
                free_units -= units
                break
    return float(table[0, share_units] + MARGIN * total_rps)


@compiled
def throughput_of(gpu: Tables, configurations: Configurations, chosen: Ints) -> tuple[float, float]:
    """Return the throughput of these configurations on one GPU, and the least slack.

    The slack is the least over shares, memory and times, relative to their limits. The GPU is feasible if and only if
    the slack is not negative.
    """
    count = len(chosen)
    model, batch, units = configurations.model[chosen], configurations.batch[chosen], configurations.units[chosen]
    times_ms = np.empty(count)
    gpu_times_ms(gpu, model, batch, units, count, times_ms)
    if units.sum() > gpu.share_units:
        return 0.0, -np.inf
    total_rps = memory_mib = 0.0
    for i in range(count):
        memory_mib += gpu.memory_mib[model[i], batch[i]]
    slack = (gpu.memory_limit_mib - memory_mib) / gpu.memory_limit_mib
    for i in range(count):
        budget_ms = configurations.budget_ms[chosen[i], 0]
        slack = min(slack, (budget_ms - times_ms[i]) / budget_ms)
        total_rps += 1000.0 * batch[i] / (times_ms[i] + gpu.exposed_ms[model[i], batch[i]])
    return total_rps, slack
