"""Rate that a slot of a split workload serves, given the duration of its batches.

In the class ``split`` a slot may serve any part of its workload's rate. Every analytic rule then says two things of a
batch: how long it may take at all, and the largest rate that it keeps up with. So the rate is no decision: a GPU's
content is (workload, batch, share) of its slots, and each serves what its time allows.
"""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from instances import GOODPUT_STEP, Instance, Objective, SloRule
from instances.arrays import Floats, Ints
from instances.tables import Tables
from instances.view import View

STEP_ROUNDING = 1e-9
"""Steps of a rate by which one may be short and still count."""


class SplitMarket(NamedTuple):
    """Classes of identical workloads seen from one GPU type.

    Attributes
    ----------
    tables
        Of the GPU type.
    model
        Row of each class's model, shape (classes,).
    limit_ms
        Longest GPU time at which a slot serves anything, shape (classes, largest batch + 1); -inf where the batch is
        impossible.
    overhead_ms
        Added to the GPU time for the period of a batch, shape (models, largest batch + 1).
    buffer
        The instance's latency buffer.
    asked_rps
        Rate of one workload of each class, shape (classes,).
    copies
        Workloads of each class, shape (classes,).
    steps
        A part of a rate is a multiple of one in so many; 0 for any part.
    """

    tables: Tables
    model: Ints
    limit_ms: Floats
    overhead_ms: Floats
    buffer: float
    asked_rps: Floats
    copies: Floats
    steps: int


def market(instance: Instance, view: View, first_of_class: Ints, copies: Floats) -> SplitMarket:
    """Look at the classes of ``instance`` from one GPU type.

    Parameters
    ----------
    instance
        Under an analytic rule.
    view
        It from the GPU type.
    first_of_class
        Position of one workload of each class, shape (classes,).
    copies
        Workloads of each class, shape (classes,).
    """
    tables = view.tables
    batch = np.arange(tables.transfer_ms.shape[1])
    model, slo_ms = view.model[first_of_class], view.slo_ms[first_of_class]
    if instance.slo_rule is SloRule.ASSEMBLY:
        # A rate r with t_inf <= 1000 b / r and t_inf <= SLO - 1000 (b - 1) / r exists iff (2b - 1) t_inf <= b SLO.
        most_ms = slo_ms[:, None] * batch / np.maximum(2 * batch - 1, 1)
    else:
        most_ms = np.repeat(slo_ms[:, None] / 2.0, len(batch), axis=1)
    limit_ms = most_ms / instance.latency_buffer - tables.transfer_ms[model]
    limit_ms[(batch == 0) | (batch > tables.max_batch[model][:, None])] = -np.inf
    return SplitMarket(
        tables,
        model,
        limit_ms,
        tables.exposed_ms if instance.slo_rule is SloRule.HALF_SLO else tables.transfer_ms,
        instance.latency_buffer,
        view.rate_rps[first_of_class],
        copies,
        round(1.0 / GOODPUT_STEP) if instance.objective is Objective.GOODPUT else 0,
    )


@njit(cache=True)
def part_served(market: SplitMarket, group: int, batch: int, time_ms: float) -> float:
    """Part of a workload's rate that a slot keeps up with when a batch takes ``time_ms``; 0 where it breaks the SLO."""
    if not time_ms <= market.limit_ms[group, batch]:
        return 0.0
    period_ms = market.buffer * (time_ms + market.overhead_ms[market.model[group], batch])
    part = min(1.0, float(1000.0 * batch / (period_ms * market.asked_rps[group])))
    return math.floor(part * market.steps + STEP_ROUNDING) / market.steps if market.steps else part
