"""Undominated configurations (batch, share and rate of a workload on a GPU type), and the rates to plan for.

The module relies on properties of the GPU type's tables (``premises_hold``), which do not depend on the instance. The
residents of a feasible GPU then have least shares, and the test of a time beside others is two linear conditions.
"""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from instances import GOODPUT_STEP, Instance, Objective, SloRule
from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.least_shares import premises_hold
from instances.tables import Tables
from instances.view import View

MARGIN = 1e-12
"""Relative slack of every comparison that drops a configuration: far above rounding, far below any real difference."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates that a workload may be planned for, and the rank of each; arrays of shape (rates,).

    Attributes
    ----------
    step
        Rank: a configuration may replace another of the same or a lower step. If a workload may be served in part,
        step s is s times 5 % of its own rate. Otherwise all rates have the same step.
    """

    rate_rps: Floats
    step: Ints


def rates_of(instance: Instance, workload: int) -> Rates:
    """Return the rates that workload number ``workload`` may be planned for under the instance's objective."""
    own = instance.workloads[workload].rate_rps
    if instance.objective is Objective.GOODPUT:
        step = np.arange(1, round(1.0 / GOODPUT_STEP) + 1, dtype=np.int64)
        return Rates(np.array([own * (GOODPUT_STEP * s) for s in step.tolist()]), step)
    return Rates(np.array([own]), np.ones(1, dtype=np.int64))


def rates_at(instance: Instance, scale: float) -> list[Rates]:
    """Return the rates of every workload at ``scale``: its scaled rate, and higher ones with a larger latency budget.

    The latency budget shrinks as the rate grows, except under the rule ``assembly``. There a batch also fills faster,
    and the budget is largest where the two times are equal, ``SLO - 1000 (b - 1) / r = 1000 b / r``.
    """
    top = max(model.max_batch for pool in instance.gpus for model in pool.type.models.values())
    offered = []
    for asked in instance.workloads:
        rate = np.array([asked.rate_rps * scale])
        if instance.slo_rule is SloRule.ASSEMBLY:
            best = 1000.0 * (2.0 * np.arange(1, top + 1) - 1.0) / asked.slo_ms
            rate = np.concatenate((rate, best[best > rate[0]]))
        offered.append(Rates(rate, np.ones(len(rate), dtype=np.int64)))
    return offered


@dataclass(frozen=True, slots=True)
class Configurations:
    """Configurations of one workload on one GPU type; every array has one row per configuration.

    Attributes
    ----------
    batch, units, rate_rps, step
        Batch, share, rate and the rate's step (``Rates.step``).
    memory_mib
        Resident memory.
    budget_ms
        Latency budget: the longest GPU time within the SLO rule.
    demand
        L2 (percent), DRAM (percent) and power (W), shape (configurations, 3).
    conditions
        Linear conditions for co-location, shape (configurations, 2, 5). Beside others the workload stays within its
        budget iff both rows hold. A row holds if its first four numbers times (N, C, D, P) sum to at most the fifth. N
        is the number of residents (itself included); C, D and P are the demands of the *others*. Row 0 is at full
        clock, row 1 is throttled. Alone on a GPU, the configuration is always feasible.
    """

    batch: Ints
    units: Ints
    rate_rps: Floats
    step: Ints
    memory_mib: Floats
    budget_ms: Floats
    demand: Floats
    conditions: Floats

    def __len__(self) -> int:
        return len(self.batch)

    def only(self, keep: Ints | Flags) -> "Configurations":
        """Return the configurations that ``keep`` selects, in its order."""
        return Configurations(*(getattr(self, field.name)[keep] for field in fields(self)))


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
    return [undominated(configurations) for configurations in needed(servable, view.tables)]


def servable_configurations(view: View, workload: int, rates: Rates) -> Configurations:
    """Return all configurations that are feasible alone on a GPU, by batch, step and share.

    At every batch and share, a rate is left out if another rate has no lower step and no smaller latency budget.
    """
    tables, model = view.tables, int(view.model[workload])
    batch = np.arange(1, int(tables.max_batch[model]) + 1)
    units = tables.permitted
    budget = view.budgets_ms(workload, batch[:, None], rates.rate_rps[None, :])
    budget = budget[:, :, units] if budget.shape[2] > 1 else np.repeat(budget, len(units), axis=2)
    enough_memory = tables.memory_mib[model, batch] <= tables.memory_limit_mib
    b, r, j = np.nonzero(_best_budgets(budget, rates.step) & enough_memory[:, None, None])
    u, tau = units[j], budget[b, r, j]
    at = (model, batch[b], u)
    demand = np.stack([tables.l2_pct[at], tables.dram_pct[at], tables.power_w[at]], axis=1)
    conditions = _conditions(tables, model, tables.active_ms[at], tables.company[at], demand[:, 2], tau)
    configurations = Configurations(
        batch[b], u, rates.rate_rps[r], rates.step[r], tables.memory_mib[model, batch[b]], tau, demand, conditions
    )
    alone_ms = tables.scheduling_ms[model] + tables.active_ms[at]
    clock = 1.0 + tables.throttle_per_w * np.maximum(0.0, tables.idle_power_w + demand[:, 2] - tables.max_power_w)
    fits = clock > 0.0
    fits[fits] = alone_ms[fits] / clock[fits] <= tau[fits]
    return configurations.only(fits)


