"""Filter of configurations that no optimal plan needs: shares that are never the least, and dominated configurations.

Where a share follows from the neighbours, as in pricing at least shares, whole batches are dropped.

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
from instances.least_shares import least_share_within, premises_satisfied
from instances.tables import Tables
from instances.view import View

MARGIN = 1e-12
"""Relative slack of every comparison that drops a configuration: far above rounding, far below real differences."""

BatchAndUnits = tuple[int, int]
"""Batch and share in units."""


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
        # If no other workload fits, the configuration is alone, and every configuration is within its budget alone.
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

    The dominating configuration needs no more units and memory and has no larger demand. Both its conditions follow
    from those of the dominated one. With ``count_steps``, its step must not be lower.
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


@compiled
def dominates(
    tables: Tables,
    model: int,
    batch: int,
    other_batch: int,
    budget_ms: Floats,
    memory_binds: bool,
) -> bool:
    """Return whether ``batch`` dominates ``other_batch``: a GPU stays feasible when ``batch`` replaces the other.

    For every share at which the other batch can run alone, there must be a share that is no larger and at which
    ``batch`` demands no more L2, DRAM and power, and meets its budget whenever the other batch does. The latter is so
    if the budget is no smaller and the active time, alone and beside others, is no larger relative to the budget: then
    every term of the time test divided by the budget is no larger. Memory is compared only if ``memory_binds``. The
    budget of batch b, ``budget_ms[b, 0]``, is the same at every share.
    """
    our_ms, their_ms = budget_ms[batch, 0], budget_ms[other_batch, 0]
    if our_ms < their_ms:
        return False
    if memory_binds and tables.memory_mib[model, batch] > tables.memory_mib[model, other_batch]:
        return False
    if tables.active_ms[model, batch, tables.share_units] == np.inf:
        return False
    theirs = least_share_within(tables, model, other_batch, budget_ms, other_batch)
    while theirs <= tables.share_units:
        ours = tables.next_share[0]
        covered = False
        while ours <= theirs and not covered:
            covered = (
                tables.active_ms[model, batch, ours] * their_ms <= tables.active_ms[model, other_batch, theirs] * our_ms
                and tables.active_ms[model, batch, ours] * tables.company[model, batch, ours] * their_ms
                <= tables.active_ms[model, other_batch, theirs] * tables.company[model, other_batch, theirs] * our_ms
                and tables.l2_pct[model, batch, ours] <= tables.l2_pct[model, other_batch, theirs]
                and tables.dram_pct[model, batch, ours] <= tables.dram_pct[model, other_batch, theirs]
                and tables.power_w[model, batch, ours] <= tables.power_w[model, other_batch, theirs]
            )
            ours = tables.next_share[ours]
        if not covered:
            return False
        theirs = tables.next_share[theirs]
    return True


@compiled
def covers(
    tables: Tables,
    model: int,
    ours: BatchAndUnits,
    theirs: BatchAndUnits,
    our_ms: float,
    their_ms: float,
    most_residents: int,
) -> bool:
    """Return whether a slot can replace another one of the same workload on any GPU.

    The slot must demand no more than the other, and must be in time whenever the other is. Beside other residents, a
    slot is in time if ``S + A c + A X <= f B``: S is the scheduling time, A the active time, c the co-location factor,
    X >= 0 the growth by the others' demands, f <= 1 the frequency and B the budget. The triples (S, X, f) at which the
    other slot is in time are a polytope. This slot is in time at all of them if it is in time at the vertices. At a
    vertex, S is either the least S, or the largest S at which the other slot is in time. At either S, X is 0 and f is
    least, or X is largest and f is 1.

    Parameters
    ----------
    ours, theirs
        Batch and share of each slot.
    our_ms, their_ms
        Budget of each slot.
    most_residents
        Largest number of residents of a GPU; it bounds S.
    """
    (b, u), (other, v) = ours, theirs
    if (
        u > v
        or our_ms <= 0.0
        or tables.l2_pct[model, b, u] > tables.l2_pct[model, other, v]
        or tables.dram_pct[model, b, u] > tables.dram_pct[model, other, v]
        or tables.power_w[model, b, u] > tables.power_w[model, other, v]
    ):
        return False
    active, their_active = tables.active_ms[model, b, u], tables.active_ms[model, other, v]
    beside, their_beside = active * tables.company[model, b, u], their_active * tables.company[model, other, v]
    least = tables.scheduling_ms[model]
    most = least + tables.kernels[model] * max(0.0, tables.alpha_sch * most_residents + tables.beta_sch)
    most = min(most, their_ms - their_beside)
    if (least + active) * their_ms > (least + their_active) * our_ms:  # alone
        return False
    for before in (least, most):
        room = their_ms - before - their_beside
        if room >= 0.0 and (
            (before + beside) * their_ms > (before + their_beside) * our_ms
            or (our_ms - before - beside) * their_active < room * active
        ):
            return False
    return True


@compiled
def replaceable(
    tables: Tables,
    model: int,
    batch: int,
    budget_ms: Floats,
    sure_ms: Floats,
    memory_binds: bool,
    most_residents: int,
    keep: Flags,
) -> bool:
    """Return whether, at every share at which ``batch`` can run alone, a slot of another batch in ``keep`` replaces it.

    Row b of ``budget_ms`` and ``sure_ms`` has upper and lower bounds on the budgets of batch b, by share or for all
    shares. Memory is compared only if ``memory_binds``: if the residents of a GPU may exceed its memory.
    """
    by_share = budget_ms.shape[1] > 1
    v = least_share_within(tables, model, batch, budget_ms, batch)
    while v <= tables.share_units:
        longest_ms = budget_ms[batch, v if by_share else 0]
        replaced = tables.scheduling_ms[model] + tables.active_ms[model, batch, v] > longest_ms
        for b in range(1, len(keep)):
            if replaced:
                break
            if b == batch or not keep[b]:
                continue
            if memory_binds and tables.memory_mib[model, b] > tables.memory_mib[model, batch]:
                continue
            u = v
            while u > 0 and not replaced:
                if tables.next_share[u - 1] == u:
                    our_ms = sure_ms[b, u if by_share else 0]
                    replaced = covers(tables, model, (b, u), (batch, v), our_ms, longest_ms, most_residents)
                u -= 1
        if not replaced:
            return False
        v = tables.next_share[v]
    return True


@compiled
def drop_dominated(
    tables: Tables,
    model: int,
    budget_ms: Floats,
    sure_ms: Floats,
    memory_binds: bool,
    most_residents: int,
    keep: Flags,
) -> None:
    """Unmark the batches in ``keep`` (index 0 is unused) that other marked batches replace."""
    top = len(budget_ms) - 1
    if budget_ms.shape[1] > 1:
        for b in range(1, top + 1):
            if keep[b] and replaceable(tables, model, b, budget_ms, sure_ms, memory_binds, most_residents, keep):
                keep[b] = False
        return
    for b in range(1, top + 1):
        if not keep[b]:
            continue
        for other in range(1, top + 1):
            if other != b and keep[other] and dominates(tables, model, b, other, budget_ms, memory_binds):
                keep[other] = False
