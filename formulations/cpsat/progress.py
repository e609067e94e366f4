"""Incumbent and best bound of an exact search, and its outcome."""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from bench.api import Bound, Outcome, Run, Status
from formulations.cpsat.integers import Weights
from formulations.problem import Problem, bound_on_parts
from instances import Objective, Plan
from instances.one_gpu import Pattern

ROUNDING = 1e-12
"""Relative allowance of a bound for sums of floating-point numbers."""

NO_PLAN_IN_TIME = "no plan found in the time given"

RESERVE_S = 0.5
"""Seconds reserved for the solver's overrun and the steps after it; at most a tenth of the remaining time."""


def solver_deadline(run: Run, part: float = 1.0, reserved_s: float = 0.0) -> float:
    """Return the ``time.monotonic()`` value at which a solver must stop.

    The solver may use ``part`` of the remaining time without ``reserved_s``.
    """
    remaining_s = run.remaining_s
    if math.isinf(remaining_s):
        return remaining_s
    return time.monotonic() + part * (remaining_s - reserved_s - min(RESERVE_S, 0.1 * remaining_s))


@dataclass
class CpSatProgress:
    """Incumbent and bound in integers; each improvement is reported.

    Attributes
    ----------
    weights
        Conversion between the integers and the unit of the objective.
    worth_of
        Function that returns the integer objective of patterns.
    patterns, plan, worth
        The incumbent, and its integer objective; ``plan`` is ``None`` before there is one.
    bound
        Best bound, including bounds of CP-SAT.
    certified_bound
        Best bound that is proven without CP-SAT, or confirmed by a second proof.
    """

    problem: Problem
    run: Run
    weights: Weights
    worth_of: Callable[[Sequence[Pattern]], int]
    patterns: Sequence[Pattern] = ()
    plan: Plan | None = None
    worth: int = 0
    bound: int | None = None
    certified_bound: int | None = None
    statistics: dict[str, float] = field(default_factory=dict)

    @property
    def sense(self) -> int:
        """1 if the objective is maximised, -1 if it is minimised."""
        return -1 if self.problem.instance.objective.minimised else 1

    @property
    def proven(self) -> bool:
        """Whether the incumbent reaches the bound."""
        return self.plan is not None and self.bound == self.worth

    def accept(self, patterns: Sequence[Pattern]) -> None:
        """Make feasible patterns the incumbent if they are better."""
        patterns = self.problem.trimmed(patterns)
        worth = self.worth_of(patterns)
        if self.plan is None or self.sense * (worth - self.worth) > 0:
            self.patterns, self.worth, self.plan = patterns, worth, self.problem.plan(patterns)
            self.run.report(plan=self.plan)

    def improve_bound(self, bound: int, certified: bool = False) -> None:
        """Record and report a bound on all plans that are better than the incumbent, if it is tighter.

        ``certified`` says whether the bound is proven without CP-SAT.
        """
        if self.plan is not None:
            bound = self.sense * max(self.sense * bound, self.sense * self.worth)
        if certified and self._tighter(bound, self.certified_bound):
            self.certified_bound = bound
        if self._tighter(bound, self.bound):
            self.bound = bound
            self.run.report(bound=self.best_bound())

    def _tighter(self, bound: int, reference: int | None) -> bool:
        return reference is None or self.sense * (reference - bound) > 0

    def best_bound(self) -> Bound | None:
        """Return the best bound in the unit of the objective; for an optimal plan, the plan's own value."""
        if self.bound is None:
            return None
        if self.proven and self.weights.exact:
            return self._bound(self.value())
        return self._bound(self.weights.value(self.bound) * (1.0 + self.sense * ROUNDING))

    def _bound(self, value: float) -> Bound:
        split = self.problem.split
        bound = bound_on_parts(value, self.problem.instance, split) if split else Bound(value, certified=True)
        return replace(bound, certified=self.bound == self.certified_bound)

    def value(self) -> float:
        """Return the plan's value, summed as the judge does."""
        assert self.plan is not None
        if self.problem.instance.objective is Objective.COST:
            return self.problem.instance.cost_per_hour(self.plan.gpus)
        return math.fsum(slot.rate_rps for _, _, slot in self.plan.slots())

    def outcome(self, doubt: str = "") -> Outcome:
        """Return the outcome; ``doubt`` says why a claim of CP-SAT is not confirmed."""
        if self.plan is not None:
            proven = self.proven and self.bound == self.certified_bound
            status = Status.OPTIMAL if proven else Status.FEASIBLE
            return Outcome(status, self.plan, self.best_bound(), self.statistics, doubt)
        return Outcome(Status.UNKNOWN, None, self.best_bound(), self.statistics, doubt or NO_PLAN_IN_TIME)
