"""Rates that workloads may be planned for under each objective."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from instances import GOODPUT_STEP, Instance, Objective, SloRule

SCALE_STEP = 0.005
"""Grid of the scales: every scale tried is a multiple of this."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates that a workload may be planned for, and the value of each.

    Attributes
    ----------
    rate_rps
        Shape (rates,).
    step
        Rank by value: a configuration may replace another of the same or a lower step. Under ``goodput`` the steps are
        multiples of 5 % of the workload's own rate; otherwise all rates have the same step.
    """

    rate_rps: NDArray[np.float64]
    step: NDArray[np.int64]


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
