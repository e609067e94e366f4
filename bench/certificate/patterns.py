"""Patterns of one GPU as the checker searches them: candidates, their options, and the premises of the search.

A *pattern* is a set of candidates that one GPU of a type serves. A *candidate* is a class of identical workloads
together with the rate that one slot serves. Its *options* are the batches. All worths are whole numbers.
"""

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

import numpy as np

from instances import Objective, SloRule
from instances.arrays import Flags, Floats, Ints
from instances.tables import Tables
from instances.tolerance import MARGIN, TOLERANCE
from instances.view import View

RATE_MARGIN = TOLERANCE + MARGIN
"""Relative margin of the rates that a plan may serve, since a plan may miss or exceed a rate by the tolerance."""

Progress = Callable[[float], None]
"""Function of the fraction of a search that was done since the last call; it may raise to end the search."""


def ignore(fraction: float) -> None:
    """Ignore the progress of a search."""


class Candidates(NamedTuple):
    """Candidates on one GPU type.

    Attributes
    ----------
    of_class, model
        Class of workloads and model row of each candidate, shape (candidates,); sorted by class.
    worth
        Worth that does not depend on the neighbours, shape (candidates,).
    worth_per_rps
        Worth per request per second of the slot's throughput, 0 except under ``capacity``, shape (candidates,).
    first_option
        Options of candidate k are ``first_option[k]`` to ``first_option[k + 1] - 1``, shape (candidates + 1,).
    batch, least_share_alone
        Batch of each option, and its least share alone, shape (options,).
    budget_ms
        The judge's budget of each option by share, shape (options, 1 or share units + 1). Relaxations widen it.
    """

    of_class: Ints
    model: Ints
    worth: Ints
    worth_per_rps: Floats
    first_option: Ints
    batch: Ints
    least_share_alone: Ints
    budget_ms: Floats

    def of_classes(self, selected: Flags) -> "Candidates":
        """Return the candidates of the selected classes; ``selected`` has shape (classes,)."""
        keep = selected[self.of_class]
        options = np.repeat(keep, np.diff(self.first_option))
        return Candidates(
            self.of_class[keep],
            self.model[keep],
            self.worth[keep],
            self.worth_per_rps[keep],
            np.concatenate([[0], np.cumsum(np.diff(self.first_option)[keep])]),
            self.batch[options],
            self.least_share_alone[options],
            self.budget_ms[options],
        )


def merged_tables(tables: Tables) -> Tables:
    """Return tables whose contention has one axis: a weighted sum of L2 and DRAM.

    Other residents with the L2 demand C and the DRAM demand D lengthen an active time by ``a C + d D``. For weights
    ``v + w = 1`` let ``m = min(a / v, d / w)``. Then ``a C + d D >= m (v C + w D)``. So the merged times are at most
    the true times, and equal to them where a and d have the ratio v : w. The column ``l2_pct`` has the weighted sum,
    and ``alpha_l2`` has m.

    If the power slows no GPU, nothing is merged: the column ``power_w`` has the DRAM demand instead of the power.
    """
    l2_total, dram_total = float(tables.alpha_l2.sum()), float(tables.alpha_dram.sum())
    if dram_total == 0.0:
        return tables
    if tables.throttle_per_w == 0.0:
        return tables._replace(power_w=tables.dram_pct)
    dram_weight = dram_total / (l2_total + dram_total)
    by_dram = tables.alpha_dram / dram_weight
    alpha = by_dram if dram_weight == 1.0 else np.minimum(tables.alpha_l2 / (1.0 - dram_weight), by_dram)
    merged_demand_pct = (1.0 - dram_weight) * tables.l2_pct + dram_weight * tables.dram_pct
    # The products above are rounded, so ``alpha`` is lowered by one part in 10^9.
    alpha = alpha * (1.0 - MARGIN)
    return tables._replace(l2_pct=merged_demand_pct, alpha_l2=alpha, alpha_dram=np.zeros_like(alpha))


def broken_premise(tables: Tables) -> str:
    """Return the premise of the search that does not hold for the tables, or an empty text if all hold.

    The premises: times are positive; a time does not fall when the number of residents or their L2, DRAM or power
    demand grows; and a demand does not fall when the share grows.
    """
    if np.any(tables.scheduling_ms < 0.0) or np.any(tables.permitted < 1) or tables.permitted[-1] > tables.share_units:
        return "a scheduling delay is negative, or a share is beyond the GPU"
    if np.any(tables.alpha_l2 < 0.0) or np.any(tables.alpha_dram < 0.0):
        return "an active time falls as the neighbours' demand grows"
    if tables.throttle_per_w > 0.0:
        return "the frequency rises with the power"
    if np.any(tables.kernels < 0.0) or tables.alpha_sch < 0.0 or 2.0 * tables.alpha_sch + tables.beta_sch < 0.0:
        return "the scheduling delay falls as the number of residents grows"
    for row, largest_batch in enumerate(tables.max_batch.tolist()):
        exposed_ms = tables.exposed_ms[row, 1 : largest_batch + 1]
        transfer_ms = tables.transfer_ms[row, 1 : largest_batch + 1]
        if not np.all(tables.active_ms[row, 1 : largest_batch + 1, 1:] > 0.0):
            return "an active time is not positive"
        if np.any(exposed_ms < 0.0) or np.any(transfer_ms < exposed_ms):
            return "a transfer is negative, or shorter than its exposed part"
        for demand in (tables.l2_pct, tables.dram_pct, tables.power_w):
            values = demand[row, 1 : largest_batch + 1, 1:]
            if np.any(values < 0.0) or np.any(np.diff(values, axis=1) < 0.0):
                return "a demand is negative, or falls as the share grows"
        if not tables.pairwise and np.any(tables.company[row, 1 : largest_batch + 1, 1:] < 1.0):
            return "co-location shortens an active time"
    return ""


