"""Column generation: the linear relaxation over all patterns, with a certified bound after every iteration."""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from bench.api import Duals, ProofNode, Run
from formulations.colgen.exchanges import served_by
from formulations.colgen.pattern_problem import PatternProblem, is_better
from formulations.colgen.restricted_master import AggregatedMaster, Priced, Relaxation, RestrictedMaster
from formulations.pattern import Pattern
from instances import PART_STEPS, Plan
from instances.arrays import Floats

FEWEST_CLASSES, FITTING_PATTERNS, FITTING_GAP = 2, 100, 4e-3
"""Classes per feature from which duals are first fitted to the features, and the patterns per call and gap for this."""

CLOSING_ROOM = 1e-6
"""Relative tolerance for the rounding of reduced costs when every pattern below a reduced cost is added."""


StepResult = Literal["gain", "no gain", "enough"]
"""Result of a step: a column gains at the master's own duals, none does, or the bound is good enough."""


@dataclass(slots=True)
class Smoothing:
    """Smoothing of the duals towards the stability centre, the duals of the best bound (Wentges).

    Without it the master's own duals oscillate in the first iterations.

    Attributes
    ----------
    initial
        Weight of the centre after ``restore``.
    least
        Weight up to which ``weaken`` drops the centre.
    weight
        Weight of the centre's duals against the master's own.
    """

    initial: float
    least: float = 0.2
    weight: float = 0.0
    stability_centre: Relaxation | None = None

    def restore(self) -> None:
        """Set the weight to its initial value."""
        self.weight = self.initial

    def weaken(self) -> None:
        """Halve the weight; set it to 0 once it is small."""
        self.weight = self.weight / 2.0 if self.weight > self.least else 0.0

    def smoothed(self, relaxation: Relaxation) -> Relaxation:
        """Return a solution of the master with smoothed duals."""
        centre, weight = self.stability_centre, self.weight
        if centre is None or weight == 0.0:
            return relaxation
        return replace(
            relaxation,
            workload_dual=weight * centre.workload_dual + (1.0 - weight) * relaxation.workload_dual,
            pool_dual=weight * centre.pool_dual + (1.0 - weight) * relaxation.pool_dual,
        )


