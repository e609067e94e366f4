"""Search shared by ``minlp`` and ``pwl``: start plan, incumbent, and cutoff of a compact model."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from bench.api import Bound, Outcome, Run, Status
from formulations.compact.options import problem_of, why_not_compact
from formulations.compact.repair import repair
from formulations.pattern import Pattern
from formulations.problem import Problem, groups_of
from instances import Instance, Objective, PlacedGpu, Plan
from instances.costs import next_cost
from instances.one_gpu import fit_gpu, placed_throughput_rps

if TYPE_CHECKING:
    from formulations.compact.model import CompactModel

BUILD_S_PER_PLACE = 0.004
"""Seconds that Pyomo needs to pass a model to a solver, for each pair of a workload and a GPU that may serve it."""

BUILD_PART = 0.5
"""Fraction of the remaining time that stating a model may take."""

SOLVER_ROOM = 1e-6
"""Allowance of a solver's bound for its tolerances (1e-6 on rows and on integrality), relative to the bound.

A cost below the model's unit has the allowance of the unit, because solvers' tolerances are absolute.
"""

OPTIMAL_WITHIN = 3e-6
"""Relative difference from the bound within which a plan is optimal: more than ``SOLVER_ROOM`` plus ``BETTER``."""

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
        Objective that the plans of the model reach; ``None`` for all.
    unit
        See ``CompactModel``.
    """

    problem: Problem
    run: Run
    plan: Plan | None = None
    value: float = math.nan
    limit: float | None = None
    unit: float = 1.0
    statistics: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, instance: Instance, run: Run) -> "Search | Outcome":
        """Start from the given plan and first fit; return an ``Outcome`` if no model is needed or possible."""
        if reason := why_not_compact(instance):
            return Outcome(Status.UNKNOWN, reason=reason)
        problem = problem_of(instance)
        if instance.objective is not Objective.GOODPUT and (reason := problem.unservable()):
            return Outcome(Status.INFEASIBLE, reason=reason)
        if not any(each.size for offer in problem.offers for each in offer.configurations):
            return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, certified=True))
        search = cls(problem, run)
        if run.start is not None:
            search.accept(groups_of(run.start, problem, problem.rates))
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

    def _spread(self, groups: list[Pattern]) -> list[Pattern]:
        """Move residents of full GPUs to idle ones under ``capacity``, which may use every GPU."""
        if self.instance.objective is not Objective.CAPACITY:
            return groups
        for t, offer in enumerate(self.problem.offers):
            for _ in range(offer.count - sum(group.pool == t for group in groups)):
                fullest = max(groups, key=lambda group: (group.pool == t) * len(group.residents), default=None)
                if fullest is None or fullest.pool != t or len(fullest.residents) < 2:
                    break
                groups = [group for group in groups if group is not fullest]
                groups += [Pattern.of(t, fullest.residents[:1]), Pattern.of(t, fullest.residents[1:])]
        return groups

    def accept(self, groups: Sequence[Pattern]) -> bool:
        """Make feasible groups the incumbent if they serve all required workloads and are better."""
        if self.instance.objective is not Objective.GOODPUT and not self.problem.serves_all(groups):
            return False
        placed = [self._placed(group) for group in groups]
        value = self._value(groups, placed)
        if self.plan is not None and self.sense * (value - self.value) <= 0.0:
            return False
        self.plan, self.value = Plan(self.instance.name, tuple(placed)), value
        self.run.report(plan=self.plan)
        return True

    def _placed(self, group: Pattern) -> PlacedGpu:
        if self.instance.objective is Objective.CAPACITY:
            gpu = fit_gpu(self.problem.offers[group.pool].view, group.residents, spend_spare=True)
        else:
            gpu = self.problem.fits(group)
        assert gpu is not None, "only groups that fit are accepted"
        return gpu

    def _value(self, groups: Sequence[Pattern], placed: Sequence[PlacedGpu]) -> float:
        if self.instance.objective is Objective.COST:
            return self.instance.cost_per_hour(placed)
        if self.instance.objective is Objective.GOODPUT:
            return math.fsum(resident.rate_rps for group in groups for resident in group.residents)
        views = [self.problem.offers[group.pool].view for group in groups]
        return math.fsum(map(placed_throughput_rps, views, placed))

    @property
    def better_than(self) -> float | None:
        """Objective that a model's plans must reach to improve the incumbent; ``None`` if any plan does."""
        if self.plan is None:
            return None
        return self.value + self.sense * BETTER * (abs(self.value) or 1.0)

    def gpus(self, ties: bool = False) -> list[int]:
        """Return how many GPUs of each offer a better plan can use; with ``ties``, also an equal plan."""
        most = self.better_than
        if ties and most is not None:
            most = self.value * (1.0 + BETTER)
        if self.sense > 0 or most is None:
            return [offer.count for offer in self.problem.offers]
        prices = [offer.view.gpu.price_per_hour for offer in self.problem.offers]
        return [
            offer.count if price * offer.count <= most else max(0, math.floor(most / price))
            for offer, price in zip(self.problem.offers, prices, strict=True)
        ]

    def too_large(self, gpus: Sequence[int]) -> str:
        """Return the reason why the model takes too long to build; empty if it does not."""
        sizes = [sum(1 for each in offer.configurations if each.size) for offer in self.problem.offers]
        places = sum(max(0, size - k) for size, count in zip(sizes, gpus, strict=True) for k in range(count))
        takes_s = BUILD_S_PER_PLACE * places
        if takes_s <= BUILD_PART * self.run.remaining_s:
            return ""
        return f"no time for the model: building it for {places} places takes about {takes_s:.0f} s"

    def bound(self, solver_bound: float | None, certified: bool) -> Bound | None:
        """Turn a solver's bound on the plans that reach ``limit`` into a bound on all plans.

        Parameters
        ----------
        solver_bound
            ``SolverAnswer.bound``, in the model's unit.
        certified
            Whether the solver's model contains every plan that reaches the limit.
        """
        best = self.sense * math.inf
        if solver_bound is None or solver_bound == best or (solver_bound == -best and self.limit is None):
            return None
        least = 1.0 if self.instance.objective is Objective.COST else 0.0
        room = SOLVER_ROOM * max(least, abs(solver_bound)) if math.isfinite(solver_bound) else 0.0
        value = (solver_bound + self.sense * room) * self.unit
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
            reached = bound is not None and abs(bound.value - self.value) <= OPTIMAL_WITHIN * abs(self.value)
            status = Status.OPTIMAL if reached and trusted else Status.FEASIBLE
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
    # Pyomo takes a second to import: instances that need no model, or have none, do without it.
    from formulations.compact.build import build

    model = build(search.problem, gpus, continuous_shares)
    model.require(search.limit)
    search.unit = model.unit
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
        Bound on the objective of every solution; ``None`` if unknown. If no solution exists, it is the worst objective:
        ``inf`` if that is minimised, ``-inf`` if it is maximised.
    problem
        Reason why the solver refuses the model; empty if it does not.
    """

    solved: bool
    finished: bool
    infeasible: bool
    bound: float | None
    nodes: float
    problem: str = ""
