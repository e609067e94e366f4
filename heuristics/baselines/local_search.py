"""Local search: greedy placement, then ruin and recreate; a simple reference for the papers' schedulers."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run, Status
from heuristics.baselines.improvement import Exchange, Repacking, warm_exchange
from heuristics.baselines.largest_scale import bisected_scale, scale_without_search
from heuristics.baselines.placement import EQUAL, greedy_placement, warm_placement
from heuristics.packing import UnservableError
from instances import SCALE_STEP, Instance, Objective, PlacedGpu, Plan


@dataclass(frozen=True, slots=True)
class LocalSearch:
    """Local search: greedy placement, then ruin and recreate while time remains.

    The search starts from the given start plan, or from a greedy one: each workload, largest first, takes the GPU and
    the batch at which shares grow least. Every round empties a few GPUs and places their residents again, with new
    batches and shares (``Repacking``). The new placement is kept unless more is left unplaced than before. The goal
    depends on the objective:

    - ``cost``: serve everything for less than the best plan so far;
    - ``goodput``: serve more requests;
    - ``scale``: serve everything at the next scale;
    - ``capacity``: serve everything, then move, swap and re-batch workloads where that raises throughput
      (``Exchange``).

    Every better plan is reported. The same seed gives the same plan unless time cuts the search short.

    Attributes
    ----------
    rounds
        Limit on the rounds before the deadline; 0 for only the first plan. A work limit also counts rounds and replaces
        this limit.
    """

    name: ClassVar[str] = "local-search"
    objectives: ClassVar[frozenset[Objective]] = frozenset(
        {Objective.COST, Objective.CAPACITY, Objective.GOODPUT, Objective.SCALE}
    )

    work_unit: ClassVar[str] = "rounds"

    rounds: int = 20_000

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise ValueError(f"rounds is {self.rounds}; expected at least 0")

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_placement()
        warm_exchange()

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return the best plan found."""
        search = _Search(instance, run, run.work_left(0, self.rounds), np.random.default_rng(run.seed))
        try:
            return search.scale() if instance.objective is Objective.SCALE else search.fixed_rates()
        except UnservableError as error:
            return Outcome(error.status, reason=str(error))


@dataclass
class _Search:
    """One run: the instance, its limits, and the incumbent."""

    instance: Instance
    run: Run
    most_rounds: int
    random: np.random.Generator
    plan: Plan | None = None

    def fixed_rates(self) -> Outcome:
        """Search under ``cost``, ``capacity`` or ``goodput``."""
        search = self._repacking(self.instance, self.run.start)
        if self.instance.objective is Objective.GOODPUT:
            self._accept(search.placement.gpus())
            search.run(lambda: self._accept(search.placement.gpus()))
            return self._outcome(search)
        search.run()
        if not len(search.placement.waiting) and self.instance.objective is Objective.COST:
            self._cheaper(search)
        elif not len(search.placement.waiting):
            exchange = Exchange(search.placement, self.random, self.run.deadline, search.rounds)
            for gpus in exchange.run():
                self._accept(gpus)
            search.rounds = exchange.rounds
        return self._outcome(search)

    def _cheaper(self, search: Repacking) -> None:
        """Serve all workloads at decreasing cost limits."""
        least_cost = search.placement.problem.least_cost
        while not len(search.placement.waiting):
            self._accept(search.placement.gpus())
            cost = search.placement.cost_per_hour
            if cost <= least_cost:
                return
            search.cost_limit = cost * (1.0 - EQUAL)
            search.placement = search.placement.copied()
            search.placement.close_emptiest(search.cost_limit)
            search.run()

    def scale(self) -> Outcome:
        """Search for the largest scale: bisect with greedy plans, then raise the scale step by step with all rounds."""
        if (outcome := scale_without_search(self.instance)) is not None:
            return outcome
        fits = bisected_scale(self._fits_greedily)
        rounds_left = self.most_rounds
        while not self._time_is_over():
            start = self.run.start
            if self.plan is not None:
                start = self.plan.scaled(dict.fromkeys(self.instance.workload_index, (fits + 1) / fits))
            search = self._repacking(self._scaled(fits + 1), start)
            search.rounds = rounds_left
            if not search.placement.problem.could_fit:
                return self._outcome(search)
            search.run()
            if len(search.placement.waiting):
                return self._outcome(search)
            rounds_left, fits = search.rounds, fits + 1
            self._accept(search.placement.gpus())
        return self._feasible(rounds_left)

    def _scaled(self, scale: int) -> Instance:
        return self.instance.scaled(scale * SCALE_STEP)

    def _time_is_over(self) -> bool:
        """Return whether the time is over; before the first plan, the time is never over."""
        return self.plan is not None and not self.run.remaining_s

    def _fits_greedily(self, scale: int) -> bool:
        if self._time_is_over():
            return False
        placement = greedy_placement(self._scaled(scale), self.random, self.run.start)
        if len(placement.waiting):
            return False
        self._accept(placement.gpus())
        return True

    def _repacking(self, instance: Instance, start: Plan | None) -> Repacking:
        placement = greedy_placement(instance, self.random, start)
        return Repacking(placement, self.random, self.run.deadline, self.most_rounds)

    def _accept(self, gpus: tuple[PlacedGpu, ...]) -> None:
        self.plan = Plan(self.instance.name, gpus)
        self.run.report(plan=self.plan)

    def _outcome(self, search: Repacking) -> Outcome:
        if self.plan is not None:
            return self._feasible(search.rounds)
        return Outcome(Status.UNKNOWN, statistics=self._statistics(search.rounds), reason=search.placement.shortage())

    def _feasible(self, rounds_left: int) -> Outcome:
        return Outcome(Status.FEASIBLE, self.plan, statistics=self._statistics(rounds_left))

    def _statistics(self, rounds_left: int) -> dict[str, float]:
        return {"rounds": float(self.most_rounds - rounds_left)}
