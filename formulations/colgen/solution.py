"""Run of column generation: master, bound and incumbent, and the passes that improve them."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from bench.api import Bound, Duals, Outcome, ProofNode, Run, Status
from formulations.colgen.claims import excludes_every_plan, is_better, pool_price, proves
from formulations.colgen.clock import now, work_done
from formulations.colgen.column_generation import (
    PatternProblem,
    Smoothing,
    StepResult,
    cost_bound,
    generate,
    value_bound,
)
from formulations.colgen.restricted_master import AggregatedMaster, Priced, Relaxation, RestrictedMaster
from formulations.problem import TOO_FEW, WHOLE
from instances import Plan, PlanClass
from instances.arrays import Floats
from instances.costs import cost_step, next_cost
from instances.one_gpu import Pattern
from instances.workload_classes import served_by

FEWEST_CLASSES, FITTING_PATTERNS, FITTING_GAP = 2, 100, 4e-3
"""Classes per feature from which duals are first fitted to the features, and the patterns per call and gap for this."""

COARSE = 1.5
"""Relative gap between bound and relaxation, in tolerances of pricing, below which the tolerance holds back the bound.

A bound at this tolerance is at least one tolerance away from the relaxation.
"""

GOOD_ENOUGH = 1e-4
"""Relative gap between bound and relaxation at which a throughput objective turns to integer solutions."""

BRANCH_TOLERANCE = 1e-8
"""Relative difference from the best throughput at which the bound of a branch excludes a better one.

