"""Rescheduling: a new plan for the observed rates (gpulet ATC'22, Sec. 4.5 and 4.6; arXiv'21, Alg. 1)."""

from typing import ClassVar

import numpy as np

from bench.online.observation import Seen
from bench.online.planner import Planner
from bench.online.policy import PeriodDecision
from instances import InputError, Instance, Plan


class Reschedule:
    """Policy that estimates the rates by an exponentially weighted moving average and schedules in every period.

    The papers do not give the weight of the average. They reschedule when rates change, which is always the case under
    random arrivals.

    Parameters
    ----------
    planner
        Planner for new plans.
    instance
        Instance whose rates are the first estimate.
    weight
        Weight of the last period in the estimate, above 0, at most 1.
    """

    period_s: ClassVar[float] = 20.0

    def __init__(self, planner: Planner, instance: Instance, weight: float) -> None:
        if not 0.0 < weight <= 1.0:
            raise InputError("--weight", f"{weight:g}; expected a fraction above 0, at most 1")
        self._planner, self._weight = planner, weight
        self._estimate_rps = np.array([workload.rate_rps for workload in instance.workloads])

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Schedule for the current estimate of the rates."""
        self._estimate_rps += self._weight * (seen.rate_rps - self._estimate_rps)
        # A workload without requests is planned with one request per period: without a slot, it could not be served
        # when its requests resume.
        found = self._planner.plan(np.maximum(self._estimate_rps, 1.0 / seen.seconds), plan)
        if found is None:
            return PeriodDecision(unschedulable=True)
        return PeriodDecision(found, without_headroom=self._planner.without_headroom)

    def standby(self, plan: Plan) -> None:
        """Return no standby plan: new processes take the time of a reorganisation."""
