"""Joint choice of batches on one GPU: the least shares under interference should take the fewest units.

The batch with the least share alone may slow its neighbours most, or be slowed most by them. The batches of all
residents are therefore chosen together: each resident in turn takes the batch with the least share beside the present
demands of the others, until no batch and share changes.
"""

from instances.arrays import Ints
from instances.compiled import kernel
from instances.configurations import Configurations
from instances.interference import gpu_time_ms
from instances.tables import Tables

SWEEPS = 8
"""Sweeps in which batches may change. In later sweeps shares only grow, so the choice ends."""


@kernel
def choose_batches(
    tables: Tables, configurations: Configurations, first: Ints, end: Ints, count: int, rows: Ints, units: Ints
) -> int:
    """Choose a configuration for each resident of one GPU, and their least shares.

    The choice is a heuristic: other batches may fit if these do not. If a sum is returned, the GPU is feasible.

    Parameters
    ----------
    configurations
        Configurations at their least shares alone on the GPU.
    first, end
        Resident i has the configurations ``first[i]`` to ``end[i] - 1``, at least one, in the order of their units.
    count
        Number of residents; further entries are not read.
    rows, units
        Output: the configuration and the share of each resident.

    Returns
    -------
    int
        Sum of the shares, or -1 if the residents do not fit.
    """
    for i in range(count):
        rows[i] = first[i]
    total = _settled(tables, configurations, first, end, count, rows, units, SWEEPS)
    if total < 0:
        return -1
    memory_mib = 0.0
    for i in range(count):
        memory_mib += tables.memory_mib[configurations.model[rows[i]], configurations.batch[rows[i]]]
    if memory_mib <= tables.memory_limit_mib:
        return total
    # The batches exceed the memory: take the batches that need the least memory.
    memory_mib = 0.0
    for i in range(count):
        least_mib = tables.memory_mib[configurations.model[rows[i]], configurations.batch[rows[i]]]
        for row in range(first[i], end[i]):
            row_mib = tables.memory_mib[configurations.model[row], configurations.batch[row]]
            if row_mib < least_mib:
                rows[i], least_mib = row, row_mib
        memory_mib += least_mib
    if memory_mib > tables.memory_limit_mib:
        return -1
    return _settled(tables, configurations, first, end, count, rows, units, 0)


@kernel
def _settled(
    tables: Tables,
    configurations: Configurations,
    first: Ints,
    end: Ints,
    count: int,
    rows: Ints,
    units: Ints,
    sweeps: int,
) -> int:
    """Adjust shares until every resident is in time; return their sum, or -1 if the residents do not fit.

    In the first ``sweeps`` sweeps, batches may also change; in later ones, shares only grow.
    """
    if count > tables.most_residents:
        return -1
    total, l2_pct, dram_pct, power_w = 0, 0.0, 0.0, 0.0
    for i in range(count):
        model, batch = configurations.model[rows[i]], configurations.batch[rows[i]]
        units[i] = configurations.units[rows[i]]
        total += units[i]
        l2_pct += tables.l2_pct[model, batch, units[i]]
        dram_pct += tables.dram_pct[model, batch, units[i]]
        power_w += tables.power_w[model, batch, units[i]]
    settled, sweep = count <= 1, 0
    while total <= tables.share_units and not settled:
        settled = True
        for i in range(count):
            model, batch, u = configurations.model[rows[i]], configurations.batch[rows[i]], units[i]
            l2_pct -= tables.l2_pct[model, batch, u]
            dram_pct -= tables.dram_pct[model, batch, u]
            power_w -= tables.power_w[model, batch, u]
            best_row, best_units = rows[i], tables.share_units + 1
            if sweep < sweeps:
                for row in range(first[i], end[i]):
                    if configurations.units[row] >= best_units:
                        break
                    row_units = _least_share(
                        tables, configurations, row, 0, best_units, count, l2_pct, dram_pct, power_w
                    )
                    if row_units < best_units:
                        best_row, best_units = row, row_units
            else:
                best_units = _least_share(
                    tables, configurations, rows[i], u, best_units, count, l2_pct, dram_pct, power_w
                )
            if best_units > tables.share_units:
                return -1
            settled = settled and best_row == rows[i] and best_units == u
            rows[i], units[i] = best_row, best_units
            total += best_units - u
            model, batch = configurations.model[best_row], configurations.batch[best_row]
            l2_pct += tables.l2_pct[model, batch, best_units]
            dram_pct += tables.dram_pct[model, batch, best_units]
            power_w += tables.power_w[model, batch, best_units]
        sweep += 1
    return total if settled and total <= tables.share_units else -1


@kernel
def _least_share(
    tables: Tables,
    configurations: Configurations,
    row: int,
    at_least: int,
    below: int,
    residents: int,
    l2_others_pct: float,
    dram_others_pct: float,
    power_others_w: float,
) -> int:
    """Return the least share that is within the budget beside others, from ``at_least`` up to below ``below``.

    Return ``below`` if there is none.
    """
    model, batch = configurations.model[row], configurations.batch[row]
    last = configurations.budget_ms.shape[1] - 1
    u = max(at_least, configurations.units[row])
    while u < below:
        power_w = power_others_w + tables.power_w[model, batch, u]
        time_ms = gpu_time_ms(tables, model, batch, u, residents, l2_others_pct, dram_others_pct, power_w)
        if time_ms <= configurations.budget_ms[row, u if last else 0]:
            return u
        u = tables.next_share[u]
    return below
