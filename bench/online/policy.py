"""Policies that decide after each period whether the plan changes."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from bench.online.observation import Seen
from instances import Plan


@dataclass(frozen=True, slots=True)
class PeriodDecision:
    """What follows from what was seen.

    Attributes
    ----------
    plan
        To be served from as soon as its processes are ready; ``None`` leaves the plan as it is.
    unschedulable
        Whether a plan was wanted and none was found (gpulet ATC'22, Alg. 2, line 9).
    without_headroom
        Whether the plan had to be made without the headroom asked for; ``None`` where it goes on from the present one.
    """

    plan: Plan | None = None
    unschedulable: bool = False
    without_headroom: bool | None = None


class OnlinePolicy(Protocol):
    """Looks at the load once every period.

    Attributes
    ----------
    period_s
        How often it looks, unless told otherwise.
    """

    period_s: ClassVar[float]

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Return what to do after a period.

        Parameters
        ----------
        plan
            That serves now; a GPU keeps its position.
        seen
            In the period that has just ended.
        """
        ...

    def standby(self, plan: Plan) -> Plan | None:
        """Return the plan whose processes are kept ready beside those of ``plan``, or ``None``."""
        ...


class Static:
    """The first plan for ever."""

    period_s: ClassVar[float] = 20.0

    def decide(self, plan: Plan, seen: Seen) -> PeriodDecision:
        """Leave everything as it is."""
        return PeriodDecision()

    def standby(self, plan: Plan) -> None:
        """Keep nothing ready."""
