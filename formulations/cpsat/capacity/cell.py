"""Cells of a GPU's configurations: an upper bound on the throughput inside a cell, and the plan behind the bound.

A cell gives every resident an interval of its configurations. A resident's throughput at given shares and batches is
``1000 b f / (A + y f)``. A is its work in milliseconds at full clock, linear in the demands of its neighbours; f is the
clock, and y is the transfer time that no execution hides. The throughput is convex in A and concave in the total power.
So a chord in A and a tangent in the power are upper bounds, with slopes bounded over the cell. The remaining problem is
separable: each resident's throughput beside the least demands of the others, minus the loss that its own demands cause
its neighbours. A dynamic program over the shares of the GPU maximises the sum.

Rounding errors are about 1e-15; ``MARGIN`` is far above them. Comparisons that drop a configuration are relaxed by it,
and every upper bound is raised by it.
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
        First configuration of each resident and the one after its last; narrowed to those that some plan may use.
    chosen
        Overwritten with the configurations that attain the bound.
    """
    count = len(members)
    alive = np.ones((count, np.max(high - low)), dtype=np.bool_)
    start = low.copy()
    least, most = np.empty((count, 5)), np.empty((count, 5))
    if not _filter(gpu, configurations, low, high, start, alive, least, most):
        return -np.inf
    for i in range(1, count):
        if members[i] == members[i - 1]:
            # Symmetry breaking: the first of identical residents takes the earlier configuration.
            high[i - 1] = min(high[i - 1], high[i])
            low[i] = max(low[i], low[i - 1])
            if low[i - 1] >= high[i - 1] or low[i] >= high[i]:
                return -np.inf
    return _most(gpu, configurations, low, high, start, alive, least, most, chosen)


@compiled
def _filter(
    gpu: Tables,
    configurations: Configurations,
    low: Ints,
    high: Ints,
    start: Ints,
    alive: Flags,
    least: Floats,
    most: Floats,
) -> bool:
    """Drop configurations that violate a limit even beside the least demands in the cell, until nothing changes.

    ``least`` and ``most`` are overwritten with each resident's least and most L2, DRAM, power, units and memory.
    """
    count = len(low)
    while True:
        for i in range(count):
            least[i] = np.inf
            most[i] = -np.inf
            for k in range(low[i], high[i]):
                if alive[i, k - start[i]]:
                    for q in range(5):
                        amount = _amount(gpu, configurations, k, q)
                        least[i, q] = min(least[i, q], amount)
                        most[i, q] = max(most[i, q], amount)
            if least[i, 3] == np.inf:
                return False
        changed = False
        for i in range(count):
            others = _sum_but(least, i)
            for k in range(low[i], high[i]):
                if not alive[i, k - start[i]]:
                    continue
                fits = configurations.units[k] + others[3] <= gpu.share_units and (
                    _amount(gpu, configurations, k, 4) + others[4] <= gpu.memory_limit_mib * (1.0 + MARGIN)
                )
                if fits:
                    work_ms, _ = _work_ms(gpu, configurations, k, count, others[0], others[1])
                    clock = _clock(gpu, _amount(gpu, configurations, k, 2) + others[2])
                    fits = clock > 0.0 and work_ms <= configurations.budget_ms[k, 0] * clock * (1.0 + MARGIN)
                if not fits:
                    alive[i, k - start[i]] = False
                    changed = True
            while low[i] < high[i] and not alive[i, low[i] - start[i]]:
                low[i] += 1
            while high[i] > low[i] and not alive[i, high[i] - 1 - start[i]]:
                high[i] -= 1
        if not changed:
            return True


@compiled
def _amount(gpu: Tables, configurations: Configurations, k: int, quantity: int) -> float:
    """Return L2, DRAM, power, units or memory of a configuration."""
    model, batch, units = configurations.model[k], configurations.batch[k], configurations.units[k]
    if quantity == 0:
        return float(gpu.l2_pct[model, batch, units])
    if quantity == 1:
        return float(gpu.dram_pct[model, batch, units])
    if quantity == 2:
        return float(gpu.power_w[model, batch, units])
    return float(units) if quantity == 3 else float(gpu.memory_mib[model, batch])


@compiled
def _sum_but(amounts: Floats, left_out: int) -> Floats:
    """Return the sum of each quantity over all residents but one."""
    total = np.zeros(amounts.shape[1])
    for i in range(len(amounts)):
        if i != left_out:
            total += amounts[i]
    return total