Pricing bounds worths, which may be far larger than throughputs, and these bounds are too high by ``MARGIN``.
"""

MOST_GPUS = 1_000_000
"""Largest number of GPUs of a plan that rounding makes."""

Pass = Callable[["Solution"], object]
"""Part of a run; passes after the first relaxation are skipped once the plan is proven optimal."""


class ColumnGeneration:
    """Restricted master of a pattern problem, its relaxation and its bound.

    Attributes
    ----------
    problem
        Rows, cost, pricing and bound of the patterns.
    relaxation
        The last solution of the master's relaxation; ``None`` before the first one.
    tolerance, node_limit
        Exactness of pricing: ``_refine`` halves the first and raises the second.
    bound, proof
        Bound on the instance's own objective, and duals or a tree of them.
    dual_bound
        Bound that the duals prove before branching. ``bound`` is better if enumeration has closed the gap.
    iterations, nodes
        Number of pricing rounds, and of nodes of pricing searches, for the statistics of a run.
    """

    def __init__(self, problem: PatternProblem, run: Run) -> None:
        self.problem, self.instance, self.run = problem, problem.instance, run
        self.master = RestrictedMaster(problem.covering, run.threads)
        self.relaxation: Relaxation | None = None
        self.smoothing = Smoothing(problem.smoothing_weight)
        self.tolerance, self.node_limit = problem.first_tolerance, problem.node_limits[0]
        self.bound = self.dual_bound = problem.trivial_bound
        self.proof: list[ProofNode] = []
        self.iterations, self.nodes = 0, 0
        self._part = run  # with the deadline of the present ``solve``
        self._cut_short = False
        self._fitted = False
        self.add(problem.first_patterns(run))
        for priced, duals in problem.first_prices(run):
            self.learn(priced, duals)

    # The loop ----------------------------------------------------------------------------------------------------

    def generate(self, relax: Callable[[], Relaxation], finished: Callable[[], bool]) -> None:
        """Add patterns that gain at the duals of ``relax()`` until none gains, the time is over, or ``finished()``.

        The node limit and the tolerance of pricing go on from the last call's.
        """
        self.smoothing.weight = self.smoothing.initial
        generate(self._part, self.smoothing, relax, partial(self._step, finished), self._refine)

    def _step(self, finished: Callable[[], bool], relaxation: Relaxation, duals: Relaxation) -> StepResult:
        """Price at the smoothed duals, add the patterns and improve the bound."""
        priced = self.problem.price_patterns(duals, self.tolerance, self.node_limit, self._part.deadline)
        if not any(result.patterns for result in priced):
            # Only a more complete search improves the bound; it takes no longer than all earlier ones.
            priced = self.problem.price_harder(priced, duals, self.tolerance, self.node_limit, self._part, self.nodes)
        self.iterations += 1
        self.nodes += sum(result.nodes for result in priced)
        new = self.learn(priced, duals)
        if finished():
            return "enough"
        patterns = (pattern for result in priced for pattern in result.patterns)
        if new and (self.smoothing.weight == 0.0 or any(self.reduced_cost(p, relaxation) < -1e-9 for p in patterns)):
            return "gain"
        thresholds = [self.problem.threshold(t, duals, self.tolerance) * (1.0 + 1e-12) for t in range(len(priced))]
        self._cut_short = any(result.bound > worth for result, worth in zip(priced, thresholds, strict=True))
        limit = abs(relaxation.value)  # no bound is better, however many patterns are added
        pricing_is_coarse = abs(limit - self.bound) < COARSE * self.tolerance * limit
        return "coarse" if pricing_is_coarse and self.tolerance > self.problem.last_tolerance else "no gain"

    def _refine(self) -> bool:
        """Raise the node limit if it cut the last pricing short, else lower the tolerance; ``False`` at both limits."""
        if self._cut_short and self.node_limit < self.problem.node_limits[1]:
            self.node_limit *= 10
        elif self.tolerance > self.problem.last_tolerance:
            self.tolerance /= 2.0
        else:
            return False
        return True

    def solve(self, finished: Callable[[], bool], until: float = math.inf) -> None:
        """Add patterns until none gains, the time is over, or ``finished()`` reports that the bound is good enough.

        Pricing ends when the clock reads ``until``, even in the middle of a call.
        """
        self._part = replace(self.run, deadline=min(until, self.run.deadline))
        if not self._fitted:
            self._fitted = True
            self._fit_duals(finished)
        self.generate(self.relaxed, finished)

    def _fit_duals(self, finished: Callable[[], bool]) -> None:
        """Find patterns and a stability centre at duals that are a function of few features, if classes are many."""
        features = self.problem.dual_features()
        if features is None or len(features) < FEWEST_CLASSES * features.shape[1]:
            return
        self.relaxed()
        aggregated, limit = AggregatedMaster(self.master, features, self.run.threads), self.problem.patterns_per_call
        self.problem.patterns_per_call = FITTING_PATTERNS
        self.generate(aggregated.relax, lambda: finished() or self.bound >= aggregated.value * (1.0 - FITTING_GAP))
        self.problem.patterns_per_call = limit

    def relaxed(self) -> Relaxation:
        """Solve the relaxation of the master."""
        self.relaxation = self.master.relax()
        return self.relaxation

    def learn(self, priced: list[Priced], duals: Relaxation) -> int:
        """Add the patterns of pricing at ``duals`` and improve the bound; return how many were new or much cheaper."""
        best_worth = np.array([result.bound for result in priced])
        bound = self.bound_from(duals, best_worth)
        if is_better(bound, self.bound, self.instance):
            self.bound, self.dual_bound, self.smoothing.stability_centre = bound, bound, duals
            self.proof = [self.duals(duals, best_worth)]
        return sum(self.add(result.patterns) for result in priced)

    def bound_from(
        self, duals: Relaxation, best_worth: Floats, most: Floats | None = None, least: Floats | float = 0.0
    ) -> float:
        """Return the bound on the objective from duals and an upper bound on the worth of every pattern at them.

        Plans use at most ``most`` GPUs of each type, by default those of the pool, and at least ``least``.
        """
        problem = self.problem
        most = problem.count if most is None else most
        if problem.minimised:
            return cost_bound(duals.workload_dual, problem.copies, best_worth, problem.price, most, least)
        return value_bound(problem.charge(duals), problem.copies, best_worth, most)

    @property
    def master_bound(self) -> float:
        """Bound of the duals on the cost of the master."""
        return self.dual_bound if self.problem.minimised else -self.dual_bound

    def duals(self, relaxation: Relaxation, best_worth: Floats) -> Duals:
        """Return the duals of a bound as a node of its proof."""
        paid = self.problem.charge(relaxation)[self.problem.class_of]
        return Duals(tuple(paid.tolist()), tuple(best_worth.tolist()))

    # Patterns ----------------------------------------------------------------------------------------------------

    def add(self, patterns: Iterable[Pattern | None]) -> int:
        """Add patterns, leaving out ``None``, to the master; return how many were new or became much cheaper."""
        problem = self.problem
        return sum(self.master.add(p, problem.cost(p), problem.amounts(p)) for p in patterns if p is not None)

    def add_plan(self, plan: Plan | None) -> list[Pattern] | None:
        """Add the usable patterns of a plan; return them as a solution, or ``None`` if they are none."""
        if plan is None:
            return None
        patterns = [self.problem.pattern_of(gpu) for gpu in plan.gpus if gpu.gpulets]
        usable = [pattern for pattern in patterns if pattern is not None]
        self.add(usable)
        return usable if len(usable) == len(patterns) and self.problem.complete(usable) else None

    def reduced_cost(self, pattern: Pattern, relaxation: Relaxation) -> float:
        """Return the reduced cost: the pattern's cost minus the duals of its workloads and its pool."""
        paid = float(relaxation.workload_dual @ self.problem.amounts(pattern))
        return self.problem.cost(pattern) - paid - float(relaxation.pool_dual[pattern.pool])

    def of_least_reduced_cost(self, most: int) -> list[Pattern]:
        """Return the patterns of least reduced cost at the optimal duals of the master, at most ``most``."""
        relaxation = self.master.relax()
        return sorted(self.master.patterns, key=lambda p: self.reduced_cost(p, relaxation))[:most]

    def own_slots(self, counts: dict[int, int]) -> dict[int, int]:
        """Return the solution with each slot serving its own workload, where the master had exchanged workloads."""
        problem, patterns = self.problem, self.master.chosen(counts)
        if problem.covering.serves is None or problem.complete(patterns):
            return counts
        serving = problem.serving(patterns, served_by(problem.covering.serves, problem.class_of, patterns))
        self.add(serving)
        return self.master.counts(serving)

    def realise(self, counts: dict[int, int]) -> tuple[float, Plan] | None:
        """Return the cost and the plan of a solution, a number of GPUs by pattern; ``None`` if it makes no plan."""
        patterns = self.master.chosen(counts)
        return self.problem.realise(patterns) if self.problem.complete(patterns) else None


