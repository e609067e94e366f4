"""Distribution of the spare shares of one GPU, at fixed batches, for the most throughput."""

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
    """Raise the shares of one GPU's residents to the most total throughput within their budgets.

    The method is depth-first branch and bound over the residents' shares. A node fixes the shares of the first
    residents. Its bound adds their throughputs beside the least possible demands of the others, and the throughputs of
    the others beside the least possible demands of all. Dynamic programming finds the best distribution of the
    remaining units by the latter. The bound never falls below the best completion of the node.

    Parameters
    ----------
    model, batch, budget_ms
        Figures of the residents, shape (residents,), and budgets by share (see ``instances.least_shares``).
    units
        Least feasible shares (from ``least_shares``); overwritten with the best shares found, shape (residents,).
    node_limit
        Largest number of nodes to visit.

    Returns
    -------
    throughput_rps : float
        Throughput at the shares found.
    proven : bool
        Whether the result is proven optimal among shares at or above the least ones.
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

    # hope[i, e]: largest throughput of resident i with e more units; rest[i, s]: that of i and later with s together.
    hope = np.full((count, spare + 1), -np.inf)
    rest = np.zeros((count + 1, spare + 1))
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
                hope[i, extra] = 1000.0 * b / (time_ms + tables.exposed_ms[m, b])
        for s in range(spare + 1):
            best = -np.inf
            for extra in range(s + 1):
                best = max(best, hope[i, extra] + rest[i + 1, s - extra])
            rest[i, s] = best

    best_value = throughput_rps(tables, model, batch, units)
    best_units = units.copy()
    trial = least.copy()
    extra_at = np.full(count, spare + 1)  # next extra to try at each depth, counting down
    left = np.empty(count + 1, dtype=np.int64)
    left[0] = spare
    nodes = 0
    depth = 0
    proven = True
    while depth >= 0:
        extra_at[depth] -= 1
        if extra_at[depth] < 0:
            depth -= 1
            continue
        extra = extra_at[depth]
        if hope[depth, extra] == -np.inf:
            continue
        nodes += 1
        if nodes > node_limit:
            proven = False
            break
        trial[depth] = least[depth] + extra
        left[depth + 1] = left[depth] - extra

        # Demands: those of the residents up to here at their shares, and the least ones of the others.
        l2, dram, power = l2_floor, dram_floor, power_floor
        for i in range(depth + 1):
            m, b, u = model[i], batch[i], trial[i]
            l2 += tables.l2_pct[m, b, u] - l2_least[i]
            dram += tables.dram_pct[m, b, u] - dram_least[i]
            power += tables.power_w[m, b, u] - power_least[i]
        bound = rest[depth + 1, left[depth + 1]]
        for i in range(depth + 1):
            m, b, u = model[i], batch[i], trial[i]
            time_ms = gpu_time_ms(
                tables, m, b, u, count, l2 - tables.l2_pct[m, b, u], dram - tables.dram_pct[m, b, u], power
            )
            # The margin absorbs rounding: a sum in another order must not cut off a feasible node.
            if time_ms > budget_ms[i, u if last else 0] * (1.0 + 1e-12):
                bound = -np.inf
                break
            bound += 1000.0 * b / (time_ms + tables.exposed_ms[m, b])
        if bound * (1.0 + 1e-12) <= best_value:
            continue
        if depth == count - 1:
            value = throughput_rps(tables, model, batch, trial)
            if value > best_value and within_budgets(tables, model, batch, budget_ms, trial):
                best_value = value
                best_units[:] = trial
            continue
        depth += 1
        extra_at[depth] = left[depth] + 1
    units[:] = best_units
    return best_value, proven