@compiled
def _work_ms(
    gpu: Tables, configurations: Configurations, k: int, residents: int, l2_pct: float, dram_pct: float
) -> tuple[float, bool]:
    """Return the GPU time at full clock beside others with these demands, and whether the growth is clipped at 1."""
    model, batch, units = configurations.model[k], configurations.batch[k], configurations.units[k]
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
    gpu: Tables, configurations: Configurations, k: int, count: int, others_least: Floats, others_most: Floats
) -> tuple[float, float, float, float]:
    """Return the throughput beside the least demands, and its least loss per percent of L2, of DRAM and per watt."""
    model, batch, units = configurations.model[k], configurations.batch[k], configurations.units[k]
    exposed_ms, asked = gpu.exposed_ms[model, batch], 1000.0 * batch
    power_w = _amount(gpu, configurations, k, 2) + others_least[2]
    best_ms, clipped = _work_ms(gpu, configurations, k, count, others_least[0], others_least[1])
    clock = _clock(gpu, power_w)
    throughput = asked * clock / (best_ms + exposed_ms * clock)
    per_ms = 0.0
    if not clipped:
        # The slope of the chord in A, f / ((A0 + y f) (A1 + y f)), rises and then falls with f: it is least at an end.
        worst_ms, _ = _work_ms(gpu, configurations, k, count, others_most[0], others_most[1])
        slowest = max(0.0, _clock(gpu, _amount(gpu, configurations, k, 2) + others_most[2]))
        per_ms = asked * min(
            clock / ((best_ms + exposed_ms * clock) * (worst_ms + exposed_ms * clock)),
            slowest / ((best_ms + exposed_ms * slowest) * (worst_ms + exposed_ms * slowest)),
        )
    active_ms = gpu.active_ms[model, batch, units]
    per_watt = 0.0
    if gpu.idle_power_w + power_w >= gpu.max_power_w:
        # Slope of the tangent in the power, at the least power
        per_watt = -gpu.throttle_per_w * asked * best_ms / (best_ms + exposed_ms * clock) ** 2
    per_l2, per_dram = per_ms * active_ms * gpu.alpha_l2[model], per_ms * active_ms * gpu.alpha_dram[model]
    return throughput, per_l2, per_dram, per_watt


@compiled
def _most(
    gpu: Tables,
    configurations: Configurations,
    low: Ints,
    high: Ints,
    start: Ints,
    alive: Flags,
    least: Floats,
    most: Floats,
    chosen: Ints,
) -> float:
    """Return the upper bound of a filtered cell."""
    count, shares = len(low), gpu.share_units
    throughput = np.empty(alive.shape)
    loss = np.full((count, 3), np.inf)
    for i in range(count):
        others_least, others_most = _sum_but(least, i), _sum_but(most, i)
        for k in range(low[i], high[i]):
            if alive[i, k - start[i]]:
                value, per_l2, per_dram, per_watt = _slopes(gpu, configurations, k, count, others_least, others_most)
                throughput[i, k - start[i]] = value
                loss[i, 0] = min(loss[i, 0], per_l2)
                loss[i, 1] = min(loss[i, 1], per_dram)
                loss[i, 2] = min(loss[i, 2], per_watt)
        if loss[i, 0] == np.inf:
            return -np.inf
    # table[i, s]: the largest throughput of residents i, i + 1, ... in s units.
    table = np.full((count + 1, shares + 1), -np.inf)
    table[count] = 0.0
    worth, best = np.full((count, shares + 1), -np.inf), np.zeros((count, shares + 1), dtype=np.int64)
    total = 0.0
    for i in range(count - 1, -1, -1):
        charge = _sum_but(loss, i)
        largest = 0.0
        for k in range(low[i], high[i]):
            if alive[i, k - start[i]]:
                value, u = throughput[i, k - start[i]], configurations.units[k]
                largest = max(largest, value)
                for q in range(3):
                    value -= charge[q] * (_amount(gpu, configurations, k, q) - least[i, q])
                if value > worth[i, u]:
                    worth[i, u], best[i, u] = value, k
        total += largest
        for u in range(shares + 1):
            if worth[i, u] > -np.inf:
                for s in range(u, shares + 1):
                    table[i, s] = max(table[i, s], worth[i, u] + table[i + 1, s - u])
    if table[0, shares] == -np.inf:
        return -np.inf
    free = shares
    for i in range(count):
        for u in range(free + 1):
            if worth[i, u] > -np.inf and worth[i, u] + table[i + 1, free - u] == table[i, free]:
                chosen[i] = best[i, u]
                free -= u
                break
    return float(table[0, shares] + MARGIN * total)


@compiled
def throughput_of(gpu: Tables, configurations: Configurations, chosen: Ints) -> tuple[float, float]:
    """Return the throughput of these configurations on one GPU, and the least slack.

    The slack covers shares, memory and times, relative to their limits. The GPU is feasible iff it is not negative.
    """
    count = len(chosen)
    model, batch, units = configurations.model[chosen], configurations.batch[chosen], configurations.units[chosen]
    times_ms = np.empty(count)
    gpu_times_ms(gpu, model, batch, units, count, times_ms)
    if units.sum() > gpu.share_units:
        return 0.0, -np.inf
    total = memory_mib = 0.0
    for i in range(count):
        memory_mib += gpu.memory_mib[model[i], batch[i]]
    slack = (gpu.memory_limit_mib - memory_mib) / gpu.memory_limit_mib
    for i in range(count):
        budget_ms = configurations.budget_ms[chosen[i], 0]
        slack = min(slack, (budget_ms - times_ms[i]) / budget_ms)
        total += 1000.0 * batch[i] / (times_ms[i] + gpu.exposed_ms[model[i], batch[i]])
    return total, slack
