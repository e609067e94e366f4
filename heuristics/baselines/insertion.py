"""Insertion and removal of the residents of GPUs of one type, by compiled kernels."""

import numpy as np

from heuristics.fleet import Fleet
from instances.arrays import Ints
from instances.compiled import compiled
from instances.configurations import Configurations
from instances.least_shares import raise_to_feasible
from instances.tables import Tables


@compiled
def write_least_shares(tables: Tables, configurations: Configurations, rows: Ints, units: Ints, count: int) -> bool:
    """Write the least shares of ``count`` residents of one GPU into ``units``; return whether they fit."""
    model, batch = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    budget_ms = np.empty((count, configurations.budget_ms.shape[1]))
    total, memory_mib = 0, 0.0
    for s in range(count):
        row = rows[s]
        model[s], batch[s] = configurations.model[row], configurations.batch[row]
        for u in range(budget_ms.shape[1]):
            budget_ms[s, u] = configurations.budget_ms[row, u]
        units[s] = configurations.units[row]
        total += units[s]
        memory_mib += tables.memory_mib[model[s], batch[s]]
    if total > tables.share_units or memory_mib > tables.memory_limit_mib:
        return False
    return raise_to_feasible(tables, model, batch, budget_ms, units, count)


@compiled
def fill(tables: Tables, configurations: Configurations, fleet: Fleet, gpu: int, rows: Ints, count: int) -> bool:
    """Make the first ``count`` of ``rows`` the residents of GPU ``gpu`` if they fit; return whether they do."""
    units = np.empty(count, dtype=np.int64)
    if not write_least_shares(tables, configurations, rows, units, count):
        return False
    fleet.residents[gpu] = count
    fleet.allocated[gpu] = units.sum()
    fleet.memory_mib[gpu] = 0.0
    for s in range(count):
        fleet.row[gpu, s], fleet.units[gpu, s] = rows[s], units[s]
        fleet.memory_mib[gpu] += tables.memory_mib[configurations.model[rows[s]], configurations.batch[rows[s]]]
    return True


@compiled
def insert(
    tables: Tables,
    configurations: Configurations,
    fleet: Fleet,
    waiting: Ints,
    openable: int,
    least_step: int,
    at_random: bool,
    blink: float,
    random: np.random.Generator,
) -> Ints:
    """Place items one by one, each at the highest rate at which some GPU in use has room; return the unplaced items.

    Of the possible GPUs and batches, the pair is chosen at which the shares of the GPU grow least.

    Parameters
    ----------
    waiting
        Items in the order of placement.
    openable
        Number of empty GPUs that may be opened for items that fit on no GPU in use.
    least_step
        Lowest rate (``Configurations.step``) that is considered.
    at_random
        Choose uniformly among all possible places instead of the place with the least growth.
    blink
        Probability of skipping a possible place.
    """
    share_units, step = tables.share_units, configurations.step
    trial = np.empty(share_units + 1, dtype=np.int64)
    trial_units = np.empty(share_units + 1, dtype=np.int64)
    left_out = np.empty(len(waiting), dtype=np.int64)
    left_out_count = 0
    first_empty = 0
    for item in waiting:
        least_growth = np.inf
        best_row, best_gpu = -1, -1
        row, end = configurations.first[item], configurations.first[item + 1]
        while row < end:
            if step[row] < least_step or (best_row >= 0 and step[row] != step[best_row]):
                break  # the following configurations have lower rates
            memory_mib = tables.memory_mib[configurations.model[row], configurations.batch[row]]
            for gpu in range(len(fleet.residents)):
                count = fleet.residents[gpu]
                if (
                    count == 0
                    or fleet.allocated[gpu] + configurations.units[row] > share_units
                    or fleet.memory_mib[gpu] + memory_mib > tables.memory_limit_mib
                    or (blink > 0.0 and random.random() < blink)
                ):
                    continue
                if not at_random and configurations.units[row] >= least_growth:
                    continue
                trial[:count] = fleet.row[gpu, :count]
                trial[count] = row
                if not write_least_shares(tables, configurations, trial, trial_units, count + 1):
                    continue
                growth = random.random() if at_random else trial_units[: count + 1].sum() - fleet.allocated[gpu]
                if growth < least_growth:
                    least_growth, best_row, best_gpu = growth, row, gpu
            last_of_rate = row + 1 == end or step[row + 1] != step[row]
            if best_row < 0 and last_of_rate and openable > 0:
                while first_empty < len(fleet.residents) and fleet.residents[first_empty] > 0:
                    first_empty += 1
                if first_empty < len(fleet.residents):
                    best_gpu, best_row, openable = first_empty, row, openable - 1
                    while best_row > configurations.first[item] and step[best_row - 1] == step[row]:
                        best_row -= 1  # the configuration with the fewest units
            row += 1
        if best_row < 0:
            left_out[left_out_count] = item
            left_out_count += 1
            continue
        count = fleet.residents[best_gpu]
        trial[:count] = fleet.row[best_gpu, :count]
        trial[count] = best_row
        fill(tables, configurations, fleet, best_gpu, trial, count + 1)
    return left_out[:left_out_count]


@compiled
def take_out(
    tables: Tables,
    configurations: Configurations,
    fleet: Fleet,
    emptied: int,
    thinned: int,
    random: np.random.Generator,
) -> Ints:
    """Remove residents from random GPUs in use, and return the removed items; the others get their least shares.

    Parameters
    ----------
    emptied
        Number of GPUs to empty.
    thinned
        Number of further GPUs that lose each resident with probability 1/2.
    """
    used = np.flatnonzero(fleet.residents)
    removed = np.empty(fleet.residents.sum(), dtype=np.int64)
    count = 0
    staying = np.empty(tables.share_units + 1, dtype=np.int64)
    for n in range(min(emptied + thinned, len(used))):
        swap = n + int(random.random() * (len(used) - n))
        used[n], used[swap] = used[swap], used[n]
        gpu = used[n]
        staying_count = 0
        for s in range(fleet.residents[gpu]):
            if n >= emptied and random.random() < 0.5:
                staying[staying_count] = fleet.row[gpu, s]
                staying_count += 1
            else:
                removed[count] = configurations.item[fleet.row[gpu, s]]
                count += 1
        if not fill(tables, configurations, fleet, gpu, staying, staying_count):
            # Reached only if the performance model violates the premises of least shares
            for s in range(staying_count):
                removed[count] = configurations.item[staying[s]]
                count += 1
            fill(tables, configurations, fleet, gpu, staying, 0)
    return removed[:count]
