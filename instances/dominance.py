"""Filter of configurations that no optimal plan needs: shares that are never the least, and dominated configurations.

The filter relies on properties of the GPU type's tables (``premises_satisfied``), which do not depend on the instance.
With these properties, the residents of a feasible GPU have least shares, and two linear conditions decide whether the
time of a configuration beside others is within its budget.
"""

import math
import time
from collections.abc import Sequence

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.configurations import Configurations, Rates, servable_configurations
from instances.least_shares import premises_satisfied
from instances.tables import Tables
from instances.view import View

MARGIN = 1e-12
"""Relative slack of every comparison that drops a configuration; far above rounding and below real differences."""


def why_not_exact(tables: Tables) -> str:
    """Return why the tables do not satisfy the premises of this module; empty if they do."""
    if premises_satisfied(tables):
        return ""
    return "least shares need not exist: a demand falls as the share grows, or interference shortens a latency"


def configurations_on(view: View, rates: Sequence[Rates], deadline: float = math.inf) -> list[Configurations]:
    """Return the configurations of every workload on one GPU type that some optimal plan may need.

    A workload that one GPU of this type cannot serve alone has none.

    Parameters
    ----------
    rates
        Rates that each workload may be planned for, in the order of the instance.
    deadline
        Value of ``time.monotonic()`` at which to stop: budgets that depend on the share take milliseconds per workload.

    Raises
    ------
    TimeoutError
        If the deadline passes before the last workload.
    """
    servable = []
    for workload, workload_rates in enumerate(rates):
        if time.monotonic() > deadline:
            raise TimeoutError("the time was over before all latency budgets were known")
        servable.append(servable_configurations(view, workload, workload_rates))
    return [
        undominated(configurations, view.tables) for configurations in without_needless_shares(servable, view.tables)
    ]


def without_needless_shares(servable: Sequence[Configurations], tables: Tables) -> list[Configurations]:
    """Drop the shares that are never the least feasible share of a workload.

    At the least shares of a feasible GPU, the next smaller share of any resident violates its budget. A share is
    therefore needed only if some set of others fits into the remaining shares and makes the next smaller share violate
    the budget. The number and the demands of the others are each bounded by a knapsack over the other workloads.
    ``servable`` must have all configurations of each workload from ``servable_configurations``.
    """
    bounds = largest_others(servable, tables)
    filtered = []
    for workload, configurations in enumerate(servable):
        next_smaller = np.arange(configurations.size) - 1
        has_smaller = np.zeros(configurations.size, dtype=bool)
        has_smaller[1:] = (np.diff(configurations.batch) == 0) & (np.diff(configurations.step) == 0)
        others = bounds[:, workload, tables.share_units - configurations.units].T  # (configurations, 4): N, C, D, P
        conditions = configurations.conditions(tables)[next_smaller]
        slack = conditions[:, :, 4] - conditions[:, :, 0] - np.einsum("kcj,kj->kc", conditions[:, :, :4], others)
        smaller_is_enough = (slack >= MARGIN * np.abs(conditions[:, :, 4])).all(axis=1) | (others[:, 0] == 0)
        filtered.append(configurations.only(~(has_smaller & smaller_is_enough)))
    return filtered


def largest_others(workloads: Sequence[Configurations], tables: Tables) -> Floats:
    """Bound the number of the other workloads on a GPU and their L2, DRAM and power demands, each quantity separately.

    Returns
    -------
    numpy.ndarray
        Shape (4, workloads + 1, share_units + 1). Entry [q, w, s] is the largest sum of quantity q over workloads other
        than w that fit into s units. The last entry along w excludes no workload.
    """
    count, share_units = len(workloads), tables.share_units
    largest = np.zeros((4, count + 1, share_units + 1))
    for workload, configurations in enumerate(workloads):
        largest_of_workload = np.full((4, share_units + 1), -np.inf)
        for quantity, amounts in enumerate((np.ones(configurations.size), *configurations.demand(tables).T)):
            np.maximum.at(largest_of_workload[quantity], configurations.units, amounts)
        excludes_other = np.arange(count + 1) != workload
        extended = largest.copy()
        for units in np.unique(configurations.units):
            with_workload = largest[:, :, : share_units + 1 - units] + largest_of_workload[:, None, units, None]
            np.maximum(extended[:, :, units:], with_workload, out=extended[:, :, units:])
        largest[:, excludes_other] = extended[:, excludes_other]
    return largest


def undominated(configurations: Configurations, tables: Tables, count_steps: bool = True) -> Configurations:
    """Drop the dominated configurations of one workload: another one may replace each of them on any feasible GPU.

    The dominating configuration needs no more units and memory and has no larger demand. Its step is no lower
    (steps are compared with ``count_steps`` only), and both its conditions follow from those of the dominated one.
    """
    step = configurations.step if count_steps else np.zeros_like(configurations.step)
    memory_mib, demand = configurations.memory_mib(tables), configurations.demand(tables)
    # A dominating configuration precedes those that it dominates.
    order = np.lexsort((*demand.T[::-1], memory_mib, -step, configurations.units))
    needed_rows = _undominated(
        configurations.units[order],
        step[order],
        memory_mib[order],
        demand[order],
        configurations.conditions(tables)[order],
    )
    return configurations.only(np.sort(order[needed_rows]))


@compiled
def _undominated(units: Ints, step: Ints, memory_mib: Floats, demand: Floats, conditions: Floats) -> Flags:
    count = len(units)
    needed_rows = np.zeros(count, dtype=np.bool_)
    for row in range(count):
        needed_rows[row] = True
        for other in range(row):
            if (
                needed_rows[other]
                and units[other] <= units[row]
                and step[other] >= step[row]
                and memory_mib[other] <= memory_mib[row]
                and np.all(demand[other] <= demand[row])
                and _implied(conditions[other, 0], conditions[row, 0])
                and _implied(conditions[other, 1], conditions[row, 1])
            ):
                needed_rows[row] = False
                break
    return needed_rows


@compiled
def _implied(condition: Floats, premise: Floats) -> bool:
    """Return whether ``condition`` follows from ``premise`` for N >= 2 and nonnegative C, D, P.

    With N - 2 in place of N, all variables are nonnegative. The condition then follows iff some multiple of the premise
    has coefficients that are at least as large and a limit that is at most as large.
    """
    limit = condition[4] - 2.0 * condition[0]
    premise_limit = premise[4] - 2.0 * premise[0]
    if premise_limit < 0.0:
        return True  # beside others, the premise is never true
    factor = 0.0
    for i in range(4):
        if condition[i] > 0.0:
            if premise[i] <= 0.0:
                return False
            factor = max(factor, condition[i] / premise[i])
    return factor * premise_limit <= limit * (1.0 - MARGIN)
