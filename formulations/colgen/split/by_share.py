"""Column generation for ``split`` under rules whose budget depends on the share: parts are multiples of a step.

Column generation without splitting comes first; its plan, patterns and duals are close to those with splitting.
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
    """Part that both objectives share: every workload is divisible, and the patterns without splitting come first."""

    plan_class: ClassVar[PlanClass] = PlanClass.SPLIT
    brackets: ClassVar[bool] = True

    def __init__(self, instance: Instance, run: Run, whole: Solution | None) -> None:
        self.whole = whole
        super().__init__(instance, run)

    def find_divisible(self) -> frozenset[int]:
        """Return all workloads."""
        return frozenset(range(len(self.instance.workloads)))

    def initial_columns(self) -> None:
        """Add the patterns without splitting as well."""
        super().initial_columns()
        self.add([] if self.whole is None else self.whole.generation.master.patterns)

    def starts(self) -> list[list[Pattern]]:
        """Return initial solutions: also the plan without splitting."""
        whole = None if self.whole is None else self.whole.plan
        return [*super().starts(), *([] if whole is None else self.start_from(whole))]


class SplitCostByShareGeneration(_SplitByShare, CostGeneration):
    """Column generation for ``cost``: cover every workload with the cheapest GPUs, split where that is cheaper."""

    def first_duals(self, shares: list[Floats]) -> Floats:
        """Return the duals without splitting."""
        if self.whole is None or self.whole.generation.relaxation is None:
            return super().first_duals(shares)
        return self.whole.generation.relaxation.workload_dual[self.whole.generation.class_of]


class SplitGoodputByShareGeneration(_SplitByShare, GoodputGeneration):
    """Column generation for ``goodput``: serve the most requests, with every workload split where that serves more."""


class _SplitByShareSolution(Solution):
    """Run that begins with the plan without splitting, which is hardly worse: most of the time goes to the bound."""

    pattern_fraction: ClassVar[float] = 0.9


def solve_split_by_share(instance: Instance, run: Run, integer_fraction: float) -> Outcome:
    """Solve an instance without splitting, then with it.

    Parameters
    ----------
    instance
        Instance of objective cost or goodput.
    run
        Limits of the run.
    integer_fraction
        See ``ColGen``.
    """
    costs = instance.objective is Objective.COST
    outcome, whole = Outcome(Status.UNKNOWN), None
    try:
        unheard = alone(run, now() + WHOLE_TIME_FRACTION * run.remaining_s)
        whole = Solution((CostGeneration if costs else GoodputGeneration)(instance, unheard), integer_fraction)
        outcome = whole.solve()
        run.report(plan=outcome.plan)
        kind = SplitCostByShareGeneration if costs else SplitGoodputByShareGeneration
        return _SplitByShareSolution(kind(instance, run, whole), integer_fraction).solve()
    except TimeoutError as late:
        status = Status.UNKNOWN if outcome.plan is None else Status.FEASIBLE
        bound = None if costs else Bound(most_served(instance), True, PlanClass.SPLIT)
        return replace(outcome, status=status, bound=bound, reason=str(late))
