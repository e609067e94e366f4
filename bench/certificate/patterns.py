"""Patterns of one GPU as the checker searches them: candidates, their options, and the premises of the search.

A *pattern* is a set of candidates that one GPU of a type serves. A *candidate* is a class of identical workloads
together with the rate that one slot serves. Its *options* are the batches. All worths are whole numbers.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from instances import Objective, SloRule
from instances.arrays import Flags, Floats, Ints
from instances.tables import Tables
from instances.tolerance import MARGIN, TOLERANCE
from instances.view import View

RATE_MARGIN = TOLERANCE + MARGIN
"""Relative margin of the rates that a plan may serve: it may miss or exceed a rate by the tolerance."""

Progress = Callable[[float], None]
"""Function that is told which part of a search was done since the last call; it may raise to end the search."""


def ignore(part: float) -> None:
    """Ignore the progress of a search."""


class Candidates(NamedTuple):
    """Candidates on one GPU type.

    Attributes
    ----------
    of_class, model
        Class of workloads and model row of each candidate, shape (candidates,); sorted by class.
    worth
        Worth that does not depend on the neighbours, shape (candidates,).
    per_rps
        Worth per request per second of the slot's throughput, 0 except under ``capacity``, shape (candidates,).
    first
        Options of candidate k are ``first[k]`` to ``first[k + 1] - 1``, shape (candidates + 1,).
    batch, alone
        Batch of each option, and its least share alone, shape (options,).
    budget_ms
        The judge's budget of each option by share, shape (options, 1 or share units + 1). Relaxations widen it.
    """

    of_class: Ints
    model: Ints
    worth: Ints
    per_rps: Floats
    first: Ints
    batch: Ints
    alone: Ints
    budget_ms: Floats

    def of_classes(self, wanted: Flags) -> "Candidates":
        """Return the candidates whose class is wanted; ``wanted`` has shape (classes,)."""
        kept = wanted[self.of_class]
        options = np.repeat(kept, np.diff(self.first))
        return Candidates(
            self.of_class[kept],
            self.model[kept],
            self.worth[kept],
            self.per_rps[kept],
            np.concatenate([[0], np.cumsum(np.diff(self.first)[kept])]),
            self.batch[options],
            self.alone[options],
            self.budget_ms[options],
        )


def merged_tables(tables: Tables) -> Tables:
    """Return tables whose contention has one axis: a weighted sum of L2 and DRAM.

    Beside others an active time grows by ``a C + d D``, with C and D the others' demands. For weights ``v + w = 1`` let
    ``m = min(a / v, d / w)``. Then ``a C + d D >= m (v C + w D)``: the merged times are never above the true ones, and
    equal where a and d have the ratio v : w.
    """
    l2, dram = float(tables.alpha_l2.sum()), float(tables.alpha_dram.sum())
    if dram == 0.0:
        return tables
    w = dram / (l2 + dram)
    by_dram = tables.alpha_dram / w
    alpha = by_dram if w == 1.0 else np.minimum(tables.alpha_l2 / (1.0 - w), by_dram)
    summed = (1.0 - w) * tables.l2_pct + w * tables.dram_pct
    # The products above are rounded, so the growths are lowered by one part in 10^9.
    alpha = alpha * (1.0 - MARGIN)
    return tables._replace(l2_pct=summed, alpha_l2=alpha, alpha_dram=np.zeros_like(alpha))


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
    for row, top in enumerate(tables.max_batch.tolist()):
        exposed_ms, transfer_ms = tables.exposed_ms[row, 1 : top + 1], tables.transfer_ms[row, 1 : top + 1]
        if not np.all(tables.active_ms[row, 1 : top + 1, 1:] > 0.0):
            return "an active time is not positive"
        if np.any(exposed_ms < 0.0) or np.any(transfer_ms < exposed_ms):
            return "a transfer is negative, or shorter than its exposed part"
        for demand in (tables.l2_pct, tables.dram_pct, tables.power_w):
            known = demand[row, 1 : top + 1, 1:]
            if np.any(known < 0.0) or np.any(np.diff(known, axis=1) < 0.0):
                return "a demand is negative, or falls as the share grows"
        if not tables.pairwise and np.any(tables.company[row, 1 : top + 1, 1:] < 1.0):
            return "co-location shortens an active time"
    return ""


class SlotOffer(NamedTuple):
    """Rate of a workload class at which one slot may be planned, and the worth of the slot.

    ``workload`` is the position of one of the class's workloads in the instance. For the worth, see ``Candidates``.
    ``whole`` says that the slot serves all that arrives of a workload, so that its budget holds at this very rate.
    """

    of_class: int
    workload: int
    rate_rps: float
    worth: int
    per_rps: float = 0.0
    whole: bool = False


def candidates_on(view: View, offers: Sequence[SlotOffer], progress: Progress = ignore) -> Candidates:
    """Return the candidates of the offers whose slots are feasible alone on the GPU type of ``view``, in order.

    ``progress`` is told 0 before each offer.
    """
    tables = view.tables
    kept, first, batches, alone, budgets = [], [0], [], [], []
    for offer in offers:
        progress(0.0)
        model = int(view.model[offer.workload])
        batch = np.arange(1, int(tables.max_batch[model]) + 1)
        tried = _rates_of_largest_budgets(view, offer, batch)
        budget_ms = np.maximum.reduce([view.budgets_ms(offer.workload, batch, rate) for rate in tried])
        least = np.array(
            [_least_alone(tables, model, b, row) for b, row in zip(batch.tolist(), budget_ms, strict=True)]
        )
        possible = least <= tables.share_units
        if possible.any():
            kept.append(offer)
            batches.append(batch[possible])
            alone.append(least[possible])
            budgets.append(budget_ms[possible])
            first.append(first[-1] + int(possible.sum()))
    return Candidates(
        np.array([offer.of_class for offer in kept], dtype=np.int64),
        view.model[[offer.workload for offer in kept]],
        np.array([offer.worth for offer in kept], dtype=np.int64),
        np.array([offer.per_rps for offer in kept], dtype=np.float64),
        np.array(first, dtype=np.int64),
        np.concatenate([np.empty(0, dtype=np.int64), *batches]),
        np.concatenate([np.empty(0, dtype=np.int64), *alone]),
        np.concatenate(budgets) if budgets else np.empty((0, 1)),
    )


def _rates_of_largest_budgets(view: View, offer: SlotOffer, batch: Ints) -> list[Floats]:
    """Return rates, each by batch, at one of which a slot that serves the offer's rate has its largest budget.

    A slot that serves a whole workload has the budget at the workload's rate. Others may be planned for any rate within
    ``RATE_MARGIN`` of the offer's; under ``scale``, also for a larger one.
    Budgets fall as the rate grows, except that of ``assembly``: ``min(SLO - 1000 (b - 1) / r, 1000 b / r)`` is largest
    where both are equal.
    """
    own = np.full(len(batch), offer.rate_rps)
    if offer.whole:
        return [own]
    least, most = own * (1.0 - RATE_MARGIN), own * (1.0 + RATE_MARGIN)
    if view.instance.slo_rule is not SloRule.ASSEMBLY:
        return [least, own]
    equal = 1000.0 * (2.0 * batch - 1.0) / view.slo_ms[offer.workload]
    return [least, np.maximum(equal if view.instance.objective is Objective.SCALE else np.minimum(equal, most), least)]


def _least_alone(tables: Tables, model: int, batch: int, budget_ms: Floats) -> int:
    """Return the least share at which a batch alone, its own power ignored, is within its budget and the margin."""
    units = tables.permitted
    limit_ms = (budget_ms[units] if len(budget_ms) > 1 else budget_ms[0]) * (1.0 + MARGIN)
    within = tables.scheduling_ms[model] + tables.active_ms[model, batch, units] <= limit_ms
    return int(units[within][0]) if within.any() else tables.share_units + 1
