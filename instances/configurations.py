"""Configurations (batch, share and rate of a workload on a GPU type), and the rates to plan for."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from instances import GOODPUT_STEP, PART_STEPS, Instance, Objective, SloRule
from instances.arrays import Flags, Floats, Ints
from instances.leanest_batches import each_batch, leanest_shares
from instances.least_shares import shares_alone
from instances.tables import Tables
from instances.view import View

BATCHES_TRIED = 3
"""Number of batches that first fit and the heuristics try at each rate of a workload: those with the least shares."""

COARSE_STEPS = 5
"""Steps between the rates that heuristics try under ``goodput`` if budgets depend on the share, and so take long."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates that a workload may be planned for, and the rank of each; arrays of shape (rates,).

    Attributes
    ----------
    step
        Rank of the rate: a configuration may replace another of the same or a lower step. If a workload may be served
        in part, step s is s times 5 % of the workload's rate. Otherwise all rates have the same step.
    """

    rate_rps: Floats
    step: Ints


def rates_of(instance: Instance, workload: int) -> Rates:
    """Return the rates that workload number ``workload`` may be planned for under the instance's objective."""
    full_rps = instance.workloads[workload].rate_rps
    if instance.objective is Objective.GOODPUT:
        step = np.arange(1, round(1.0 / GOODPUT_STEP) + 1, dtype=np.int64)
        return Rates(np.array([full_rps * (GOODPUT_STEP * index) for index in step.tolist()]), step)
    return Rates(np.array([full_rps]), np.ones(1, dtype=np.int64))


def rates_at(instance: Instance, scale: float) -> list[Rates]:
    """Return the rates of every workload at ``scale``: the scaled rate, and higher rates with a larger latency budget.

    The latency budget shrinks as the rate grows, except under the rule ``assembly``. Under this rule a higher rate also
    fills a batch faster, so the budget first grows. It is largest where ``SLO - 1000 (b - 1) / r = 1000 b / r``.
    """
    largest_batch = max(model.max_batch for pool in instance.gpus for model in pool.type.models.values())
    rates = []
    for workload in instance.workloads:
        rate_rps = np.array([workload.rate_rps * scale])
        if instance.slo_rule is SloRule.ASSEMBLY:
            best_rps = 1000.0 * (2.0 * np.arange(1, largest_batch + 1) - 1.0) / workload.slo_ms
            rate_rps = np.concatenate((rate_rps, best_rps[best_rps > rate_rps[0]]))
        rates.append(Rates(rate_rps, np.ones(len(rate_rps), dtype=np.int64)))
    return rates