class SlotOffer(NamedTuple):
    """Rate of a workload class at which one slot may be planned, and the worth of the slot.

    ``workload`` is the position of one of the class's workloads in the instance. For the worth, see ``Candidates``.
    ``budget_at_rate`` is true if the slot is planned for exactly ``rate_rps``, as slots are that serve whole workloads
    under ``cost`` and ``capacity``. The slot then has the budget at this rate.
    """

    of_class: int
    workload: int
    rate_rps: float
    worth: int
    worth_per_rps: float = 0.0
    budget_at_rate: bool = False


def candidates_on(
    view: View, offers: Sequence[SlotOffer], progress: Progress = ignore, largest_batch: float = inf
) -> Candidates:
    """Return the candidates of the offers whose slots are feasible alone on the GPU type of ``view``, in order.

    Their options are all batches up to ``largest_batch``. ``progress`` is called with 0 before each offer.
    """
    tables = view.tables
    feasible_offers, first, batches, shares_alone, budgets = [], [0], [], [], []
    for offer in offers:
        progress(0.0)
        model = int(view.model[offer.workload])
        batch = np.arange(1, int(min(tables.max_batch[model], largest_batch)) + 1)
        rates_rps = _rates_of_largest_budgets(view, offer, batch)
        budget_ms = np.maximum.reduce([view.budgets_ms(offer.workload, batch, rate) for rate in rates_rps])
        least_shares = np.array(
            [
                _least_share_alone(tables, model, one_batch, budgets_of_batch)
                for one_batch, budgets_of_batch in zip(batch.tolist(), budget_ms, strict=True)
            ]
        )
        possible = least_shares <= tables.share_units
        if possible.any():
            feasible_offers.append(offer)
            batches.append(batch[possible])
            shares_alone.append(least_shares[possible])
            budgets.append(budget_ms[possible])
            first.append(first[-1] + int(possible.sum()))
    return Candidates(
        np.array([offer.of_class for offer in feasible_offers], dtype=np.int64),
        view.model[[offer.workload for offer in feasible_offers]],
        np.array([offer.worth for offer in feasible_offers], dtype=np.int64),
        np.array([offer.worth_per_rps for offer in feasible_offers], dtype=np.float64),
        np.array(first, dtype=np.int64),
        np.concatenate([np.empty(0, dtype=np.int64), *batches]),
        np.concatenate([np.empty(0, dtype=np.int64), *shares_alone]),
        np.concatenate(budgets) if budgets else np.empty((0, 1)),
    )


def _rates_of_largest_budgets(view: View, offer: SlotOffer, batch: Ints) -> list[Floats]:
    """Return arrays of rates by batch; at one of them, a slot that serves the offer's rate has its largest budget.

    A slot with ``budget_at_rate`` has the budget at exactly the offer's rate. Other slots may be planned for any rate
    within ``RATE_MARGIN`` of the offer's; under ``scale``, also for a larger rate. Budgets fall as the rate grows,
    except the budget of ``assembly``: ``min(SLO - 1000 (b - 1) / r, 1000 b / r)`` is largest where its two terms are
    equal.
    """
    offered_rps = np.full(len(batch), offer.rate_rps)
    if offer.budget_at_rate:
        return [offered_rps]
    lowest_rps, highest_rps = offered_rps * (1.0 - RATE_MARGIN), offered_rps * (1.0 + RATE_MARGIN)
    if view.instance.slo_rule is not SloRule.ASSEMBLY:
        return [lowest_rps, offered_rps]
    equal_budgets_rps = 1000.0 * (2.0 * batch - 1.0) / view.slo_ms[offer.workload]
    return [
        lowest_rps,
        np.maximum(
            equal_budgets_rps
            if view.instance.objective is Objective.SCALE
            else np.minimum(equal_budgets_rps, highest_rps),
            lowest_rps,
        ),
    ]


def _least_share_alone(tables: Tables, model: int, batch: int, budget_ms: Floats) -> int:
    """Return the least share at which a batch alone on a GPU meets its budget, widened by the margin.

    The power of the batch is ignored.

    The share is ``share_units + 1`` if no share is enough.
    """
    units = tables.permitted
    limit_ms = (budget_ms[units] if len(budget_ms) > 1 else budget_ms[0]) * (1.0 + MARGIN)
    within = tables.scheduling_ms[model] + tables.active_ms[model, batch, units] <= limit_ms
    return int(units[within][0]) if within.any() else tables.share_units + 1
