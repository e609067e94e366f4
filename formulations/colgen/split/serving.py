"""Rate that a slot of a split workload serves, given the duration of its batches.

In the class ``split`` a slot may serve any part of its workload's rate. Every analytic rule then limits a batch in two
ways: its longest time, and the largest rate that it can serve. So the rate is no decision variable. The content of a
GPU is (workload, batch, share) of its slots, and each slot serves the rate that its time permits.
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
"""Fraction of a rate step that may be missing."""


class SplitMarket(NamedTuple):
    """Classes of identical workloads as seen from one GPU type.

    Attributes
    ----------
    tables
        Tables of the GPU type.
    model
        Row of each class's model, shape (classes,).
    limit_ms
        Longest GPU time at which a slot serves requests, shape (classes, largest batch + 1); -inf if the batch is
        infeasible.
    overhead_ms
        Time added to the GPU time for the period of a batch, shape (models, largest batch + 1).
    buffer
        The instance's latency buffer.
    asked_rps
        Rate of one workload of each class, shape (classes,).
    copies
        Number of workloads of each class, shape (classes,).
    steps
        Steps per rate: a served part is a multiple of one step; 0 permits any part.
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
    """Return the classes of ``instance`` as seen from one GPU type.

    Parameters
    ----------
    instance
        Instance with an analytic rule.
    view
        The instance as seen from the GPU type.
    first_of_class
        Position of one workload of each class, shape (classes,).
    copies
        Number of workloads of each class, shape (classes,).
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
    """Return the part of its rate that a slot can serve if a batch takes ``time_ms``; 0 if that violates the SLO."""
    if not time_ms <= market.limit_ms[group, batch]:
        return 0.0
    period_ms = market.buffer * (time_ms + market.overhead_ms[market.model[group], batch])
    part = min(1.0, float(1000.0 * batch / (period_ms * market.asked_rps[group])))
    return math.floor(part * market.steps + STEP_ROUNDING) / market.steps if market.steps else part