class Configurations(NamedTuple):
    """Configurations on one GPU type, item by item; arrays have one row per configuration except ``first``.

    An item is a workload, or one of the equal parts into which it is divided.

    Attributes
    ----------
    first
        The configurations of item i are ``first[i]:first[i + 1]``, shape (items + 1,).
    item, workload, model
        Item, position of its workload in the instance, and row of its DNN model in the tables.
    batch, units, rate_rps, step
        Batch, share, rate, and the rate's step (``Rates.step``). Shares of the same item, batch and rate ascend.
    budget_ms
        Latency budget: the longest GPU time within the SLO rule. Shape (configurations, 1): budget at the
        configuration's share. Shape (configurations, share units + 1): budget at every share; the share may grow.
    """

    first: Ints
    item: Ints
    workload: Ints
    model: Ints
    batch: Ints
    units: Ints
    rate_rps: Floats
    step: Ints
    budget_ms: Floats

    @property
    def size(self) -> int:
        """Number of configurations."""
        return len(self.batch)

    @property
    def item_count(self) -> int:
        """Number of items, including those without configurations."""
        return len(self.first) - 1

    def only(self, selected: Ints | Flags) -> "Configurations":
        """Return the configurations at the positions or flags ``selected``, in this order; items must ascend."""
        item = self.item[selected]
        first = np.searchsorted(item, np.arange(len(self.first)))
        return Configurations._make((first, item, *(column[selected] for column in self[2:])))

    @classmethod
    def joined(cls, items: Sequence["Configurations"]) -> "Configurations":
        """Return the configurations of several items from the configurations of each item."""
        first = np.cumsum([0, *(item.size for item in items)], dtype=np.int64)
        columns = (np.concatenate(parts) for parts in zip(*(item[2:] for item in items), strict=True))
        return cls._make((first, np.repeat(np.arange(len(items)), np.diff(first)), *columns))

    def chain_starts(self) -> Flags:
        """Mark the first configuration of each chain: of the same item, batch and rate, with the least share."""
        starts = np.ones(self.size, dtype=bool)
        starts[1:] = (np.diff(self.item) != 0) | (np.diff(self.batch) != 0) | (np.diff(self.rate_rps) != 0)
        return starts

    def memory_mib(self, tables: Tables) -> Floats:
        """Return the resident memory."""
        return tables.memory_mib[self.model, self.batch]

    def demand(self, tables: Tables) -> Floats:
        """Return the demands L2 (percent), DRAM (percent) and power (W), shape (configurations, 3)."""
        entries = (self.model, self.batch, self.units)
        return np.stack([tables.l2_pct[entries], tables.dram_pct[entries], tables.power_w[entries]], axis=1)

    def conditions(self, tables: Tables) -> Floats:
        """Return linear conditions for co-location, shape (configurations, 2, 5).

        Beside others, a configuration stays within its budget iff both rows are satisfied. A row is satisfied if its
        first four numbers times (N, C, D, P) sum to at most the fifth. N is the number of residents, this one included.
        C, D and P are the demands of the *others*. Row 0 is the condition at full clock; row 1 is the throttled one.

        ``t_gpu <= tau`` is ``sch + n d + act (1 + a_l2 C + a_dram D) <= tau g`` for both values of d in {0, Delta(N)}
        and of g in {1, 1 + throttle (P_total - cap)}. For N >= 2, Delta(N) is not negative, so two conditions remain.
        Beside others, the factor ``tables.company`` replaces the 1. If growth is clipped (``tables.pairwise``), there
        is neither delay nor throttling. The clip adds the condition that the time alone is within ``tau``, which every
        configuration meets.
        """
        model, entries = self.model, (self.model, self.batch, self.units)
        active_ms, power_w, budget_ms = tables.active_ms[entries], tables.power_w[entries], self.budget_ms[:, 0]
        kernels = tables.kernels[model]
        rows = np.zeros((self.size, 2, 5))
        rows[:, :, 0] = (kernels * tables.alpha_sch)[:, None]
        rows[:, :, 1] = (active_ms * tables.alpha_l2[model])[:, None]
        rows[:, :, 2] = (active_ms * tables.alpha_dram[model])[:, None]
        beside_ms = active_ms * tables.company[entries]
        rows[:, :, 4] = (budget_ms - tables.scheduling_ms[model] - beside_ms - kernels * tables.beta_sch)[:, None]
        per_watt = -tables.throttle_per_w * budget_ms
        rows[:, 1, 3] = per_watt
        rows[:, 1, 4] += per_watt * (tables.max_power_w - tables.idle_power_w - power_w)
        return rows


def servable_configurations(view: View, workload: int, rates: Rates) -> Configurations:
    """Return all configurations of a workload that are feasible alone on a GPU, by batch, step and share.

    At every batch and share, a rate is left out if another rate has no lower step and no smaller latency budget.
    """
    tables, model = view.tables, int(view.model[workload])
    batch = np.arange(1, int(tables.max_batch[model]) + 1)
    units = tables.permitted
    budgets_ms = view.budgets_ms(workload, batch[:, None], rates.rate_rps[None, :])
    budgets_ms = budgets_ms[:, :, units] if budgets_ms.shape[2] > 1 else np.repeat(budgets_ms, len(units), axis=2)
    enough_memory = tables.memory_mib[model, batch] <= tables.memory_limit_mib
    batch_index, rate_index, share_index = np.nonzero(
        _best_budgets(budgets_ms, rates.step) & enough_memory[:, None, None]
    )
    share, budget_ms = units[share_index], budgets_ms[batch_index, rate_index, share_index]
    entries = (model, batch[batch_index], share)
    alone_ms = tables.scheduling_ms[model] + tables.active_ms[entries]
    excess_w = tables.idle_power_w + tables.power_w[entries] - tables.max_power_w
    clock = 1.0 + tables.throttle_per_w * np.maximum(0.0, excess_w)
    fits = clock > 0.0
    fits[fits] = alone_ms[fits] / clock[fits] <= budget_ms[fits]
    item, first = np.zeros(len(batch_index), dtype=np.int64), np.array([0, len(batch_index)])
    columns = (
        item,
        item + workload,
        item + model,
        batch[batch_index],
        share,
        rates.rate_rps[rate_index],
        rates.step[rate_index],
        budget_ms[:, None],
    )
    return Configurations(first, *columns).only(fits)


def _best_budgets(budget_ms: Floats, step: Ints) -> Flags:
    """Mark the rates that no other rate dominates at the same batch and share; shape (batches, rates, shares)."""
    best = np.zeros(budget_ms.shape, dtype=bool)
    largest = np.full(budget_ms.shape[::2], -np.inf)
    from_highest_step = np.lexsort((np.arange(len(step)), -step))
    for rate_index in from_highest_step:
        rivals = budget_ms[:, step == step[rate_index]]
        best[:, rate_index] = (budget_ms[:, rate_index] > largest) & (budget_ms[:, rate_index] >= rivals.max(axis=1))
        largest = np.where(best[:, rate_index], budget_ms[:, rate_index], largest)
    return best


