"""Search shared by ``minlp`` and ``pwl``: start plan, incumbent, and cutoff of a compact model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.api import Bound, Outcome, Run, Status
from formulations.compact.improve import improved
from formulations.compact.options import problem_of, why_not_compact
from formulations.compact.repair import repair
from formulations.problem import Problem, patterns_of
from instances import Instance, Objective, PlacedGpu, Plan
from instances.costs import next_cost
from instances.one_gpu import Pattern, fit_gpu, placed_throughput_rps

if TYPE_CHECKING:
    from formulations.compact.model import CompactModel

BUILD_S_PER_PLACE = 0.004
"""Seconds that Pyomo needs to pass a model to a solver, for each pair of a workload and a GPU that may serve it."""

BUILD_PART = 0.5
"""Fraction of the remaining time that stating a model may take."""

SOLVER_TOLERANCE = 1e-6
"""Relative allowance on a solver's bound for the solver's tolerances (1e-6 on rows and on integrality).

A cost below the model's unit has the allowance of one unit, because solvers' tolerances are absolute.
"""

OPTIMAL_WITHIN = 3e-6
"""Relative difference from the bound within which a plan is optimal: more than ``SOLVER_TOLERANCE`` plus ``BETTER``."""

BETTER = 1e-6
"""Least relative improvement over the incumbent that a model's plans must have; absolute if its value is 0."""


@dataclass
class Search:
    """One run on one instance.

    Attributes
    ----------
    plan, value
        The incumbent, and its objective; ``nan`` without one.
    limit
        Objective that every plan of the model reaches; ``None`` if the model has all plans.
    objective_unit
        See ``CompactModel``.
    """

    problem: Problem
    run: Run
    plan: Plan | None = None
    value: float = math.nan
    limit: float | None = None
    objective_unit: float = 1.0
    statistics: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, instance: Instance, run: Run) -> "Search | Outcome":
        """Start from the given plan and first fit; return an ``Outcome`` if no model is needed or possible."""
        if reason := why_not_compact(instance):
            return Outcome(Status.UNKNOWN, reason=reason)
        problem = problem_of(instance)
        if instance.objective is not Objective.GOODPUT and (reason := problem.unservable()):
            return Outcome(Status.INFEASIBLE, reason=reason)
        if not any(configurations.size for offer in problem.offers for configurations in offer.configurations):
            return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, certified=True))
        search = cls(problem, run)
        if run.start is not None:
            search.accept(patterns_of(run.start, problem, problem.rates))
        first_fit = repair(problem, [])
        if first_fit is not None:
            search.accept(search._spread(first_fit))
        return search

    @property
    def sense(self) -> int:
        """1 if the objective is maximised, -1 if it is minimised."""
        return -1 if self.instance.objective.minimised else 1

    @property
    def instance(self) -> Instance:
        """The instance of the problem."""
        return self.problem.instance

    def _spread(self, patterns: list[Pattern]) -> list[Pattern]:
        """Move residents of full GPUs to idle GPUs under ``capacity``, where a plan may use every GPU."""
        if self.instance.objective is not Objective.CAPACITY:
            return patterns
        for offer_position, offer in enumerate(self.problem.offers):
            for _ in range(offer.count - sum(pattern.pool == offer_position for pattern in patterns)):
                fullest = max(
                    patterns,
                    key=lambda pattern: (pattern.pool == offer_position) * len(pattern.residents),
                    default=None,
                )
                if fullest is None or fullest.pool != offer_position or len(fullest.residents) < 2:
                    break
                patterns = [pattern for pattern in patterns if pattern is not fullest]
                patterns += [
                    Pattern.of(offer_position, fullest.residents[:1]),
                    Pattern.of(offer_position, fullest.residents[1:]),
                ]
        return patterns

    def accept(self, patterns: Sequence[Pattern]) -> bool:
        """Make feasible patterns the incumbent if they serve all required workloads and are better.

        Under ``capacity`` they are first improved by moves of single workloads.
        """
        if self.instance.objective is not Objective.GOODPUT and not self.problem.serves_all(patterns):
            return False
        if self.instance.objective is Objective.CAPACITY:
            patterns = improved(self.problem, patterns, self.run)
        placed = [self._placed(pattern) for pattern in patterns]
        value = self._value(patterns, placed)
        if self.plan is not None and self.sense * (value - self.value) <= 0.0:
            return False
        self.plan, self.value = Plan(self.instance.name, tuple(placed)), value
        self.run.report(plan=self.plan)
        return True

    def _placed(self, pattern: Pattern) -> PlacedGpu:
        if self.instance.objective is Objective.CAPACITY:
            gpu = fit_gpu(self.problem.offers[pattern.pool].view, pattern.residents, spend_spare=True)
        else:
            gpu = self.problem.fit(pattern)
        assert gpu is not None, "only patterns that fit are accepted"
        return gpu

    def _value(self, patterns: Sequence[Pattern], placed: Sequence[PlacedGpu]) -> float:
        if self.instance.objective is Objective.COST:
            return self.instance.cost_per_hour(placed)
        if self.instance.objective is Objective.GOODPUT:
            return math.fsum(resident.rate_rps for pattern in patterns for resident in pattern.residents)
        views = [self.problem.offers[pattern.pool].view for pattern in patterns]
        return math.fsum(map(placed_throughput_rps, views, placed))

    @property
    def better_than(self) -> float | None:
        """Objective that a model's plans must reach to improve the incumbent; ``None`` if any plan does."""
        if self.plan is None:
            return None
        return self.value + self.sense * BETTER * (abs(self.value) or 1.0)

    def gpus(self, equal_cost: bool = False) -> list[int]:
        """Return how many GPUs of each offer a better plan can use; with ``equal_cost``, also a plan of equal cost."""
        highest_cost = self.better_than
        if equal_cost and highest_cost is not None:
            highest_cost = self.value * (1.0 + BETTER)
        if self.sense > 0 or highest_cost is None:
            return [offer.count for offer in self.problem.offers]
        prices = [offer.view.gpu.price_per_hour for offer in self.problem.offers]
        return [
            offer.count if price * offer.count <= highest_cost else max(0, math.floor(highest_cost / price))
            for offer, price in zip(self.problem.offers, prices, strict=True)
        ]

    def too_large(self, gpus: Sequence[int]) -> str:
        """Return the reason why the model takes too long to build; empty if there is time to build it."""
        servable_counts = [
            sum(1 for configurations in offer.configurations if configurations.size) for offer in self.problem.offers
        ]
        # Symmetry breaking closes GPU number k to the workloads of ranks 0 to k - 1; see ``build``.
        places = sum(
            max(0, servable_count - k)
            for servable_count, count in zip(servable_counts, gpus, strict=True)
            for k in range(count)
        )
        build_s = BUILD_S_PER_PLACE * places
        if build_s <= BUILD_PART * self.run.remaining_s:
            return ""
        return f"no time for the model: building it for {places} places takes about {build_s:.0f} s"

    def bound(self, solver_bound: float | None, certified: bool) -> Bound | None:
        """Turn a solver's bound on the plans that reach ``limit`` into a bound on all plans.

        Parameters
        ----------
        solver_bound
            ``SolverAnswer.bound``, in the model's unit.
        certified
            Whether the solver's model contains every plan that reaches the limit.
        """
        says_nothing = self.sense * math.inf
        excludes_all = -says_nothing
        if solver_bound is None or solver_bound == says_nothing:
            return None
        if solver_bound == excludes_all and self.limit is None:
            return None
        one_unit = 1.0 if self.instance.objective is Objective.COST else 0.0
        allowance = SOLVER_TOLERANCE * max(one_unit, abs(solver_bound)) if math.isfinite(solver_bound) else 0.0
        value = (solver_bound + self.sense * allowance) * self.objective_unit
        if self.limit is not None:
            value = self.sense * max(self.sense * value, self.sense * self.limit)
        return Bound(value if self.sense > 0 else next_cost(max(0.0, value), self.instance), certified)

    def outcome(self, bound: Bound | None, reason: str = "", trusted: bool = True, infeasible: bool = False) -> Outcome:
        """Return the outcome of the run.

        Parameters
        ----------
        trusted
            Whether a plan that reaches the bound may be called optimal.
        infeasible
            Whether no plan exists.
        """
        if self.plan is None:
            status = Status.INFEASIBLE if infeasible else Status.UNKNOWN
        else:
            attained = bound is not None and abs(bound.value - self.value) <= OPTIMAL_WITHIN * abs(self.value)
            status = Status.OPTIMAL if attained and trusted else Status.FEASIBLE
        return Outcome(status, self.plan, bound, self.statistics, reason)


