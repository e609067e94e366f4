"""Filter of configurations that no optimal plan needs: shares that are never the least, and dominated configurations.

The module relies on properties of the GPU type's tables (``premises_hold``), which do not depend on the instance. The
residents of a feasible GPU then have least shares, and the test of a time beside others is two linear conditions.
"""

import math
import time
from collections.abc import Sequence

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.configurations import Configurations, Rates, servable_configurations
from instances.least_shares import premises_hold
from instances.tables import Tables
from instances.view import View

MARGIN = 1e-12
"""Relative slack of every comparison that drops a configuration: far above rounding, far below any real difference."""


def why_not_exact(tables: Tables) -> str:
    """Return why the premises of this module fail for the tables; empty if they hold."""
    if premises_hold(tables):
        return ""
    return "least shares need not exist: a demand falls as the share grows, or interference shortens a latency"


def configurations_on(view: View, rates: Sequence[Rates], deadline: float = math.inf) -> list[Configurations]:
    """Return the configurations of every workload on one GPU type that some optimal plan may need.

    A workload that no such GPU serves alone has none.

    Parameters
    ----------
    rates
        Rates that each workload may be planned for, in the order of the instance.
    deadline
        ``time.monotonic()`` value at which to stop: budgets that depend on the share take milliseconds per workload.

    Raises
    ------
    TimeoutError
        If the deadline passes before the last workload.
    """
    servable = []
    for w, offered in enumerate(rates):
        if time.monotonic() > deadline:
            raise TimeoutError("the time was over before all latency budgets were known")
        servable.append(servable_configurations(view, w, offered))
    return [undominated(configurations, view.tables) for configurations in needed(servable, view.tables)]


def needed(servable: Sequence[Configurations], tables: Tables) -> list[Configurations]:
    """Drop the shares that are never the least feasible share of a workload.

    At the least shares of a feasible GPU, the next smaller share of any resident violates its budget. A share is
    therefore needed only if the next smaller one violates the budget beside some set of others that fits into the
    remaining shares. The number and the demands of the others are each bounded by a knapsack over the other workloads.
    ``servable`` must have all configurations of each workload from ``servable_configurations``.
    """
    worst = most_company(servable, tables)
    filtered = []
    for w, configurations in enumerate(servable):
        smaller = np.arange(configurations.size) - 1
        chained = np.zeros(configurations.size, dtype=bool)
        chained[1:] = (np.diff(configurations.batch) == 0) & (np.diff(configurations.step) == 0)
        company = worst[:, w, tables.share_units - configurations.units].T  # (configurations, 4): others' N, C, D, P
        conditions = configurations.conditions(tables)[smaller]
        slack = conditions[:, :, 4] - conditions[:, :, 0] - np.einsum("kcj,kj->kc", conditions[:, :, :4], company)
        enough = (slack >= MARGIN * np.abs(conditions[:, :, 4])).all(axis=1) | (company[:, 0] == 0)
        filtered.append(configurations.only(~(chained & enough)))
    return filtered


def most_company(workloads: Sequence[Configurations], tables: Tables) -> Floats:
    """Bound the number and the L2, DRAM and power demands of the other workloads on a GPU, each quantity by itself.

    Returns
    -------
    numpy.ndarray
        Shape (4, workloads + 1, share_units + 1). Entry [q, w, s] is the largest sum of quantity q over workloads other
        than w that fit into s units. The last w excludes no workload.
    """
    count, share_units = len(workloads), tables.share_units
    most = np.zeros((4, count + 1, share_units + 1))
    for j, configurations in enumerate(workloads):
        value = np.full((4, share_units + 1), -np.inf)
        for quantity, amounts in enumerate((np.ones(configurations.size), *configurations.demand(tables).T)):
            np.maximum.at(value[quantity], configurations.units, amounts)
        others = np.arange(count + 1) != j
        grown = most.copy()
        for units in np.unique(configurations.units):
            taken = most[:, :, : share_units + 1 - units] + value[:, None, units, None]
            np.maximum(grown[:, :, units:], taken, out=grown[:, :, units:])
        most[:, others] = grown[:, others]
    return most


def undominated(configurations: Configurations, tables: Tables, count_steps: bool = True) -> Configurations:
    """Drop the dominated configurations of one workload: another one may replace them on any feasible GPU.

    The dominating configuration needs no more units and memory and has no larger demand. Its step is no lower (not
    compared without ``count_steps``), and both its conditions follow from those of the dominated one.
    """
    worth = configurations.step if count_steps else np.zeros_like(configurations.step)
    memory_mib, demand = configurations.memory_mib(tables), configurations.demand(tables)
    # A dominating configuration precedes those that it dominates.
    order = np.lexsort((*demand.T[::-1], memory_mib, -worth, configurations.units))
    needed_rows = _undominated(
        configurations.units[order],
        worth[order],
        memory_mib[order],
        demand[order],
        configurations.conditions(tables)[order],
    )
    return configurations.only(np.sort(order[needed_rows]))


@compiled
def _undominated(units: Ints, worth: Ints, memory: Floats, demand: Floats, conditions: Floats) -> Flags:
    count = len(units)
    needed_rows = np.zeros(count, dtype=np.bool_)
    for k in range(count):
        needed_rows[k] = True
        for other in range(k):
            if (
                needed_rows[other]
                and units[other] <= units[k]
                and worth[other] >= worth[k]
                and memory[other] <= memory[k]
                and np.all(demand[other] <= demand[k])
                and _implied(conditions[other, 0], conditions[k, 0])
                and _implied(conditions[other, 1], conditions[k, 1])
            ):
                needed_rows[k] = False
                break
    return needed_rows


@compiled
def _implied(condition: Floats, premise: Floats) -> bool:
    """Return whether ``condition`` follows from ``premise`` for N >= 2 and nonnegative C, D, P.

    With N - 2 in place of N, all variables are nonnegative. Then the condition follows iff some multiple of the premise
    has coefficients at least as large and a limit at most as large.
    """
    limit = condition[4] - 2.0 * condition[0]
    given = premise[4] - 2.0 * premise[0]
    if given < 0.0:
        return True  # the premise never holds beside others
    factor = 0.0
    for j in range(4):
        if condition[j] > 0.0:
            if premise[j] <= 0.0:
                return False
            factor = max(factor, condition[j] / premise[j])
    return factor * given <= limit * (1.0 - MARGIN)
