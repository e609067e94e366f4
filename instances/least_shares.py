"""Least shares on one GPU, at fixed batches, that keep every resident within its latency budget.

The budgets of resident i are row i of an array of shape (residents, 1) or (residents, share units + 1); see
``View.budgets_ms``. The budget at a share is entry 0 of the row, or entry ``units``. Kernels write the index as
``units if last else 0``: with ``min(units, last)``, or with a separate loop for rows of one entry, they take 10 to 50 %
longer. A budget may fall as the share grows. The resulting shares are nevertheless the least ones, because a resident
that misses its budget at a share beside some residents also misses this budget beside more residents.
"""

import numpy as np

from instances.arrays import Floats, Ints
from instances.compiled import compiled, kernel
from instances.interference import gpu_time_ms, gpu_times_ms
from instances.tables import Tables


@kernel
def least_share_within(tables: Tables, model: int, batch: int, budget_ms: Floats, row: int) -> int:
    """Return the least permitted share whose time without neighbours or throttling is within its budget.

    The result is iGniter's ``r_lower`` (equation 18) for any performance model, in units. It is ``share_units + 1`` if
    the full GPU is too small. The budgets by share are in ``row`` of ``budget_ms``.
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

    Every sweep raises the share of each resident whose time exceeds its budget by one step; demands are those of the
    shares before the sweep. The result is exactly the least feasible shares, in any order of the steps, if
    ``premises_satisfied`` and if ``units`` starts at or below these shares.

    Parameters
    ----------
    model, batch, budget_ms
        Model, batch and budgets of each resident; the first ``count`` rows are read.
    units
        Shares to start from; overwritten with the result.

    Returns
    -------
    bool
        Whether the residents fit. If not, ``units`` has the shares at which their sum, or one of them, first exceeded
        100 %. More than ``tables.most_residents`` residents never fit.
    """
    if count > tables.most_residents:
        return False
    total, last = 0, budget_ms.shape[1] - 1
    for i in range(count):
        total += units[i]
    while total <= tables.share_units:
        l2_pct = 0.0
        dram_pct = 0.0
        power_w = 0.0
        for i in range(count):
            l2_pct += tables.l2_pct[model[i], batch[i], units[i]]
            dram_pct += tables.dram_pct[model[i], batch[i], units[i]]
            power_w += tables.power_w[model[i], batch[i], units[i]]
        settled = True
        for i in range(count):
            m, b, u = model[i], batch[i], units[i]
            time_ms = gpu_time_ms(
                tables, m, b, u, count, l2_pct - tables.l2_pct[m, b, u], dram_pct - tables.dram_pct[m, b, u], power_w
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
        Model and batch of each resident, shape (residents,), and its budgets.
    units
        Overwritten with the result, shape (residents,).

    Returns
    -------
    bool
        Whether the residents fit on one GPU.
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
    """Return the least share of each workload alone on a GPU; ``share_units + 1`` if no share is enough.

    With ``time_only``, memory and the workload's own power are ignored.
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


def premises_satisfied(tables: Tables) -> bool:
    """Return whether ``least_shares`` is exact for every model of these tables.

    It is exact if all of these hold: interference never shortens the active time, throttling never raises the
    frequency, the scheduling delay does not fall with the number of residents, demands are nonnegative and do not fall
    with the share, and the active time does not rise with the share. The co-located time may rise with the share.
    """
    rows = [(row, int(largest_batch)) for row, largest_batch in enumerate(tables.max_batch)]
    return bool(
        np.all(tables.alpha_l2 >= 0)
        and np.all(tables.alpha_dram >= 0)
        and tables.throttle_per_w <= 0
        and np.all(tables.kernels >= 0)
        and tables.alpha_sch >= 0
        and 2 * tables.alpha_sch + tables.beta_sch >= 0
        and all(
            np.all(demand[row, 1 : largest_batch + 1, 1:] >= 0)
            and np.all(np.diff(demand[row, 1 : largest_batch + 1, 1:], axis=1) >= 0)
            for demand in (tables.l2_pct, tables.dram_pct, tables.power_w)
            for row, largest_batch in rows
        )
        and all(
            np.all(np.diff(tables.active_ms[row, 1 : largest_batch + 1, 1:], axis=1) <= 0)
            for row, largest_batch in rows
        )
        and (
            tables.pairwise
            or all(np.all(tables.company[row, 1 : largest_batch + 1, 1:] >= 1.0) for row, largest_batch in rows)
        )
    )


def delay_is_one_line(tables: Tables) -> bool:
    """Return whether the added scheduling delay of N residents is ``max(0, alpha_sch N + beta_sch)`` for every N.

    If ``premises_satisfied``, the added delay is this number for N >= 2 (iGniter, equation 6). A workload alone has no
    added delay, so the result is false if the line is above 0 at N = 1.
    """
    return tables.alpha_sch + tables.beta_sch <= 0
