"""Column generation over patterns: a loop with smoothed duals and a certified bound after every iteration.

Bounds follow from arbitrary duals and an upper bound on the worth of every pattern (Farley, Lagrange).
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import numpy as np

from bench.api import Duals, ProofNode, Run
from formulations.colgen.pattern_problem import PatternProblem, served_by
from formulations.colgen.restricted_master import AggregatedMaster, Priced, Relaxation, RestrictedMaster
from formulations.rounding import sum_rounded_down, sum_rounded_up
from instances import Instance, Plan
from instances.arrays import Floats
from instances.one_gpu import Pattern

FEWEST_CLASSES, FITTING_PATTERNS, FITTING_GAP = 2, 100, 4e-3
"""Classes per feature from which duals are first fitted to the features, and the patterns per call and gap for this."""

COARSE = 1.5
"""Relative gap between bound and relaxation, in tolerances of pricing, below which the tolerance holds back the bound.

A bound at this tolerance is at least one tolerance away from the relaxation.
"""

StepResult = Literal["gain", "no gain", "coarse", "enough"]
"""Result of a step.

``gain`` and ``no gain`` tell whether a column gains at the master's own duals. ``coarse`` means that none does because
the tolerance of pricing is too large, and ``enough`` that the bound is good enough.
"""


@dataclass(slots=True)
class Smoothing:
    """Smoothing of the duals towards the stability centre, the duals of the best bound (Wentges).

    Without it the master's own duals oscillate in the first iterations.

    Attributes
    ----------
    initial, weight
        Weight of the centre's duals against the master's own: after a gain, and now. Without gain it is halved.
    least
        Least positive weight: the weight after it is 0.
    """

    initial: float
    least: float = 0.2
    weight: float = 0.0
    stability_centre: Relaxation | None = None

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

    A step without gain weakens the smoothing. If the duals were already the master's own, or pricing was too coarse,
    pricing is refined instead.

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
                smoothing.weight = smoothing.initial
            case "no gain" if smoothing.weight > 0.0:
                smoothing.weight = smoothing.weight / 2.0 if smoothing.weight > smoothing.least else 0.0
            case "no gain" | "coarse":
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
        self.master = RestrictedMaster(problem.covering, run.threads)
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
        self.smoothing.weight = self.smoothing.initial
        generate(self.run, self.smoothing, relax, partial(self._step, finished), self._refine)

    def _step(self, finished: Callable[[], bool], relaxation: Relaxation, duals: Relaxation) -> StepResult:
        """Price at the smoothed duals, add the patterns and improve the bound."""
        priced = self.problem.price_patterns(duals, self.tolerance, self.node_limit, self.run.deadline)
        if not any(result.patterns for result in priced):
            # Only a more complete search improves the bound; it takes no longer than all earlier ones.
            priced = self.problem.price_harder(priced, duals, self.tolerance, self.node_limit, self.run, self.nodes)
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
        limit = abs(relaxation.value)  # of the bound, however many patterns are added
        pricing_is_coarse = abs(limit - self.bound) < COARSE * self.tolerance * limit
        return "coarse" if pricing_is_coarse and self.tolerance > self.problem.last_tolerance else "no gain"

    def _refine(self) -> bool:
        """Raise the node limit if it cut the last pricing short, else lower the tolerance; return whether it could."""
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
            self.bound, self.smoothing.stability_centre = bound, duals
            self.proof = [self.duals(duals, best_worth)]
        return sum(self.add(result.patterns) for result in priced)

    def bound_from(self, duals: Relaxation, best_worth: Floats) -> float:
        """Return the bound on the objective from duals and an upper bound on the worth of every pattern at them."""
        problem = self.problem
        if problem.minimised:
            return cost_bound(duals.workload_dual, problem.copies, best_worth, problem.price, problem.count)
        return value_bound(problem.charge(duals), problem.copies, best_worth, problem.count)

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


def cost_bound(
    workload_dual: Floats,
    copies: Floats,
    best_worth: Floats,
    price: Floats,
    count: Floats,
    least: Floats | float = 0.0,
) -> float:
    """Return a lower bound on the cost of covering every workload.

    For any factor f > 0 the duals ``f pi`` with ``sigma_t = max(0, f v_t - price_t)`` on the pools are feasible. So ``f
    sum(pi) - sum(count_t sigma_t)`` bounds the cost. The bound is concave and piecewise linear in f; it breaks where
    ``f v_t`` of a type equals its price. Types without a limit require ``sigma_t = 0``. Each GPU that must be used adds
    ``max(0, price_t - f v_t)``.

    Parameters
    ----------
    workload_dual
        ``pi``, shape (classes,); negative values count as 0.
    copies
        Number of workloads of each class.
    best_worth
        ``v_t``: upper bound on the sum of duals of a pattern of type t, shape (types,).
    price, count, least
        Price of each GPU type, number of its GPUs (``inf`` without a limit), and how many of them must be used.
    """
    return best_factor(workload_dual, copies, best_worth, price, count, least)[1]


def best_factor(
    workload_dual: Floats,
    copies: Floats,
    best_worth: Floats,
    price: Floats,
    count: Floats,
    least: Floats | float = 0.0,
) -> tuple[float, float]:
    """Return the factor on the duals with the best bound on the cost, and that bound, rounded down.

    See ``cost_bound`` for the parameters. Both are 0 without a bound.
    """
    total = math.fsum(np.maximum(workload_dual, 0.0) * copies)
    unlimited = np.isinf(count)
    corners = [p / v for p, v in zip(price, best_worth, strict=True) if 0.0 < v < math.inf]
    most = min(
        (p / v for p, v in zip(price[unlimited], best_worth[unlimited], strict=True) if v > 0.0), default=math.inf
    )
    best = (0.0, 0.0)
    if math.isinf(float(best_worth.max(initial=0.0))):
        return best
    for factor in corners:
        if factor > most:
            continue
        worth = factor * best_worth
        # The difference from the price may be small, but not the rounding of the worth.
        sigma = np.maximum(0.0, worth * (1.0 + 4.0 * np.finfo(float).eps) - price)[~unlimited]
        idle = least * np.maximum(0.0, price - worth)
        bound = sum_rounded_down([factor * total, *-(count[~unlimited] * sigma), *idle])
        best = max(best, (float(factor), bound), key=lambda candidate: candidate[1])
    return best


def value_bound(workload_dual: Floats, copies: Floats, best_worth: Floats, count: Floats) -> float:
    """Return a Lagrangian upper bound on the throughput of a bounded pool, for arbitrary duals of the coverage rows.

    Parameters
    ----------
    workload_dual
        ``rho``: charge on a pattern for each workload of the class; at least 0 unless every workload must be placed.
    copies, count
        Number of workloads of each class, and of GPUs of each type.
    best_worth
        Upper bound ``v_t`` on the worth of a pattern of type t after those charges.
    """
    if math.isinf(float(best_worth.max(initial=0.0))):
        return math.inf
    terms = [*(workload_dual * copies), *(c * max(0.0, v) for c, v in zip(count, best_worth, strict=True))]
    return sum_rounded_up(terms)


def is_better(bound: float, than: float, instance: Instance) -> bool:
    """Return whether a bound is better than another one."""
    return bound > than if instance.objective.minimised else bound < than
