"""Online policies: the protocol, the fixed plan, and rescheduling for the observed rates."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from bench.online.observation import Observation
from bench.online.planner import Planner
from instances import InputError, Instance, Plan
from instances.errors import FieldName


@dataclass(frozen=True, slots=True)
class PeriodDecision:
    """Decision of a policy after a period.

    Attributes
    ----------
    plan
        Plan to serve as soon as its processes are ready; ``None`` keeps the current plan.
    unschedulable
        Whether the policy needs a new plan but found none (gpulet ATC'22, Alg. 2, line 9).
    without_headroom
        Whether the plan was made without the requested headroom; ``None`` if it derives from the current plan.
    """

    plan: Plan | None = None
    unschedulable: bool = False
    without_headroom: bool | None = None


class OnlinePolicy(Protocol):
    """Policy that decides once per period; ``period_s`` is the default length of a period."""

    period_s: ClassVar[float] = 20.0

    def decide(self, plan: Plan, observation: Observation) -> PeriodDecision:
        """Return the decision after a period; GPUs keep their positions in the active ``plan``."""

    def standby(self, plan: Plan) -> Plan | None:
        """Return the plan of the standby processes, in addition to the processes of ``plan``; ``None`` by default.

        Standby processes are ready: a decision for a plan that consists of standby processes and of processes of
        ``plan`` has effect at once.
        """
        return None


class Static(OnlinePolicy):
    """Policy that keeps the first plan."""

    def decide(self, plan: Plan, observation: Observation) -> PeriodDecision:
        """Keep the plan."""
        return PeriodDecision()


class Reschedule(OnlinePolicy):
    """Policy that estimates the rates by an exponentially weighted moving average and schedules in every period.

    The papers do not give the weight of the average. They reschedule when rates change, which is always the case under
    random arrivals.

    Parameters
    ----------
    instance
        Instance; its rates are the first estimate.
    weight
        Weight of the last period in the estimate, above 0, at most 1.
    """

    def __init__(self, planner: Planner, instance: Instance, weight: float) -> None:
        if not 0.0 < weight <= 1.0:
            raise InputError(FieldName("weight"), f"{weight:g}; expected a fraction above 0, at most 1")
        self._planner, self._weight = planner, weight
        self._estimate_rps = np.array([workload.rate_rps for workload in instance.workloads])

    def decide(self, plan: Plan, observation: Observation) -> PeriodDecision:
        """Schedule for the current estimate of the rates."""
        self._estimate_rps += self._weight * (observation.rate_rps - self._estimate_rps)
        # A workload without requests is planned with one request per period, because it needs a slot when its requests
        # resume.
        new_plan = self._planner.plan(np.maximum(self._estimate_rps, 1.0 / observation.seconds), plan)
        if new_plan is None:
            return PeriodDecision(unschedulable=True)
        return PeriodDecision(new_plan, without_headroom=self._planner.without_headroom)