def generate(
    run: Run,
    smoothing: Smoothing,
    relax: Callable[[], Relaxation],
    step: Callable[[Relaxation, Relaxation], StepResult],
    refine: Callable[[], bool],
) -> None:
    """Repeat: solve the master, price at smoothed duals, add columns; until the bound suffices or no column gains.

    After a step without gain the smoothing is weakened. If the duals were already the master's own, pricing is refined
    instead.

    Parameters
    ----------
    smoothing
        Smoothing of the duals; ``step`` sets its stability centre.
    step
        Prices at the smoothed duals, its second argument, and adds columns; the first has the master's own duals.
    refine
        Makes pricing more exact; returns whether it could.
    """
    while run.remaining_s > 0.0:
        relaxation = relax()
        match step(relaxation, smoothing.smoothed(relaxation)):
            case "enough":
                return
            case "gain":
                smoothing.restore()
            case "no gain" if smoothing.weight > 0.0:
                smoothing.weaken()
            case "no gain":
                if not refine():
                    return


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
        Bound on the instance's own objective, and its duals or a tree of them.
    iterations, nodes
        Number of pricing rounds, and of nodes of pricing searches, for the statistics of a run.
    """

    def __init__(self, problem: PatternProblem, run: Run) -> None:
        self.problem, self.instance, self.run = problem, problem.instance, run
        self.master = RestrictedMaster(problem.asked, run.threads)
        self.relaxation: Relaxation | None = None
        self.smoothing = Smoothing(problem.smoothing_weight)
        self.tolerance, self.node_limit = problem.first_tolerance, problem.node_limits[0]
        self.bound = problem.trivial_bound
        self.proof: list[ProofNode] = []
        self.iterations, self.nodes = 0, 0
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
        self.smoothing.restore()
        generate(self.run, self.smoothing, relax, partial(self._step, finished), self._refine)

    def _step(self, finished: Callable[[], bool], relaxation: Relaxation, duals: Relaxation) -> StepResult:
        """Price at the smoothed duals, add the patterns and improve the bound."""
        priced = self.problem.price_patterns(duals, self.tolerance, self.node_limit, self.run.deadline)
        self.iterations += 1
        self.nodes += sum(p.nodes for p in priced)
        new = self.learn(priced, duals)
        if finished():
            return "enough"
        found = (pattern for each in priced for pattern in each.patterns)
        if new and (self.smoothing.weight == 0.0 or any(self.reduced_cost(p, relaxation) < -1e-9 for p in found)):
            return "gain"
        least = [self.problem.threshold(t, duals, self.tolerance) * (1.0 + 1e-12) for t in range(len(priced))]
        self._cut_short = any(p.bound > worth for p, worth in zip(priced, least, strict=True))
        return "no gain"

    def _refine(self) -> bool:
        """Raise the node limit if it cut the last pricing short, else lower the tolerance; return whether one moved."""
        if self._cut_short and self.node_limit < self.problem.node_limits[1]:
            self.node_limit *= 10
        elif self.tolerance > self.problem.last_tolerance:
            self.tolerance /= 2.0
        else:
            return False
        return True

    def solve(self, finished: Callable[[], bool]) -> None:
        """Add patterns until none gains, the time is over, or ``finished()`` reports that the bound is good enough."""
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
        aggregated, most = AggregatedMaster(self.master, features, self.run.threads), self.problem.patterns_per_call
        self.problem.patterns_per_call = FITTING_PATTERNS
        self.generate(aggregated.relax, lambda: finished() or self.bound >= aggregated.value * (1.0 - FITTING_GAP))
        self.problem.patterns_per_call = most

    def relaxed(self) -> Relaxation:
        """Solve the relaxation of the master."""
        self.relaxation = self.master.relax()
        return self.relaxation

    def learn(self, priced: list[Priced], duals: Relaxation) -> int:
        """Add the patterns of pricing at ``duals`` and improve the bound; return how many were new or much cheaper."""
        best_worth = np.array([each.bound for each in priced])
        bound = float(self.problem.bound(duals, best_worth))
        if is_better(bound, self.bound, self.instance):
            self.bound, self.smoothing.stability_centre = bound, duals
            self.proof = [self.duals(duals, best_worth)]
        return sum(self.add(each.patterns) for each in priced)

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

    def nearest(self, most: int) -> list[Pattern]:
        """Return the patterns of least reduced cost at the optimal duals of the master, at most ``most``."""
        relaxation = self.master.relax()
        return sorted(self.master.patterns, key=lambda p: self.reduced_cost(p, relaxation))[:most]

    def complete_below(self, worst: float) -> bool:
        """Add every pattern that a plan of master cost at most ``worst`` can hold; return whether all were found.

        A plan costs the relaxation's value plus the reduced costs of its patterns. If none is negative, each is at most
        the difference between the plan's cost and the relaxation's value.
        """
        problem, gains = self.problem, True
        while gains:
            gains = False
            relaxation = self.relaxed()
            room = CLOSING_ROOM * (abs(worst) + abs(relaxation.value))
            slack = max(0.0, worst - self._dual_value(relaxation)) + room
            for pool in range(len(problem.views)):
                priced = problem.within(slack, pool, relaxation, self.run.deadline)
                self.nodes += priced.nodes
                if priced.cut_short:
                    return False
                changed = [pattern for pattern in priced.patterns if self.add([pattern])]
                # A plan has at most one pattern per workload, or per step of a divisible one: smaller reduced costs
                # sum to at most the tolerance.
                most = len(problem.class_of) + PART_STEPS * len(problem.divisible)
                gains = gains or any(self.reduced_cost(p, relaxation) < -room / most for p in changed)
        return True

    def _dual_value(self, relaxation: Relaxation) -> float:
        """Return the value of the master's dual at the duals of a relaxation, at most the relaxation's own value.

        A coverage dual above the cost of an artificial column counts as that cost.
        """
        workload = np.minimum(relaxation.workload_dual, self.problem.asked.artificial_cost)
        count = self.problem.count
        limited = np.isfinite(count)
        terms = [*(workload * self.problem.copies), *(relaxation.pool_dual[limited] * count[limited])]
        return min(relaxation.value, math.fsum(terms))

    # Solutions ---------------------------------------------------------------------------------------------------

    def own_slots(self, counts: dict[int, int]) -> dict[int, int]:
        """Return the solution with patterns of the workloads that its slots serve, where the master exchanged some."""
        problem, patterns = self.problem, self.master.chosen(counts)
        if problem.asked.serves is None or problem.complete(patterns):
            return counts
        own = problem.serving(patterns, served_by(problem.asked.serves, problem.class_of, patterns))
        self.add(own)
        return self.master.counts(own)

    def realise(self, counts: dict[int, int]) -> tuple[float, Plan] | None:
        """Return the cost and the plan of a solution, the number of GPUs by pattern; ``None`` if it makes no plan."""
        patterns = self.master.chosen(counts)
        return self.problem.realise(patterns) if self.problem.complete(patterns) else None
