"""Column generation for ``split`` under rules whose budget depends on the share: parts are multiples of a step."""

from typing import ClassVar

from formulations.colgen.clock import alone, now
from formulations.colgen.column_generation import ColumnGeneration
from formulations.colgen.restricted_master import Pattern
from formulations.colgen.solution import Solution
from formulations.colgen.spatial.generation import CostGeneration, GoodputGeneration
from instances import Objective, Plan, PlanClass
from instances.arrays import Floats

SEED_TIME_FRACTION = 0.4
"""Fraction of the time for the plan, patterns and duals without splitting."""


class SplitCostByShareGeneration(CostGeneration):
    """Column generation for ``cost``: cover every workload with the cheapest GPUs, split where that is cheaper."""

    plan_class: ClassVar[PlanClass] = PlanClass.SPLIT

    def find_divisible(self) -> frozenset[int]:
        """Return all workloads."""
        return frozenset(range(len(self.instance.workloads)))

    def first_duals(self, shares: list[Floats]) -> Floats:
        """Return the duals without splitting, whose plan and patterns are added; the base's if time was too short."""
        self._whole: Plan | None = None
        deadline = now() + SEED_TIME_FRACTION * self.run.remaining_s
        try:
            narrow = CostGeneration(self.instance, alone(self.run, deadline))
        except TimeoutError:
            return super().first_duals(shares)
        solution = Solution(narrow, 0.5)
        solution.solve()
        self._whole = solution.plan
        self.add(narrow.master.patterns)
        if narrow.relaxation is None:
            return super().first_duals(shares)
        return narrow.relaxation.workload_dual[narrow.class_of]

    def starts(self) -> list[list[Pattern]]:
        """Return initial solutions: also the plan without splitting."""
        return [*super().starts(), *([] if self._whole is None else self.start_from(self._whole))]


class SplitGoodputByShareGeneration(GoodputGeneration):
    """Column generation for ``goodput``: serve the most requests, with every workload split where that serves more."""

    plan_class: ClassVar[PlanClass] = PlanClass.SPLIT

    def find_divisible(self) -> frozenset[int]:
        """Return all workloads."""
        return frozenset(range(len(self.instance.workloads)))


SPLIT_GENERATIONS_BY_SHARE: dict[Objective, type[ColumnGeneration]] = {
    Objective.COST: SplitCostByShareGeneration,
    Objective.GOODPUT: SplitGoodputByShareGeneration,
}
