"""The scheduler ``colgen``: certified bounds and near-optimal plans by column generation."""

from dataclasses import dataclass
from typing import ClassVar

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.bounds import most_served
from formulations.colgen.clock import clocked
from formulations.colgen.solution import GENERATIONS, Solution
from formulations.colgen.spatial.scale import largest_scale
from formulations.colgen.split.by_share import solve_split_by_share
from formulations.colgen.split.generation import SPLIT_GENERATIONS, split_obstacle
from formulations.colgen.split.solution import SplitSolution
from formulations.colgen.temporal.generation import bound_on_turns, turns_obstacle
from instances import Instance, Objective, PlanClass
from instances.least_shares import premises_hold
from instances.suites import suite
from instances.tables import gpu_tables

PREMISE = "a demand falls as the share grows, or interference shortens a latency: no bound would hold"


@dataclass(frozen=True, slots=True)
class ColGen:
    """Column generation over GPU patterns: certified bounds and near-optimal plans.

    A work limit counts the nodes of the pricing searches. Other long operations count as the number of nodes that take
    about as long (``formulations.colgen.clock``).

    Attributes
    ----------
    plan_class
        Class of the plans that are searched and bounded. For ``spatio-temporal`` only a bound is computed.
    integer_fraction
        Fraction of the remaining time that one solve of the restricted master over integers may take.
    """

    name: ClassVar[str] = "colgen"
    objectives: ClassVar[frozenset[Objective]] = frozenset({*GENERATIONS, Objective.SCALE})

    work_unit: ClassVar[str] = "pricing nodes"

    plan_class: PlanClass = PlanClass.SPATIAL
    integer_fraction: float = 0.5

    def __post_init__(self) -> None:
        if not 0.0 < self.integer_fraction <= 1.0:
            raise ValueError("integer_fraction: expected a number above 0 and at most 1")

    def warm(self) -> None:
        """Import the solver and load the compiled kernels."""
        for instance in suite("smoke").build():
            if instance.objective in self.objectives:
                self.schedule(instance, Run())

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Compute a bound by column generation, then integer solutions, until optimal or out of time or work."""
        with clocked(run) as terms:
            return self._solved(instance, terms)

    def _solved(self, instance: Instance, run: Run) -> Outcome:
        by_share = instance.slo_rule.by_share
        if by_share and self.plan_class is PlanClass.SPATIO_TEMPORAL:
            asked = f"{self.plan_class} plans under {instance.objective}"
            return Outcome(Status.UNKNOWN, reason=f"no bound is known for {asked} and {instance.slo_rule}")
        for pool in instance.gpus:
            if not premises_hold(gpu_tables(pool.type, instance.performance_model)):
                return Outcome(Status.UNKNOWN, reason=f"{pool.type.name}: {PREMISE}")
        if self.plan_class is PlanClass.SPLIT:
            obstacle = split_obstacle(instance)
            if obstacle:
                return Outcome(Status.UNKNOWN, reason=obstacle)
            if by_share:
                return solve_split_by_share(instance, run, self.integer_fraction)
            return SplitSolution(SPLIT_GENERATIONS[instance.objective](instance, run), self.integer_fraction).solve()
        if self.plan_class is PlanClass.SPATIO_TEMPORAL:
            obstacle = turns_obstacle(instance)
            return Outcome(Status.UNKNOWN, reason=obstacle) if obstacle else bound_on_turns(instance, run)
        if instance.objective is Objective.SCALE:
            return largest_scale(instance, run, self.integer_fraction)
        try:
            generation = GENERATIONS[instance.objective](instance, run)
        except TimeoutError as late:
            served = instance.objective is Objective.GOODPUT
            bound = Bound(most_served(instance), True, PlanClass.SPATIAL) if served else None
            return Outcome(Status.UNKNOWN, bound=bound, reason=str(late))
        return Solution(generation, self.integer_fraction).solve()
