"""Least shares on one GPU, at fixed batches, that keep every resident within its latency budget.

Budgets are given by share (``View.budgets_ms``): row i has those of resident i, in an array of shape (residents, 1) or
(residents, share units + 1). The budget at a share is entry 0 or entry ``units``, written ``units if last else 0``:
with ``min(units, last)``, or a separate loop for rows of one entry, the kernels take 10 to 50 % longer. A budget may
fall as the share grows. The shares found are the least ones nevertheless: a resident that misses its budget at a share
beside some residents also misses it there beside more.
"""

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled, kernel
from instances.interference import gpu_time_ms, gpu_times_ms
from instances.tables import Tables


@kernel
def least_share_within(tables: Tables, model: int, batch: int, budget_ms: Floats, row: int) -> int:
    """Return the least permitted share whose time without neighbours or throttling is within its budget.

    This is iGniter's ``r_lower`` (equation 18) for any performance model. It is in units, and ``share_units + 1`` if
    the full GPU is too small. ``row`` of ``budget_ms`` has the budgets by share.
    """
    last = budget_ms.shape[1] - 1
    units = tables.next_share[0]
    while (
        units <= tables.share_units
        and tables.scheduling_ms[model] + tables.active_ms[model, batch, units] > budget_ms[row, units if last else 0]
    ):
        units = tables.next_share[units]
    return units


@kernel
def raise_to_feasible(tables: Tables, model: Ints, batch: Ints, budget_ms: Floats, units: Ints, count: int) -> bool:
    """Raise shares until every resident is within its budget (iGniter Alg. 2, ``alloc_gpus``).

    Every sweep raises the share of each resident over its budget by one step, judged on the shares before the sweep. If
    ``premises_hold`` and ``units`` starts at or below the least feasible shares, the result is exactly those shares,
    for any order of the steps.

    Parameters
    ----------
    model, batch, budget_ms
        Figures of the residents, budgets by share; the first ``count`` entries are read.
    units
        Shares to start from; overwritten with the result.

    Returns
    -------
    bool
        Whether the residents fit; otherwise ``units`` holds the shares whose sum first exceeded 100 %. More residents
        than ``tables.most_residents`` never fit.
    """
    if count > tables.most_residents:
        return False
    total, last = 0, budget_ms.shape[1] - 1
    for i in range(count):
        total += units[i]
    while total <= tables.share_units:
        l2 = 0.0
        dram = 0.0
        power = 0.0
        for i in range(count):
            l2 += tables.l2_pct[model[i], batch[i], units[i]]
            dram += tables.dram_pct[model[i], batch[i], units[i]]
            power += tables.power_w[model[i], batch[i], units[i]]
        settled = True
        for i in range(count):
            m, b, u = model[i], batch[i], units[i]
            time_ms = gpu_time_ms(
                tables, m, b, u, count, l2 - tables.l2_pct[m, b, u], dram - tables.dram_pct[m, b, u], power
            )
            # Alg. 2, lines 6-8
            if time_ms > budget_ms[i, u if last else 0]:
                settled = False
                units[i] = tables.next_share[u]
                total += units[i] - u
                if units[i] > tables.share_units:
                    return False
        if settled:
            return True
    return False


@kernel
def least_shares(tables: Tables, model: Ints, batch: Ints, budget_ms: Floats, units: Ints) -> bool:
    """Compute the least shares that make these residents feasible on one GPU, memory included.

    Parameters
    ----------
    model, batch, budget_ms
        Figures of the residents, shape (residents,), and budgets by share.
    units
        Overwritten with the result, shape (residents,).

    Returns
    -------
    bool
        Whether they fit on one GPU.
    """
    count = len(model)
    memory_mib = 0.0
    for i in range(count):
        memory_mib += tables.memory_mib[model[i], batch[i]]
        units[i] = least_share_within(tables, model[i], batch[i], budget_ms, i)
    if memory_mib > tables.memory_limit_mib:
        return False
    return raise_to_feasible(tables, model, batch, budget_ms, units, count)


@compiled
def shares_alone(tables: Tables, model: Ints, batch: Ints, budget_ms: Floats, time_only: bool = False) -> Ints:
    """Return the least share of each alone on a GPU; ``share_units + 1`` if none is enough.

    With ``time_only``, its memory and its own power are ignored.
    """
    units = np.empty(len(model), dtype=np.int64)
    for i in range(len(model)):
        units[i] = least_share_within(tables, model[i], batch[i], budget_ms, i)
        if not time_only and (
            tables.memory_mib[model[i], batch[i]] > tables.memory_limit_mib
            or not raise_to_feasible(
                tables, model[i : i + 1], batch[i : i + 1], budget_ms[i : i + 1], units[i : i + 1], 1
            )
        ):
            units[i] = tables.share_units + 1
    return units


@compiled
def within_budgets(tables: Tables, model: Ints, batch: Ints, budget_ms: Floats, units: Ints) -> bool:
    """Return whether every resident meets its budget at exactly these shares and they fit on the GPU."""
    count = len(model)
    if units.sum() > tables.share_units:
        return False
    times_ms = np.empty(count)
    gpu_times_ms(tables, model, batch, units, count, times_ms)
    last = budget_ms.shape[1] - 1
    for i in range(count):
        if times_ms[i] > budget_ms[i, units[i] if last else 0]:
            return False
    return True


def premises_hold(tables: Tables) -> bool:
    """Return whether ``least_shares`` is exact for every model of these tables.

    The premises: growth by interference is never negative, throttling never speeds up, and the scheduling delay does
    not fall with the number of residents. Demands are nonnegative and do not fall with the share, and the active time
    does not rise with it. The co-located time may rise with the share: a budget that a share misses beside some
    residents is also missed beside more.
    """
    rows = [(row, int(top)) for row, top in enumerate(tables.max_batch)]
    return bool(
        np.all(tables.alpha_l2 >= 0)
        and np.all(tables.alpha_dram >= 0)
        and tables.throttle_per_w <= 0
        and np.all(tables.kernels >= 0)
        and tables.alpha_sch >= 0
        and 2 * tables.alpha_sch + tables.beta_sch >= 0
        and all(
            np.all(demand[row, 1 : top + 1, 1:] >= 0) and np.all(np.diff(demand[row, 1 : top + 1, 1:], axis=1) >= 0)
            for demand in (tables.l2_pct, tables.dram_pct, tables.power_w)
            for row, top in rows
        )
        and all(np.all(np.diff(tables.active_ms[row, 1 : top + 1, 1:], axis=1) <= 0) for row, top in rows)
        and (tables.pairwise or all(np.all(tables.company[row, 1 : top + 1, 1:] >= 1.0) for row, top in rows))
    )


def delay_is_one_line(tables: Tables) -> bool:
    """Return whether the added scheduling delay (iGniter, equation 6) is the larger of 0 and its line in N.

    If ``premises_hold``, it is from two residents on. It is not at one resident if the delay jumps with the first
    neighbour.
    """
    return tables.alpha_sch + tables.beta_sch <= 0