class Solution:
    """One run: the column generation, the incumbent and the best bound.

    Parameters
    ----------
    passes
        Passes after the first relaxation.
    integer_fraction
        See ``ColGen``.
    pattern_fraction
        Fraction of the time for the first relaxation.
    starts
        Plans that may be known, besides the run's start plan.
    any_plan
        Whether the run ends as soon as a plan is found or excluded.
    certify
        Pass that finds duals or a tree of them as a proof, if only the enumeration of patterns closed the gap.

    Attributes
    ----------
    began, patterns_at_rounding
        Reading of the clock at the beginning, and number of patterns when the integer master was last solved.
    """

    def __init__(
        self,
        generation: ColumnGeneration,
        passes: Sequence[Pass],
        integer_fraction: float,
        pattern_fraction: float = 0.5,
        starts: Sequence[Plan | None] = (),
        any_plan: bool = False,
        certify: Pass | None = None,
    ) -> None:
        self.generation, self.passes = generation, passes
        self.instance, self.run = generation.instance, generation.run
        self.minimised = generation.problem.minimised
        self.counts: dict[int, int] | None = None
        self.plan: Plan | None = None
        self.value = math.inf  # of the minimised objective
        self._integer_fraction, self._pattern_fraction = integer_fraction, pattern_fraction
        self._starts, self._any_plan, self._certify = (self.run.start, *starts), any_plan, certify
        self._reported = -math.inf if self.minimised else math.inf
        self.began, self.patterns_at_rounding = now(), 0

    def solve(self) -> Outcome:
        """Run until the plan is proven optimal or time is up."""
        obstacle = self.generation.problem.obstacle(self.generation.master.patterns)
        if obstacle:
            # The duals do not matter: some workload fits on no GPU.
            nothing = Duals((0.0,) * len(self.instance.workloads), (0.0,) * len(self.instance.gpus))
            return Outcome(Status.INFEASIBLE, reason=obstacle, proof=[nothing])
        self.use_known_plans()
        self.relax_at_first()
        for improve in self.passes:
            if self.proven():
                break
            improve(self)
        if self._certify is not None and self._closed_by_enumeration():
            self._certify(self)
        return self._outcome()

    # Passes ------------------------------------------------------------------------------------------------------

    def use_known_plans(self) -> None:
        """Accept the solutions that the problem and the run begin with."""
        problem = self.generation.problem
        complete_solutions = [patterns for patterns in problem.known if problem.complete(patterns)]
        start_solutions = [self.generation.add_plan(plan) for plan in self._starts]
        for patterns in (*complete_solutions, *start_solutions):
            if patterns is not None:
                self.accept(self.generation.master.counts(patterns))
        self.report_bound()

    def relax_at_first(self) -> None:
        """Generate columns for part of the time, until the bound hardly improves."""
        left_s = (1.0 - self._pattern_fraction) * self.run.remaining_s
        # Under ``cost`` a pricing call is not ended early: without it there may be no bound.
        until = math.inf if self.minimised else now() + self.run.remaining_s - left_s
        self.generation.solve(lambda: self.bound_suffices() or self.run.remaining_s < left_s, until)

    def relax(self) -> None:
        """Generate columns until the bound is that of the relaxation."""
        self.generation.solve(lambda: self.bound_suffices(gap=1e-9))

    def round(self, most_s: float = 1e6) -> bool:
        """Solve the restricted master over integers within ``most_s``; return whether it was solved to optimality."""
        if self.proven() or self.run.remaining_s <= 0.0:
            return False
        limit_s = min(self._integer_fraction * self.run.remaining_s, most_s)
        target = next_cost(self.generation.bound, self.instance) if self.minimised else -math.inf
        self.patterns_at_rounding = len(self.generation.master.patterns)
        counts, proven = self.generation.master.integer(limit_s, self.run.seed, self.counts, target)
        self.accept(counts)
        return proven

    # State -------------------------------------------------------------------------------------------------------

    def accept(self, counts: dict[int, int] | None) -> None:
        """Make a solution of the master the incumbent if it is better."""
        if counts is None or sum(counts.values()) > MOST_GPUS:
            return  # where a GPU costs next to nothing, the solver may take any number
        counts = self.generation.own_slots(counts)
        realised = self.generation.realise(counts)
        if realised is not None and realised[0] < self.value:
            self.value, self.plan = realised
            self.counts = counts
            self.run.report(plan=self.plan)

    def proven(self) -> bool:
        """Return whether the bound proves the incumbent optimal, or any plan was enough."""
        if self._any_plan:
            return self.plan is not None or excludes_every_plan(self.generation.bound, self.instance)
        if self.plan is None:
            return False
        value = self.value if self.minimised else -self.value
        return proves(self.generation.bound, value, self.instance, self.generation.problem.proof_tolerance)

    def _closed_by_enumeration(self) -> bool:
        """Return whether the bound is proven, but neither by duals nor by a tree of them."""
        if not self.proven() or (self._any_plan and self.plan is not None) or len(self.generation.proof) > 1:
            return False
        return not self.excludes_better(self.generation.master_bound)

    def worst_of_interest(self) -> float:
        """Return the largest master cost at which a plan is of interest."""
        if self.plan is None:
            return pool_price(self.instance) if self.minimised else 0.0
        return self.value - cost_step(self.instance) if self.minimised else self.value

    def excludes_better(self, bound: float) -> bool:
        """Return whether a bound on the master's cost proves that no plan of interest exists."""
        worst = self.worst_of_interest()
        if self.minimised:
            return next_cost(bound, self.instance) > worst * (1.0 + 1e-9)
        return proves(-bound, -worst, self.instance, BRANCH_TOLERANCE)

    def bound_suffices(self, gap: float = GOOD_ENOUGH) -> bool:
        """Report the bound; return whether more patterns can hardly improve it: a throughput's by the ratio ``gap``."""
        self.report_bound()
        relaxation = self.generation.relaxation
        if relaxation is None or (self._any_plan and self.proven()):
            return True  # the time may be over before the first relaxation
        if self.minimised:
            # No bound exceeds the master's value over all patterns, which is at most its value over the known ones.
            return next_cost(self.generation.bound, self.instance) >= next_cost(relaxation.value, self.instance)
        return self.generation.bound <= -relaxation.value * (1.0 + gap)

    def report_bound(self) -> None:
        """Report the bound of the column generation if it is better than the last one."""
        bound = self._bound()
        if bound is not None and is_better(bound.value, self._reported, self.instance):
            self._reported = bound.value
            self.run.report(bound=bound)

    def _bound(self) -> Bound | None:
        bound = self.generation.bound
        if not math.isfinite(bound) or (bound < 0.0 and not self.minimised):  # no plan exists that it could bound
            return None
        return self.generation.problem.certified(bound)

    def _outcome(self) -> Outcome:
        generation = self.generation
        patterns = len(generation.master.patterns)
        counted = {"iterations": generation.iterations, "nodes": generation.nodes, "patterns": patterns}
        statistics = {**{name: float(number) for name, number in counted.items()}, "work": work_done()}
        if excludes_every_plan(generation.bound, self.instance):
            reason = f"{TOO_FEW}, {WHOLE}" if generation.problem.plan_class is PlanClass.SPATIAL else TOO_FEW
            return Outcome(Status.INFEASIBLE, statistics=statistics, reason=reason, proof=generation.proof)
        status = Status.UNKNOWN if self.plan is None else Status.OPTIMAL if self.proven() else Status.FEASIBLE
        return Outcome(status, self.plan, self._bound(), statistics, proof=generation.proof)