def improving_model(
    instance: Instance, run: Run, continuous_shares: bool = False
) -> "tuple[Search, CompactModel] | Outcome":
    """Return a search with its first plan, and the model of all better plans, without its nonlinear relations.

    Return an ``Outcome`` if no model is needed or possible, or if building it takes too long.
    """
    search = Search.of(instance, run)
    if isinstance(search, Outcome):
        return search
    search.limit, gpus = search.better_than, search.gpus()
    if not any(gpus):
        # A better plan would have to cost less than one GPU.
        return search.outcome(search.bound(math.inf, certified=True))
    if reason := search.too_large(gpus):
        return search.outcome(None, reason)
    # Pyomo takes a second to import, so it is imported only if a model is built.
    from formulations.compact.build import build

    model = build(search.problem, gpus, continuous_shares)
    model.require(search.limit)
    search.objective_unit = model.objective_unit
    return search, model


@dataclass(frozen=True, slots=True)
class SolverAnswer:
    """Result of a solver: whether it found a solution, and the number of its branch-and-bound ``nodes``.

    Attributes
    ----------
    finished
        Whether the solver claims that its best solution is optimal, or that none exists.
    infeasible
        Whether the solver claims that no solution exists.
    bound
        Bound on the objective of every solution; ``None`` if unknown. If no solution exists, the bound is ``inf`` for a
        minimised and ``-inf`` for a maximised objective.
    refusal
        Reason why the solver refuses the model; empty if the solver accepts it.
    """

    solved: bool
    finished: bool
    infeasible: bool
    bound: float | None
    nodes: float
    refusal: str = ""
