"""Protocol of the policies that decide after each period whether the plan changes."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from bench.online.observation import Seen
from instances import Plan


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
    """Policy that decides once per period.

    Attributes
    ----------
    period_s
        Default length of a period.
    """

    period_s: ClassVar[float]

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Return the decision after a period.

        Parameters
        ----------
        plan
            The active plan; a GPU keeps its position.
        seen
            Observation of the period that has just ended.
        """
        ...

    def standby(self, plan: Plan) -> Plan | None:
        """Return the plan whose processes stay ready in addition to those of ``plan``, or ``None``."""
        ...


class Static:
    """Policy that keeps the first plan."""

    period_s: ClassVar[float] = 20.0

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Keep the plan."""
        return PeriodDecision()

    def standby(self, plan: Plan) -> None:
        """Return no standby plan."""
