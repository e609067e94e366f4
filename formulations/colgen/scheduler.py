"""The scheduler ``colgen``: certified bounds and near-optimal plans by column generation."""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import ClassVar

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.bounds import most_served
from formulations.colgen.clock import alone, clocked, now
from formulations.colgen.spatial.scale import largest_scale
from formulations.colgen.spatial.solution import OBJECTIVES, whole_solution
from formulations.colgen.split.by_share import solve_split_by_share
from formulations.colgen.split.problem import OBJECTIVES as SPLIT_OBJECTIVES
from formulations.colgen.split.problem import split_obstacle
from formulations.colgen.split.solution import split_solution
from formulations.colgen.temporal.solution import solve_in_turns, turns_obstacle
from instances import Instance, Objective, Plan, PlanClass
from instances.least_shares import premises_satisfied
from instances.suites import suite
from instances.tables import gpu_tables

PREMISE = "a demand falls as the share grows, or interference shortens a latency: no bound would hold"

NARROWER_TIME_FRACTION = 0.3
"""Fraction of the remaining time for a narrower class of plans, whose plan is then a start."""


class SearchedClass(StrEnum):
    """Class of the plans that are searched; ``auto`` is ``spatial``, and then the widest that the rule allows."""

    SPATIAL = PlanClass.SPATIAL.value
    SPLIT = PlanClass.SPLIT.value
    SPATIO_TEMPORAL = PlanClass.SPATIO_TEMPORAL.value
    AUTO = "auto"


@dataclass(frozen=True, slots=True)
class ColGen:
    """Column generation over GPU patterns: certified bounds and near-optimal plans.

    A work limit counts the nodes of the pricing searches. Other long operations count as the number of nodes that take
    about as long (``formulations.colgen.clock``).

    Attributes
    ----------
    plan_class
        Class of the plans that are searched and bounded.
    integer_fraction
        Fraction of the remaining time that one solve of the restricted master over integers may take.
    """

    name: ClassVar[str] = "colgen"
    objectives: ClassVar[frozenset[Objective]] = OBJECTIVES | {Objective.SCALE}

    work_unit: ClassVar[str] = "pricing nodes"

    plan_class: SearchedClass = SearchedClass.SPATIAL
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
        for pool in instance.gpus:
            if not premises_satisfied(gpu_tables(pool.type, instance.performance_model)):
                return Outcome(Status.UNKNOWN, reason=f"{pool.type.name}: {PREMISE}")
        match self.plan_class:
            case SearchedClass.SPATIAL:
                return self._spatial(instance, run)
            case SearchedClass.SPLIT:
                return self._split(instance, run)
            case SearchedClass.SPATIO_TEMPORAL:
                return self._in_turns(instance, run)
            case SearchedClass.AUTO:
                return self._widest(instance, run)

    def _spatial(self, instance: Instance, run: Run) -> Outcome:
        """Solve for plans with one slot per gpulet, each workload on one GPU."""
        if instance.objective is Objective.SCALE:
            return largest_scale(instance, run, self.integer_fraction)
        try:
            solution = whole_solution(instance, run, self.integer_fraction)
        except TimeoutError as late:
            served = instance.objective is Objective.GOODPUT
            bound = Bound(most_served(instance), True, plan_class=PlanClass.SPATIAL) if served else None
            return Outcome(Status.UNKNOWN, bound=bound, reason=str(late))
        return solution.solve()

    def _split(self, instance: Instance, run: Run) -> Outcome:
        """Solve for plans with one slot per gpulet; workloads may be split."""
        by_parts = instance.objective in SPLIT_OBJECTIVES
        obstacle = split_obstacle(instance) if by_parts else turns_obstacle(instance, PlanClass.SPLIT)
        if obstacle:
            return Outcome(Status.UNKNOWN, reason=obstacle)
        if not by_parts:
            return solve_in_turns(instance, run, PlanClass.SPLIT, self._spatial(instance, _part_of(run)).plan)
        if instance.slo_rule.by_share:
            return solve_split_by_share(instance, run, self.integer_fraction)
        known = split_solution(instance, run, self.integer_fraction).solve()
        if known.status is not Status.FEASIBLE or run.remaining_s <= 0.0 or turns_obstacle(instance):
            return known
        return _better(instance, known, solve_in_turns(instance, run, PlanClass.SPLIT, known.plan))

    def _in_turns(self, instance: Instance, run: Run) -> Outcome:
        """Solve for plans whose slots take turns; the first plan is one without turns."""
        obstacle = turns_obstacle(instance)
        if obstacle:
            return Outcome(Status.UNKNOWN, reason=obstacle)
        solve = self._split if instance.objective in SPLIT_OBJECTIVES else self._spatial
        return solve_in_turns(instance, run, PlanClass.SPATIO_TEMPORAL, solve(instance, _part_of(run)).plan)

    def _widest(self, instance: Instance, run: Run) -> Outcome:
        """Solve for spatial plans, then for the widest class that the rule allows; all bounds are in the statistics."""
        spatial = self._spatial(instance, replace(run, deadline=now() + run.remaining_s / 2.0))
        if not turns_obstacle(instance):
            solve = self._in_turns
        elif not split_obstacle(instance):
            solve = self._split
        else:
            return spatial
        start = run.start if spatial.plan is None else spatial.plan
        widest = solve(instance, replace(run, start=start))
        proven = {} if spatial.bound is None else {"spatial_bound": spatial.bound.value}
        proven["spatial_optimal"] = float(spatial.status is Status.OPTIMAL)
        return replace(widest, statistics={**widest.statistics, **proven})


def _better(instance: Instance, first: Outcome, second: Outcome) -> Outcome:
    """Return the second result, which starts from the first one's plan, with the better of both bounds."""
    bounds = [outcome.bound for outcome in (first, second) if outcome.bound is not None]
    least = instance.objective.minimised
    bound = sorted(bounds, key=lambda bound: bound.value, reverse=least)[0] if bounds else None
    proof = second.proof or first.proof
    return replace(second, bound=bound, statistics={**first.statistics, **second.statistics}, proof=proof)


def _part_of(run: Run) -> Run:
    """Return a run for a narrower class: it has part of the time, and reports plans but no bounds."""

    def pass_on(plan: Plan | None, bound: Bound | None) -> None:
        if plan is not None:
            run.report(plan=plan)

    deadline = now() + NARROWER_TIME_FRACTION * run.remaining_s
    return replace(alone(run, deadline), start=run.start, listener=pass_on)