def _best_budgets(budget_ms: Floats, step: Ints) -> Flags:
    """Mark the rates that no other rate dominates at the same batch and share; shape (batches, rates, shares)."""
    best = np.zeros(budget_ms.shape, dtype=bool)
    largest = np.full(budget_ms.shape[::2], -np.inf)
    order = np.lexsort((np.arange(len(step)), -step))
    for r in order:
        rivals = budget_ms[:, step == step[r]]
        best[:, r] = (budget_ms[:, r] > largest) & (budget_ms[:, r] >= rivals.max(axis=1))
        largest = np.where(best[:, r], budget_ms[:, r], largest)
    return best


def _conditions(
    tables: Tables, model: int, active_ms: Floats, company: Floats, power_w: Floats, budget_ms: Floats
) -> Floats:
    """Return the linear conditions for ``t_gpu <= tau`` beside others, shape (configurations, 2, 5).

    ``t_gpu <= tau`` is ``sch + n d + act (1 + a_l2 C + a_dram D) <= tau g`` for both values of d in {0, Delta(N)} and
    of g in {1, 1 + throttle (P_total - cap)}. For N >= 2, Delta(N) is not negative, so two conditions remain. Beside
    others, the factor ``tables.company`` replaces the 1. Where growth is clipped (``tables.pairwise``) there is neither
    delay nor throttling. The clip adds the condition that the time alone is within ``tau``, which every configuration
    meets.
    """
    kernels = float(tables.kernels[model])
    row = np.zeros((len(active_ms), 2, 5))
    row[:, :, 0] = kernels * tables.alpha_sch
    row[:, :, 1] = (active_ms * tables.alpha_l2[model])[:, None]
    row[:, :, 2] = (active_ms * tables.alpha_dram[model])[:, None]
    row[:, :, 4] = (budget_ms - tables.scheduling_ms[model] - active_ms * company - kernels * tables.beta_sch)[:, None]
    per_watt = -tables.throttle_per_w * budget_ms
    row[:, 1, 3] = per_watt
    row[:, 1, 4] += per_watt * (tables.max_power_w - tables.idle_power_w - power_w)
    return row


def needed(servable: Sequence[Configurations], tables: Tables) -> list[Configurations]:
    """Drop the shares that are never the least feasible share of a workload.

    At the least shares of a feasible GPU, the next smaller share of any resident violates its budget. A share is
    therefore needed only if the next smaller one violates the budget beside some set of others that fits into the
    remaining shares. The number and the demands of the others are each bounded by a knapsack over the other workloads.
    ``servable`` must have all configurations of each workload from ``servable_configurations``.
    """
    worst = most_company(servable, tables.share_units)
    kept = []
    for w, own in enumerate(servable):
        smaller = np.arange(len(own)) - 1
        chained = np.zeros(len(own), dtype=bool)
        chained[1:] = (own.batch[1:] == own.batch[:-1]) & (own.step[1:] == own.step[:-1])
        company = worst[:, w, tables.share_units - own.units].T  # (configurations, 4): others' number, C, D, P
        lhs = np.einsum("kcj,kj->kc", own.conditions[smaller, :, :4], company)
        slack = own.conditions[smaller, :, 4] - own.conditions[smaller, :, 0] - lhs
        enough = (slack >= MARGIN * np.abs(own.conditions[smaller, :, 4])).all(axis=1) | (company[:, 0] == 0)
        kept.append(own.only(~(chained & enough)))
    return kept


def most_company(workloads: Sequence[Configurations], share_units: int) -> Floats:
    """Bound the number and the L2, DRAM and power demands of the other workloads on a GPU, each quantity by itself.

    Returns
    -------
    numpy.ndarray
        Shape (4, workloads + 1, share_units + 1). Entry [q, w, s] is the largest sum of quantity q over workloads other
        than w that fit into s units. The last w excludes no workload.
    """
    count = len(workloads)
    most = np.zeros((4, count + 1, share_units + 1))
    for j, configurations in enumerate(workloads):
        value = np.full((4, share_units + 1), -np.inf)
        for quantity, amounts in enumerate((np.ones(len(configurations)), *configurations.demand.T)):
            np.maximum.at(value[quantity], configurations.units, amounts)
        others = np.arange(count + 1) != j
        grown = most.copy()
        for units in np.unique(configurations.units):
            taken = most[:, :, : share_units + 1 - units] + value[:, None, units, None]
            np.maximum(grown[:, :, units:], taken, out=grown[:, :, units:])
        most[:, others] = grown[:, others]
    return most


def undominated(configurations: Configurations, count_steps: bool = True) -> Configurations:
    """Drop the dominated configurations of one workload: another one may replace them on any feasible GPU.

    The dominating configuration needs no more units and memory and has no larger demand. Its step is no lower (not
    compared without ``count_steps``), and both its conditions follow from those of the dominated one.
    """
    worth = configurations.step if count_steps else np.zeros_like(configurations.step)
    # A dominating configuration precedes those that it dominates.
    order = np.lexsort((*configurations.demand.T[::-1], configurations.memory_mib, -worth, configurations.units))
    ordered = configurations.only(order)
    kept = _undominated(ordered.units, worth[order], ordered.memory_mib, ordered.demand, ordered.conditions)
    return configurations.only(np.sort(order[kept]))


@compiled
def _undominated(units: Ints, worth: Ints, memory: Floats, demand: Floats, conditions: Floats) -> Flags:
    count = len(units)
    kept = np.zeros(count, dtype=np.bool_)
    for k in range(count):
        kept[k] = True
        for other in range(k):
            if (
                kept[other]
                and units[other] <= units[k]
                and worth[other] >= worth[k]
                and memory[other] <= memory[k]
                and np.all(demand[other] <= demand[k])
                and _implied(conditions[other, 0], conditions[k, 0])
                and _implied(conditions[other, 1], conditions[k, 1])
            ):
                kept[k] = False
                break
    return kept


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