def lean_configurations(
    view: View,
    workload: Ints,
    rate_rps: Floats,
    start_batch: Ints | None = None,
    batches: int | Sequence[int] = BATCHES_TRIED,
) -> Configurations:
    """Return the configurations of items at their least shares alone on a GPU, by rate from the highest, then by share.

    Under ``goodput`` an item has every step of its rate, or one in ``COARSE_STEPS`` if budgets depend on the share;
    otherwise it has one.

    Parameters
    ----------
    workload, rate_rps
        Position in the instance and full rate of each item, shape (items,).
    start_batch
        Batch of each item in a start plan, 0 without one; its configuration is returned in any case if it is servable.
    batches
        Number of batches per item and rate: the batches with the least shares. A sequence has these batches instead.
    """
    steps = np.ones(1, dtype=np.int64)
    if view.instance.objective is Objective.GOODPUT:
        every = COARSE_STEPS if view.instance.slo_rule.by_share else 1
        steps = np.arange(PART_STEPS, 0, -every)
    start = np.zeros_like(workload) if start_batch is None else start_batch
    # A pair is an item with one step of its rate.
    pair_workload, pair_rps = np.repeat(workload, len(steps)), (rate_rps[:, None] * (steps / steps[0])[None, :]).ravel()
    largest_batch = view.tables.max_batch[view.model[pair_workload]]
    if isinstance(batches, int):
        # A batch that takes longer than the SLO to fill is never full.
        with np.errstate(over="ignore"):
            arrivals_in_slo = view.slo_ms[pair_workload] * pair_rps / 1000.0
        useful = np.ceil(np.minimum(arrivals_in_slo, largest_batch)).astype(np.int64)
        useful = np.where(view.steps[pair_workload] > 0, view.places_needed(pair_workload, pair_rps), useful)
        largest_batch = np.clip(np.maximum(useful, np.repeat(start, len(steps))), 1, largest_batch)
    pair, batch = each_batch(largest_batch)
    always = batch == np.repeat(start, len(steps))[pair]
    if not isinstance(batches, int):
        given = always | np.isin(batch, batches)
        pair, batch, always = pair[given], batch[given], always[given]
    elif view.instance.slo_rule.by_share:
        # Budgets by share take long, so they are computed only for the leanest batches.
        fits = view.tables.memory_mib[view.model[pair_workload[pair]], batch] <= view.tables.memory_limit_mib
        pair, batch, always = pair[fits], batch[fits], always[fits]
        least = leanest_shares(view, pair, pair_workload[pair], batch, pair_rps[pair], batches, always)
        row = np.flatnonzero(least <= view.tables.share_units)
        # The least shares of decoding workloads are not known yet, so each of their batches stays.
        stays = always | (view.steps[pair_workload[pair]] > 0)
        row = np.sort(row[_leanest_rows(pair[row], least[row], batches, stays[row])])
        pair, batch, always = pair[row], batch[row], always[row]
    budget_ms = view.budgets_ms(pair_workload[pair], batch, pair_rps[pair])
    units = shares_alone(view.tables, view.model[pair_workload[pair]], batch, budget_ms)
    row = np.flatnonzero(units <= view.tables.share_units)
    most = batches if isinstance(batches, int) else len(row)
    row = row[_leanest_rows(pair[row], units[row], most, always[row])]
    pair = pair[row]
    item = pair // len(steps)
    return Configurations(
        np.searchsorted(item, np.arange(len(workload) + 1)),
        item,
        pair_workload[pair],
        view.model[pair_workload[pair]],
        batch[row],
        units[row],
        pair_rps[pair],
        steps[pair % len(steps)],
        budget_ms[row],
    )


def leanest(configurations: Configurations, most: int) -> Configurations:
    """Return, for each item and step, up to ``most`` pairs of batch and rate: the pairs with the fewest units.

    Each pair is at its least share. The order is by item, by step from the highest, and by share.
    """
    row = np.flatnonzero(configurations.chain_starts())
    step = configurations.step[row]
    item_and_step = configurations.item[row] * (step.max(initial=0) + 1) - step
    return configurations.only(row[_leanest_rows(item_and_step, configurations.units[row], most)])


def _leanest_rows(group: Ints, units: Ints, most: int, always: Flags | bool = False) -> Ints:
    """Return for each value of ``group`` the ``most`` positions with the fewest units, sorted by group and units.

    Positions that ``always`` marks are returned in any case.
    """
    order = np.lexsort((units, group))
    ordered = group[order]
    fewest = np.arange(len(order)) - np.searchsorted(ordered, ordered) < most
    return order[fewest | (always if isinstance(always, bool) else always[order])]
