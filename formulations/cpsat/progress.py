"""Incumbent and best bound of an exact search, and its outcome."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from bench.api import Bound, Outcome, Run, Status
from formulations.cpsat.integers import Weights
from formulations.problem import Group, Problem, bound_on_parts
from instances import Objective, Plan

ROUNDING = 1e-12
"""Relative allowance of a bound for sums of floating-point numbers."""

NO_PLAN_IN_TIME = "no plan found in the time given"

RESERVE_S = 0.5
"""Seconds reserved for the solver's overrun and the steps after it; at most a tenth of the remaining time."""


def solver_deadline(run: Run, part: float = 1.0) -> float:
    """Return the ``time.monotonic()`` value at which a solver that may use ``part`` of the remaining time must stop."""
    left = run.remaining_s
    if math.isinf(left):
        return left
    return time.monotonic() + part * (left - min(RESERVE_S, 0.1 * left))


@dataclass
class CpSatProgress:
    """Incumbent and bound in integers; each improvement is reported.

    Attributes
    ----------
    weights
        Conversion between the integers and the unit of the objective.
    worth_of
        Function that returns the integer objective of groups.
    """

    problem: Problem
    run: Run
    weights: Weights
    worth_of: Callable[[Sequence[Group]], int]
    groups: Sequence[Group] = ()
    plan: Plan | None = None
    worth: int = 0
    bound: int | None = None
    statistics: dict[str, float] = field(default_factory=dict)

    @property
    def sense(self) -> int:
        """1 if the objective is maximised, -1 if it is minimised."""
        return -1 if self.problem.instance.objective.minimised else 1

    @property
    def proven(self) -> bool:
        """Whether the incumbent reaches the bound."""
        return self.plan is not None and self.bound == self.worth

    def accept(self, groups: Sequence[Group]) -> None:
        """Make feasible groups the incumbent if they are better."""
        groups = self.problem.trimmed(groups)
        worth = self.worth_of(groups)
        if self.plan is None or self.sense * (worth - self.worth) > 0:
            self.groups, self.worth, self.plan = groups, worth, self.problem.plan(groups)
            self.run.report(plan=self.plan)

    def improve_bound(self, bound: int) -> None:
        """Record and report a bound on all plans that are better than the incumbent, if it is tighter."""
        if self.plan is not None:
            bound = self.sense * max(self.sense * bound, self.sense * self.worth)
        if self.bound is None or self.sense * (self.bound - bound) > 0:
            self.bound = bound
            self.run.report(bound=self.certified())

    def certified(self) -> Bound | None:
        """Return the bound in the unit of the objective; for an optimal plan, the plan's own value."""
        if self.bound is None:
            return None
        if self.proven and self.weights.exact:
            return self._bound(self._value())
        return self._bound(self.weights.value(self.bound) * (1.0 + self.sense * ROUNDING))

    def _bound(self, value: float) -> Bound:
        split = self.problem.split
        return bound_on_parts(value, self.problem.instance, split) if split else Bound(value, certified=True)

    def _value(self) -> float:
        """Return the plan's value, summed as the judge does."""
        assert self.plan is not None
        if self.problem.instance.objective is Objective.COST:
            return self.problem.instance.cost_per_hour(self.plan.gpus)
        return math.fsum(slot.rate_rps for _, _, slot in self.plan.slots())

    def outcome(self, infeasible: str = "") -> Outcome:
        """Return the outcome; ``infeasible`` is the reason if infeasibility is proven."""
        if self.plan is not None:
            status = Status.OPTIMAL if self.proven else Status.FEASIBLE
            return Outcome(status, self.plan, self.certified(), self.statistics)
        if infeasible:
            return Outcome(Status.INFEASIBLE, statistics=self.statistics, reason=infeasible)
        return Outcome(Status.UNKNOWN, None, self.certified(), self.statistics, NO_PLAN_IN_TIME)
