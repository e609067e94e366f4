"""Column generation for ``split`` under rules whose budget depends on the share: parts are multiples of a step.

Column generation without splitting comes first: its plan, patterns and duals are close to those with splitting.
"""

from dataclasses import replace
from typing import ClassVar

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.bounds import most_served
from formulations.colgen.clock import alone, now
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.restricted_master import Pattern
from formulations.colgen.solution import Solution
from formulations.colgen.spatial.generation import CostGeneration, GoodputGeneration
from instances import Instance, Objective, PlanClass
from instances.arrays import Floats

WHOLE_TIME_FRACTION = 0.3
"""Fraction of the time for column generation without splitting."""


class _SplitByShare(ColumnGeneration):
    """Base of both objectives: every workload is divisible; ``whole`` is the run without splitting."""

    plan_class: ClassVar[PlanClass] = PlanClass.SPLIT
    brackets: ClassVar[bool] = True

    def __init__(self, instance: Instance, run: Run, whole: Solution) -> None:
        self.whole = whole
        super().__init__(instance, run)

    def find_divisible(self) -> frozenset[int]:
        """Return all workloads."""
        return frozenset(range(len(self.instance.workloads)))

    def initial_columns(self) -> None:
        """Also add the patterns of the run without splitting."""
        super().initial_columns()
        self.add(self.whole.generation.master.patterns)

    def starts(self) -> list[list[Pattern]]:
        """Return initial solutions, with the plan of the run without splitting."""
        return [*super().starts(), *self.start_from(self.whole.plan)]


class SplitCostByShareGeneration(_SplitByShare, CostGeneration):
    """Column generation for ``cost``: cover every workload with the cheapest GPUs, split where that is cheaper."""

    def first_duals(self, shares: list[Floats]) -> Floats:
        """Return the duals of the run without splitting, if it has any."""
        relaxation = self.whole.generation.relaxation
        if relaxation is None:
            return super().first_duals(shares)
        return relaxation.workload_dual[self.whole.generation.class_of]


class SplitGoodputByShareGeneration(_SplitByShare, GoodputGeneration):
    """Column generation for ``goodput``: serve the most requests, with every workload split where that serves more."""


class _SplitByShareSolution(Solution):
    """Run that gives most of its time to the bound: the plan without splitting, its start, is hardly worse."""

    pattern_fraction: ClassVar[float] = 0.9


def solve_split_by_share(instance: Instance, run: Run, integer_fraction: float) -> Outcome:
    """Solve an instance of objective cost or goodput without splitting, then with it; see ``ColGen``."""
    costs = instance.objective is Objective.COST
    outcome = Outcome(Status.UNKNOWN)
    try:
        unheard = alone(run, now() + WHOLE_TIME_FRACTION * run.remaining_s)
        whole = Solution((CostGeneration if costs else GoodputGeneration)(instance, unheard), integer_fraction)
        outcome = whole.solve()
        run.report(plan=outcome.plan)
        kind = SplitCostByShareGeneration if costs else SplitGoodputByShareGeneration
        return _SplitByShareSolution(kind(instance, run, whole), integer_fraction).solve()
    except TimeoutError as late:
        status = Status.UNKNOWN if outcome.plan is None else Status.FEASIBLE
        bound = None if costs else Bound(most_served(instance), True, plan_class=PlanClass.SPLIT)
        return replace(outcome, status=status, bound=bound, reason=str(late))
