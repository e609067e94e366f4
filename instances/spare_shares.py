"""Distribution of the spare units of one GPU among its residents, at fixed batches, for the most throughput."""

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_ms, gpu_times_ms
from instances.least_shares import within_budgets
from instances.tables import Tables


@compiled
def throughput_rps(tables: Tables, model: Ints, batch: Ints, units: Ints) -> float:
    """Return the sum of the residents' throughputs ``b / (t_gpu + exposed)`` on one GPU, in requests per second."""
    count = len(model)
    times_ms = np.empty(count)
    gpu_times_ms(tables, model, batch, units, count, times_ms)
    total = 0.0
    for i in range(count):
        total += 1000.0 * batch[i] / (times_ms[i] + tables.exposed_ms[model[i], batch[i]])
    return total


@compiled
def spend_spare_shares(
    tables: Tables,
    model: Ints,
    batch: Ints,
    budget_ms: Floats,
    units: Ints,
    node_limit: int,
) -> tuple[float, bool]:
    """Raise the shares of one GPU's residents so that their total throughput is largest within their budgets.

    The method is depth-first branch and bound over the residents' shares. A node fixes the shares of the first
    residents. The bound of a node is a sum of two parts. The first part is the throughput of the fixed residents beside
    the least possible demands of the others. The second part is the throughput of the others beside the least possible
    demands of all, with the remaining units distributed by dynamic programming. The best completion of the node never
    exceeds this bound.

    Parameters
    ----------
    model, batch, budget_ms
        Model and batch of each resident, shape (residents,), and its budgets (see ``instances.least_shares``).
    units
        Least feasible shares (from ``least_shares``); overwritten with the best shares found, shape (residents,).
    node_limit
        Largest number of nodes to visit.

    Returns
    -------
    throughput_rps : float
        Throughput at the shares found.
    proven : bool
        Whether the shares are proven optimal among all shares at or above the least feasible ones.
    """
    count, last = len(model), budget_ms.shape[1] - 1
    spare = tables.share_units - units.sum()
    least = units.copy()
    l2_least, dram_least, power_least = np.empty(count), np.empty(count), np.empty(count)
    for i in range(count):
        l2_least[i] = tables.l2_pct[model[i], batch[i], least[i] :].min()
        dram_least[i] = tables.dram_pct[model[i], batch[i], least[i] :].min()
        power_least[i] = tables.power_w[model[i], batch[i], least[i] :].min()
    l2_floor, dram_floor, power_floor = l2_least.sum(), dram_least.sum(), power_least.sum()

    # largest_rps[i, e]: largest throughput of resident i with e extra units.
    # suffix_rps[i, s]: largest throughput of resident i and all later ones with s extra units together.
    largest_rps = np.full((count, spare + 1), -np.inf)
    suffix_rps = np.zeros((count + 1, spare + 1))
    for i in range(count - 1, -1, -1):
        m, b = model[i], batch[i]
        for extra in range(spare + 1):
            u = least[i] + extra
            if extra > 0 and tables.next_share[u - 1] != u:
                continue  # not a permitted share
            time_ms = gpu_time_ms(
                tables,
                m,
                b,
                u,
                count,
                l2_floor - l2_least[i],
                dram_floor - dram_least[i],
                power_floor - power_least[i] + tables.power_w[m, b, u],
            )
            if time_ms <= budget_ms[i, u if last else 0]:
                largest_rps[i, extra] = 1000.0 * b / (time_ms + tables.exposed_ms[m, b])
        for spent in range(spare + 1):
            best_rps = -np.inf
            for extra in range(spent + 1):
                best_rps = max(best_rps, largest_rps[i, extra] + suffix_rps[i + 1, spent - extra])
            suffix_rps[i, spent] = best_rps

    best_total_rps = throughput_rps(tables, model, batch, units)
    best_units = units.copy()
    trial_units = least.copy()
    next_extra = np.full(count, spare + 1)  # at each depth, one more than the next extra units to try
    unspent = np.empty(count + 1, dtype=np.int64)
    unspent[0] = spare
    nodes = 0
    depth = 0
    proven = True
    while depth >= 0:
        next_extra[depth] -= 1
        if next_extra[depth] < 0:
            depth -= 1
            continue
        extra = next_extra[depth]
        if largest_rps[depth, extra] == -np.inf:
            continue
        nodes += 1
        if nodes > node_limit:
            proven = False
            break
        trial_units[depth] = least[depth] + extra
        unspent[depth + 1] = unspent[depth] - extra

        # Demands of the residents with fixed shares, and least demands of the others.
        l2_pct, dram_pct, power_w = l2_floor, dram_floor, power_floor
        for i in range(depth + 1):
            m, b, u = model[i], batch[i], trial_units[i]
            l2_pct += tables.l2_pct[m, b, u] - l2_least[i]
            dram_pct += tables.dram_pct[m, b, u] - dram_least[i]
            power_w += tables.power_w[m, b, u] - power_least[i]
        bound_rps = suffix_rps[depth + 1, unspent[depth + 1]]
        for i in range(depth + 1):
            m, b, u = model[i], batch[i], trial_units[i]
            time_ms = gpu_time_ms(
                tables, m, b, u, count, l2_pct - tables.l2_pct[m, b, u], dram_pct - tables.dram_pct[m, b, u], power_w
            )
            # The margin absorbs rounding: a sum in another order must not cut off a feasible node.
            if time_ms > budget_ms[i, u if last else 0] * (1.0 + 1e-12):
                bound_rps = -np.inf
                break
            bound_rps += 1000.0 * b / (time_ms + tables.exposed_ms[m, b])
        if bound_rps * (1.0 + 1e-12) <= best_total_rps:
            continue
        if depth == count - 1:
            total_rps = throughput_rps(tables, model, batch, trial_units)
            if total_rps > best_total_rps and within_budgets(tables, model, batch, budget_ms, trial_units):
                best_total_rps = total_rps
                best_units[:] = trial_units
            continue
        depth += 1
        next_extra[depth] = unspent[depth] + 1
    units[:] = best_units
    return best_total_rps, proven
