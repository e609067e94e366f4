"""Scheduler ``ts+repair``: TS chooses the GPUs, and the one-GPU kernels choose shares and batches."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from instances import PART_STEPS, Instance, Objective, PlacedGpu
from instances.arrays import Floats, Ints
from instances.budget import latency_budget_ms
from instances.compiled import compiled
from instances.least_shares import least_share_within, least_shares
from instances.spare_shares import spend_spare_shares
from instances.tables import Tables
from instances.view import View
from rl.planning import LATE_RPS, Decided
from rl.policy import Policy
from rl.ts import Ts

_NODE_LIMIT = 20_000
"""Node limit of ``spend_spare_shares`` on one GPU; so many nodes take one or two milliseconds."""


@dataclass(frozen=True, slots=True)
class TsRepair(Ts):
    """Two-stage agent of InSS (TS) for the choice of GPUs; the one-GPU kernels choose shares and batches.

    Attributes
    ----------
    repaired
        Number of decisions of each group for which the kernels choose shares and batches: the best decisions by the
        policy's performance model.
    """

    name: ClassVar[str] = "ts+repair"

    repaired: int = 4

    def __post_init__(self) -> None:
        Ts.__post_init__(self)
        if self.repaired < 1:
            raise ValueError(f"repaired is {self.repaired}; expected at least 1")

    def planned(self, instance: Instance, policy: Policy, seed: int) -> tuple[list[PlacedGpu], Ints]:
        """Return the GPUs of the plan, and the positions of the required workloads without a GPU."""
        view = View.of(instance, instance.gpus[0].type)
        ranked = self.decisions(instance, policy, seed, self.repaired)
        gpus: list[PlacedGpu] = []
        unplaced: list[Ints] = []
        for group in range(ranked[0].groups):
            repaired = [_repaired(view, decisions, group) for decisions in ranked]
            best = max(range(len(repaired)), key=lambda rank: repaired[rank][0])
            gpus += repaired[best][1]
            unplaced.append(ranked[best].unplaced_in(group))
        return gpus, np.concatenate(unplaced)


def _repaired(view: View, decided: Decided, group: int) -> tuple[float, list[PlacedGpu]]:
    """Return the value and the GPUs of a group as the kernels divide the GPUs.

    If the kernels find no division, or one of lower value, the division is the policy's.
    """
    unrepaired = float(decided.worth[group]), decided.gpus_of(group)
    worth, gpus = -LATE_RPS * len(decided.unplaced_in(group)), []
    for places in decided.residents(group):
        position, rate_rps = decided.dealt.position[group, places], decided.dealt.rate_rps[group, places]
        division = divide(view, position, rate_rps, decided.policy.comparison_headroom)
        if division is None:
            return unrepaired
        worth += division[0]
        gpus.append(division[1])
    return max((worth, gpus), unrepaired, key=lambda result: result[0])


def divide(view: View, residents: Ints, rate_rps: Floats, headroom: float) -> tuple[float, PlacedGpu] | None:
    """Divide one GPU among its residents.

    Under ``goodput``, rate steps are added one at a time, first the step that adds the most requests per additional
    share, until no step fits. Under ``capacity``, every workload gets the least share that serves its whole rate, and
    the spare shares go where they add the most throughput.

    Parameters
    ----------
    residents, rate_rps
        Position of each resident in the instance, and the rate that arrives for it.
    headroom
        Factor on inference times.

    Returns
    -------
    tuple of float and PlacedGpu, or None
        Requests per second that are served, or throughput under ``capacity``, and the GPU. ``None`` if no resident can
        be served or, under ``capacity``, if not all can.
    """
    turns_away = view.instance.objective is Objective.GOODPUT
    rates_rps = rate_rps[:, None]
    if turns_away:
        # A replica has fewer steps than its whole workload: further steps repeat its highest rate.
        steps = np.rint(rates_rps / view.rate_rps[residents][:, None] * PART_STEPS)
        rates_rps = rates_rps * np.minimum(np.arange(1, PART_STEPS + 1), steps) / steps
    batch, budget_ms = _least_share_batches(view, residents, rates_rps, headroom)
    model = view.model[residents]
    units, level = np.zeros(len(residents), dtype=np.int64), np.zeros(len(residents), dtype=np.int64)
    if turns_away:
        level = _filled(view.tables, model, rates_rps, batch, budget_ms, units)
        worth = float(np.sum(rates_rps[np.arange(len(level)), level] * (level >= 0)))
    elif np.any(batch == 0) or not least_shares(view.tables, model, batch[:, 0], budget_ms[:, :1], units):
        return None
    else:
        worth, _ = spend_spare_shares(view.tables, model, batch[:, 0], budget_ms[:, :1], units, _NODE_LIMIT)
    served = np.flatnonzero(level >= 0)
    level_of_served = (served, level[served])
    if not len(served):
        return None
    return worth, view.placed(residents[served], units[served], batch[level_of_served], rates_rps[level_of_served])


def _least_share_batches(view: View, residents: Ints, rate_rps: Floats, headroom: float) -> tuple[Ints, Floats]:
    """Return for each rate the batch that needs the least share alone (0 if none is feasible), and its budget."""
    model = view.model[residents]
    batches = np.arange(1, int(view.tables.max_batch[model].max()) + 1)
    budget_ms = latency_budget_ms(
        view.instance.slo_rule,
        view.slo_ms[residents, None, None],
        rate_rps[:, :, None],
        batches,
        view.tables.transfer_ms[model[:, None], batches][:, None],
        view.tables.exposed_ms[model[:, None], batches][:, None],
        headroom,
    )
    batch = _least_alone(view.tables, model, budget_ms)
    chosen = np.maximum(batch - 1, 0)[:, :, None]
    return batch, np.take_along_axis(budget_ms, chosen, axis=2)[:, :, 0]


@compiled
def _least_alone(tables: Tables, model: Ints, budget_ms: Floats) -> Ints:
    """Return the batches of ``_least_share_batches`` for budgets of shape (residents, rates, batches)."""
    batch = np.zeros(budget_ms.shape[:2], dtype=np.int64)
    for i in range(len(model)):
        for level in range(budget_ms.shape[1]):
            by_batch = budget_ms[i, level].reshape(-1, 1)
            best_units, least_used_part = tables.share_units + 1, np.inf
            for b in range(1, min(budget_ms.shape[2], tables.max_batch[model[i]]) + 1):
                units = least_share_within(tables, model[i], b, by_batch, b - 1)
                if units > tables.share_units:
                    continue
                # Among batches with equal shares, the one with the most slack for interference
                used_part = tables.active_ms[model[i], b, units] / budget_ms[i, level, b - 1]
                if units < best_units or (units == best_units and used_part < least_used_part):
                    batch[i, level], best_units, least_used_part = b, units, used_part
    return batch


@compiled
def _filled(tables: Tables, model: Ints, rate_rps: Floats, batch: Ints, budget_ms: Floats, units: Ints) -> Ints:
    """Return the index of the rate at which each resident is served, -1 for none; ``units`` are written."""
    count = len(model)
    level = np.full(count, -1, dtype=np.int64)
    trial_level, trial_units = level.copy(), units.copy()
    while True:
        best, best_level, best_worth = -1, -1, 0.0
        for i in range(count):
            higher = level[i] + 1
            while higher < batch.shape[1] and batch[i, higher] == 0:
                higher += 1
            if higher == batch.shape[1]:
                continue
            trial_level[:] = level
            trial_level[i] = higher
            if _fit(tables, model, batch, budget_ms, trial_level, trial_units):
                more_rps = rate_rps[i, higher] - (rate_rps[i, level[i]] if level[i] >= 0 else 0.0)
                # A step without an additional share counts as half a unit, so that the largest such step comes first.
                worth = more_rps / max(trial_units.sum() - units.sum(), 0.5)
                if worth > best_worth:
                    best, best_level, best_worth = i, higher, worth
        if best < 0:
            return level
        level[best] = best_level
        _fit(tables, model, batch, budget_ms, level, units)


@compiled
def _fit(tables: Tables, model: Ints, batch: Ints, budget_ms: Floats, level: Ints, units: Ints) -> bool:
    """Return whether the residents with a rate fit together; ``units`` become their least shares, 0 for the others."""
    served = np.flatnonzero(level >= 0)
    served_batch, served_budget_ms = np.empty(len(served), dtype=np.int64), np.empty((len(served), 1))
    for s, i in enumerate(served):
        served_batch[s], served_budget_ms[s, 0] = batch[i, level[i]], budget_ms[i, level[i]]
    served_units = np.empty(len(served), dtype=np.int64)
    units[:] = 0
    fits = least_shares(tables, model[served], served_batch, served_budget_ms, served_units)
    units[served] = served_units
    return fits
