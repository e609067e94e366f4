"""The scheduler ``colgen``: certified bounds and near-optimal plans by column generation.

A run consists of a problem, which states the patterns of a class of plans, and a list of passes (``Solution``).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import partial
from math import inf
from typing import ClassVar

import numpy as np

from bench.api import Bound, Duals, Outcome, ProofNode, Run, Status
from formulations.colgen.branching import BranchedProblem, branch_and_price
from formulations.colgen.capacity.problem import CapacityProblem
from formulations.colgen.clock import clocked, now, subproblem_run, work_done
from formulations.colgen.column_generation import most_served
from formulations.colgen.full_rates import (
    bound_of_least_shares,
    packed_at_full_rates,
    packed_by_few_batches,
    serves_everything,
)
from formulations.colgen.integer_passes import (
    close,
    dive,
    dive_at_random,
    dive_by_weight,
    dive_repeatedly,
    round_briefly,
)
from formulations.colgen.solution import ColumnGeneration, Pass, Solution
from formulations.colgen.spatial.packing import Packer, pack
from formulations.colgen.spatial.problem import SpatialProblem, served_by_none
from formulations.colgen.split.problem import OBJECTIVES as SPLIT_OBJECTIVES
from formulations.colgen.split.problem import SplitProblem, split_obstacle
from formulations.colgen.split.uncovered import Uncovered
from formulations.colgen.temporal.solution import solve_in_turns, turns_obstacle
from formulations.colgen.valued import valued_solution
from formulations.scale import ScaleBisection, impossible_scale
from instances import SCALE_STEP, Instance, Objective, Plan, PlanClass
from instances.configurations import rates_at
from instances.least_shares import premises_satisfied
from instances.suites import suite
from instances.tables import gpu_tables

PREMISE = "a demand falls as the share grows, or interference shortens a latency: no bound would hold"

NARROWER_TIME_FRACTION = 0.3
"""Fraction of the remaining time for a narrower class of plans, whose plan is then a start."""

UNSPLIT_TIME_FRACTION, PATTERN_FRACTION = 0.3, 0.9
"""Fractions of the time under budgets by share: for column generation without splitting, then for patterns and bound
with splitting. The plan without splitting, a start, is hardly worse."""

PATIENCE = 20
"""Number of dives for split plans without a better one after which the run ends."""

TO_WHOLE_GPUS: Sequence[Pass] = (round_briefly, dive_by_weight)
BOTH_RELAXATIONS: Sequence[Pass] = (*TO_WHOLE_GPUS, round_briefly, Solution.relax, *TO_WHOLE_GPUS)
THROUGHPUT_PASSES: Sequence[Pass] = (*BOTH_RELAXATIONS, round_briefly, close)


class SearchedClass(StrEnum):
    """Class of the plans that are searched; ``auto`` is first ``spatial``, then the widest that the SLO rule allows."""

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
    certify
        Whether a run goes on if only the enumeration of patterns has proven a spatial plan optimal. This proof has no
        certificate, so the run searches for duals or a branching tree that prove the same.
    """

    name: ClassVar[str] = "colgen"
    objectives: ClassVar[frozenset[Objective]] = frozenset(
        {Objective.COST, Objective.GOODPUT, Objective.CAPACITY, Objective.SCALE}
    )

    work_unit: ClassVar[str] = "pricing nodes"

    plan_class: SearchedClass = SearchedClass.SPATIAL
    integer_fraction: float = 0.5
    certify: bool = False

    def __post_init__(self) -> None:
        if not 0.0 < self.integer_fraction <= 1.0:
            raise ValueError("integer_fraction: expected a number above 0 and at most 1")

    def warm(self, objective: Objective) -> None:
        """Import the solver and load the compiled kernels of an objective."""
        for instance in suite("smoke").build():
            if instance.objective is objective:
                self.schedule(instance, Run())
            if instance.objective is Objective.COST and objective is not Objective.CAPACITY:
                Packer(SpatialProblem(instance), 0).warm()

    def warm_pricing(self) -> None:
        """Load the compiled kernels of pricing under ``cost``, which take the longest to compile."""
        for instance in suite("smoke").build():
            if instance.objective is Objective.COST:
                list(SpatialProblem(instance, inf).first_prices(Run()))

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Compute a bound by column generation, then integer solutions, until optimal or out of time or work."""
        with clocked(run) as clocked_run:
            return self._solved(instance, clocked_run)

    def most_valuable(self, instance: Instance, value: Sequence[float], whole: Sequence[str], run: Run) -> Outcome:
        """Compute a plan that serves the most value per second on a fixed pool, and a bound on this value.

        Workloads may be served in part, in steps of ``GOODPUT_STEP``, or not at all.

        Parameters
        ----------
        instance
            Instance with the objective ``goodput``.
        value
            Value of a served request of each workload, greater than 0; the bound is in units of it per second.
        whole
            Ids of the workloads that are served at their full rate or not at all, unless no GPU alone serves them.
        run
            The compilation of kernels does not count as time.
        """
        positions = frozenset(instance.workload_index[name] for name in whole)
        with clocked(run, without_compilation=True) as clocked_run:
            try:
                values = np.array(value, dtype=np.float64)
                passes = tuple(THROUGHPUT_PASSES)
                return valued_solution(instance, values, positions, clocked_run, passes, self.integer_fraction).solve()
            except TimeoutError as late:
                return Outcome(Status.UNKNOWN, reason=str(late))

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
            return _largest_scale(instance, run, self.integer_fraction, self.certify)
        packed, bound = None, None
        proof: list[ProofNode] = []
        if instance.objective is Objective.GOODPUT:
            bound = Bound(most_served(instance), True, plan_class=PlanClass.SPATIAL)
            packed = packed_at_full_rates(instance, run)
            if packed is not None and serves_everything(instance, packed):
                # Charges of the full rates leave no GPU any worth.
                rate_rps = tuple(workload.rate_rps for workload in instance.workloads)
                paid, bound = Duals(rate_rps, (0.0,) * len(instance.gpus)), replace(bound, value=math.fsum(rate_rps))
                run.report(packed, bound)
                return Outcome(Status.OPTIMAL, packed, bound, {"work": work_done()}, proof=[paid])
            run.report(packed, bound)
        elif instance.objective is Objective.COST and instance.slo_rule.by_share:
            if (first := bound_of_least_shares(instance)) is not None:
                bound, proof = first[0], [first[1]]
                run.report(bound=bound)
            packed = packed_by_few_batches(instance, run) if run.start is None else None
        run = replace(run, start=run.start or packed)
        try:
            solution = spatial_solution(instance, run, self.integer_fraction, self.certify)
        except TimeoutError as late:
            status = Status.UNKNOWN if packed is None else Status.FEASIBLE
            return Outcome(status, packed, bound, {"work": work_done()}, str(late), proof)
        generation = solution.generation
        if proof and bound is not None and bound.value > generation.bound:
            generation.bound = generation.dual_bound = bound.value
            generation.proof = proof
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
            return _solve_split_by_share(instance, run, self.integer_fraction)
        outcome = _split_solution(instance, run, self.integer_fraction).solve()
        if outcome.status is not Status.FEASIBLE or run.remaining_s <= 0.0 or turns_obstacle(instance):
            return outcome
        return _better(instance, outcome, solve_in_turns(instance, run, PlanClass.SPLIT, outcome.plan))

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
    return replace(subproblem_run(run, deadline), start=run.start, listener=pass_on)


def _with_branching(problem: BranchedProblem, search: Sequence[Pass]) -> Sequence[Pass]:
    """Return the passes: a search for plans before integer programs, and branching at the end."""
    passes = (*BOTH_RELAXATIONS, dive_at_random, close, *search) if problem.minimised else THROUGHPUT_PASSES
    return (*search, *passes, partial(branch_and_price, problem))


def _spatial_run(
    problem: SpatialProblem, run: Run, integer_fraction: float, certify: bool, any_plan: bool = False
) -> Solution:
    """Return the run of a problem; see ``ColGen`` and ``Solution`` for the parameters."""
    passes = _with_branching(problem, (partial(pack, problem),))
    generation = ColumnGeneration(problem, run)
    return Solution(generation, passes, integer_fraction, any_plan=any_plan, certify=passes[-1] if certify else None)


def spatial_solution(instance: Instance, run: Run, integer_fraction: float, certify: bool = False) -> Solution:
    """Return the run for spatial plans under an objective other than ``scale``; for the rest, see ``ColGen``.

    Raises
    ------
    TimeoutError
        If the time is over before pricing begins.
    """
    if instance.objective is Objective.CAPACITY:
        capacity = CapacityProblem(instance)
        passes = _with_branching(capacity, ())
        certifying = passes[-1] if certify else None
        return Solution(ColumnGeneration(capacity, run), passes, integer_fraction, certify=certifying)
    divisible = served_by_none(instance) if instance.objective.minimised else frozenset()
    return _spatial_run(SpatialProblem(instance, run.deadline, divisible), run, integer_fraction, certify)


def _largest_scale(instance: Instance, run: Run, integer_fraction: float, certify: bool) -> Outcome:
    """Bisect the multiples of the rates; a feasibility check on the pool decides each one.

    The result is unknown unless every GPU type has a count. See ``ColGen`` for the other parameters.
    """
    if any(pool.count is None for pool in instance.gpus):
        return Outcome(Status.UNKNOWN, reason="scale needs a number of GPUs for every type of the pool")
    if not instance.workloads:
        return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, True, plan_class=PlanClass.SPATIAL))
    bisection, undecided, impossible = ScaleBisection(instance, run), False, impossible_scale(instance)
    if run.start is not None and (scale := _scale_of(run.start, instance)) > 0:
        outcome = _decide_scale(instance, scale * SCALE_STEP, run, integer_fraction, certify, run.start)
        if outcome.plan is not None:
            bisection.accept(scale, outcome.plan)
    while not (bisection.decided or undecided) and run.remaining_s > 0.0:
        scale = _next_scale(bisection.fits, bisection.fails, impossible)
        outcome = _decide_scale(instance, scale * SCALE_STEP, run, integer_fraction, certify)
        if outcome.plan is not None:
            bisection.accept(scale, outcome.plan)
        elif outcome.status is Status.INFEASIBLE:
            bisection.exclude(scale, outcome.reason, outcome.proof)
        else:
            undecided = True
    bisection.look_below_the_grid(lambda factor: _decide_scale(instance, factor, run, integer_fraction, certify))
    return bisection.outcome("no multiple was decided in time")


def _next_scale(fits: int, fails: int | None, impossible: int) -> int:
    """Return the next scale in steps: the given rates, doubled until they are infeasible, then the middle."""
    if fails is None:
        return max(fits + 1, min(max(round(1.0 / SCALE_STEP), 2 * fits), impossible))
    return (fits + fails) // 2


def _scale_of(plan: Plan, instance: Instance) -> int:
    """Return the largest scale in steps at which a plan serves every workload; 0 if it leaves one out."""
    served_rps = {slot.workload: slot.rate_rps for _, _, slot in plan.slots()}
    part = min(served_rps.get(workload.id, 0.0) / workload.rate_rps for workload in instance.workloads)
    return math.floor(part / SCALE_STEP + 1e-9)


def _decide_scale(
    instance: Instance, factor: float, run: Run, integer_fraction: float, certify: bool, start: Plan | None = None
) -> Outcome:
    """Find a plan at ``factor`` times the rates, or prove that none exists; ``start`` is a plan that may serve them."""
    scaled = replace(instance.scaled(factor), name=instance.name, objective=Objective.COST)
    # The cost problem reports dollars, not multiples of the rates, so its run has no listener.
    silent_run = replace(subproblem_run(run), start=start)
    try:
        # Under ``assembly`` a workload may be planned for a higher rate, which may be easier to serve.
        problem = SpatialProblem(scaled, silent_run.deadline, rates=rates_at(scaled, 1.0))
    except TimeoutError as late:
        return Outcome(Status.UNKNOWN, reason=str(late))
    return _spatial_run(problem, silent_run, integer_fraction, certify, any_plan=True).solve()


def _split_solution(instance: Instance, run: Run, integer_fraction: float) -> Solution:
    """Return the run of an instance for which ``split_obstacle`` names no reason; see ``ColGen`` for the fraction."""
    problem = SplitProblem(instance, partial(spatial_solution, integer_fraction=0.5))
    dive_once = partial(_dive_uncovered, problem)
    to_whole_gpus: Sequence[Pass] = (Solution.round, dive_once, Solution.round)
    dives: Sequence[Pass] = (partial(dive_repeatedly, dive_once, 1.0, PATIENCE),)
    passes = (*to_whole_gpus, Solution.relax, *to_whole_gpus, *dives)
    return Solution(ColumnGeneration(problem, run), passes, integer_fraction)


def _dive_uncovered(problem: SplitProblem, solution: Solution, random: np.random.Generator | None = None) -> None:
    """Fix GPUs one after another, and price for the remaining parts of workloads; repeated dives end by rounding."""
    if not solution.proven():
        solution.accept(dive(Uncovered(problem, solution.generation, random), solution.run))
    if random is not None:
        solution.round()


def _solve_split_by_share(instance: Instance, run: Run, integer_fraction: float) -> Outcome:
    """Solve for ``split`` where budgets depend on the share: parts are multiples of a step.

    Column generation without splitting comes first: its plan, patterns and duals are close to those with splitting.
    """
    outcome = Outcome(Status.UNKNOWN)
    try:
        unsplit_run = subproblem_run(run, now() + UNSPLIT_TIME_FRACTION * run.remaining_s)
        unsplit = spatial_solution(instance, unsplit_run, integer_fraction)
        outcome = unsplit.solve()
        run.report(plan=outcome.plan)
        all_workloads = frozenset(range(len(instance.workloads)))
        problem = SpatialProblem(instance, run.deadline, all_workloads, whole=unsplit.generation)
        generation = ColumnGeneration(problem, run)
        passes = _with_branching(problem, (partial(pack, problem),))
        return Solution(generation, passes, integer_fraction, PATTERN_FRACTION, [unsplit.plan]).solve()
    except TimeoutError as late:
        status = Status.UNKNOWN if outcome.plan is None else Status.FEASIBLE
        bound = None if instance.objective.minimised else Bound(most_served(instance), True, plan_class=PlanClass.SPLIT)
        return replace(outcome, status=status, bound=bound, reason=str(late))
