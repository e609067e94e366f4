"""Ruin and recreate: good plans within a second, for all objectives of inference workloads."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from math import inf
from typing import ClassVar

import numpy as np

from bench.api import Outcome, Run, Status
from heuristics.baselines.improvement import Exchange, warm_exchange
from heuristics.baselines.insertion import fill
from heuristics.baselines.largest_scale import bisected_scale, scale_without_search
from heuristics.baselines.placement import EQUAL, Placement, PlacementProblem
from heuristics.packing import UnservableError
from heuristics.tiny import tiny_instance
from instances import SCALE_STEP, Instance, Objective, PlacedGpu, Plan
from instances.leanest_batches import least_fractions
from instances.ruin_recreate.problem import PackingProblem
from instances.ruin_recreate.rounds import CYCLE
from instances.ruin_recreate.search import PackingSearch
from instances.view import View

BATCHES = 16
"""Number of batches tried for an item at a rate: those with the smallest least shares alone on a GPU."""

FEW_BATCHES = (1, 2, 4)
"""Numbers of batches in the first packings if budgets depend on the share: the budgets of each batch take time."""

POWERS = tuple(tuple(base**exponent for exponent in range(8)) for base in (4, 2))
"""Batches of further packings under ``capacity``, before those of every batch: powers of four, then of two."""

LIKELY_FILL = 0.5
"""Fraction of the pool that least shares by mean rates fill at the scale from which the search begins."""

FIRST_RISE = 8
"""First rise of the scale after the bisection, in steps of ``SCALE_STEP``."""


@dataclass(frozen=True, slots=True)
class RuinRecreate:
    """Ruin and recreate with joint choice of batches.

    The first plan comes from the given start plan, or from best fit: each workload, largest first, takes the GPU whose
    shares grow least. Every round then removes the workloads of one to three GPUs and some of others, may move the
    content of a GPU to another GPU type, and places the workloads again. Whenever a workload joins a GPU, the batches
    of all its residents are chosen anew (``instances.joint_batches``). Simulated annealing decides whether the result
    is kept. The goal depends on the objective:

    - ``cost``: serve everything for less than the best plan so far;
    - ``goodput``: serve more requests;
    - ``scale``: serve everything at a larger scale;
    - ``capacity``: serve everything, then move, swap and re-batch workloads where that raises throughput (``Exchange``
      of the local search).

    If budgets depend on the share, each batch takes time, so the first packings have only a few batches of each item.
    Every better plan is reported. The same seed gives the same plan unless time cuts the search short.

    Attributes
    ----------
    rounds
        Limit on the rounds before the deadline; 0 for only the first plan. A work limit also counts rounds and replaces
        this limit.
    """

    name: ClassVar[str] = "ruin-recreate"
    objectives: ClassVar[frozenset[Objective]] = frozenset(
        {Objective.COST, Objective.CAPACITY, Objective.GOODPUT, Objective.SCALE}
    )

    work_unit: ClassVar[str] = "rounds"

    rounds: int = 200_000

    def __post_init__(self) -> None:
        if self.rounds < 0:
            raise ValueError(f"rounds is {self.rounds}; expected at least 0")

    def warm(self, objective: Objective) -> None:
        """Load the compiled kernels."""
        warm_exchange()
        packing = _ItemPacking(tiny_instance(Objective.COST), None, np.random.default_rng(0))
        for gpu_type, rows, _ in list(packing.search.gpus()):
            packing.search.take_over(gpu_type, rows)
        packing.search.limit_cost(0.0)
        packing.search.run(1, inf)

    def schedule(self, instance: Instance, run: Run) -> Outcome:
        """Return the best plan found."""
        search = _PlanSearch(instance, run, run.work_left(0, self.rounds), np.random.default_rng(run.seed))
        solve = {
            Objective.COST: search.cost,
            Objective.CAPACITY: search.capacity,
            Objective.GOODPUT: search.goodput,
            Objective.SCALE: search.scale,
        }
        try:
            return solve[instance.objective]()
        except UnservableError as error:
            return Outcome(error.status, reason=str(error))


class _ItemPacking:
    """First packing of an instance, from a start plan or by best fit, and the search for better ones.

    Raises
    ------
    UnservableError
        See ``whole_items``.
    """

    def __init__(
        self,
        instance: Instance,
        start: Plan | None,
        random: np.random.Generator,
        batches: int | Sequence[int] | None = BATCHES,
    ) -> None:
        self.problem = PlacementProblem.of(instance, start, batches)
        self.search = PackingSearch(_packing_problem(self.problem), random)
        # Row of each type's first configuration among those of all types
        self._first_row = np.cumsum([0, *(of_type.size for of_type in self.problem.configurations)])
        if start is not None:
            from_start = Placement.empty(self.problem)
            from_start.take_over(start)
            for type_index, fleet in enumerate(from_start.fleets):
                for row, count in zip(fleet.row, fleet.residents.tolist(), strict=True):
                    if count:
                        self.search.take_over(type_index, self._first_row[type_index] + row[:count])
        self.search.build()

    def gpus(self) -> tuple[PlacedGpu, ...]:
        """Return the GPUs of the best packing."""
        return tuple(
            self.problem.placed(type_index, rows - self._first_row[type_index], units)
            for type_index, rows, units in self.search.gpus()
        )

    def placed(self) -> Placement:
        """Return the best packing, in which no item waits, as a placement."""
        placement = Placement.empty(self.problem)
        placement.waiting = placement.waiting[:0]
        next_gpu = [0] * len(placement.fleets)
        for type_index, rows, _ in self.search.gpus():
            tables, configurations = self.problem.views[type_index].tables, self.problem.configurations[type_index]
            type_rows = rows - self._first_row[type_index]
            fill(tables, configurations, placement.fleets[type_index], next_gpu[type_index], type_rows, len(rows))
            next_gpu[type_index] += 1
        return placement


def _packing_problem(problem: PlacementProblem) -> PackingProblem:
    """Return the items as a problem of ``PackingSearch``."""
    items = len(problem.workload)
    limits = [items if pool.count is None else min(pool.count, items) for pool in problem.instance.gpus]
    if problem.instance.objective is Objective.GOODPUT:
        weight, priority = problem.rate_rps, problem.rate_rps / problem.size
    elif problem.instance.objective is Objective.COST and problem.least_price.all():
        weight = priority = problem.least_price
    else:
        weight = priority = problem.size
    return PackingProblem.of(problem.views, limits, problem.configurations, weight, priority)


@dataclass
class _PlanSearch:
    """One run: the instance, its limits, the number of rounds so far, and the incumbent."""

    instance: Instance
    run: Run
    most_rounds: int
    random: np.random.Generator
    rounds: int = 0
    plan: Plan | None = None

    def cost(self) -> Outcome:
        """Serve all workloads at decreasing cost limits."""
        for packing, rounds in self._packings():
            self._repack(packing, rounds)
            while not packing.search.waiting:
                self._accept(packing.gpus())
                cost = packing.search.cost_per_hour
                if cost <= packing.problem.least_cost * (1.0 + EQUAL):
                    return self._outcome(packing)
                packing.search.limit_cost(cost * (1.0 - EQUAL))
                self._repack(packing, rounds)
        return self._outcome(packing)

    def goodput(self) -> Outcome:
        """Serve as many requests as possible."""
        for packing, rounds in self._packings():
            accept = partial(self._accept_best_of, packing)
            accept()
            self._repack(packing, rounds, improved=accept)
        return self._outcome(packing)

    def _packings(self) -> Iterator[tuple[_ItemPacking, int | None]]:
        """Yield packings of more and more batches, and a limit on the rounds of each; the last one has no limit.

        Each begins with the best plan so far. It is the last one if there is hardly time to prepare the next one.
        """
        counts = (*self._few_batches, BATCHES)
        for batches, more in zip(counts, (*counts[1:], 0), strict=True):
            began = time.monotonic()
            packing = self._packing(batches)
            took_s = time.monotonic() - began
            in_time = self.run.work_limit is not None or took_s * (more - batches) <= self.run.remaining_s * batches
            is_last = not more or not in_time
            yield packing, None if is_last else CYCLE
            if is_last:
                return

    @property
    def _few_batches(self) -> tuple[int, ...]:
        """Numbers of batches of the first packings."""
        return FEW_BATCHES if self.instance.slo_rule.by_share else ()

    def capacity(self) -> Outcome:
        """Serve all workloads, then raise the throughput."""
        if self.instance.slo_rule.by_share:
            # Here every batch counts, whose budgets take long; under ``cost`` one batch does.
            of_cost = replace(self.instance, objective=Objective.COST)
            self._exchange(_ItemPacking(of_cost, self.run.start, self.random, FEW_BATCHES[0]), CYCLE)
            for powers in POWERS:
                self._exchange(self._packing(powers), CYCLE)
        packing = self._packing(None)
        self._exchange(packing)
        return self._outcome(packing)

    def _packing(self, batches: int | Sequence[int] | None) -> _ItemPacking:
        """Return a packing that begins with the best plan so far."""
        return _ItemPacking(self.instance, self.plan or self.run.start, self.random, batches)

    def _exchange(self, packing: _ItemPacking, rounds: int | None = None) -> None:
        """Serve all workloads, then raise the throughput, each for at most ``rounds`` rounds."""
        self._repack(packing, rounds)
        if packing.search.waiting:
            return
        limit = self._rounds_left(rounds)
        exchange = Exchange(packing.placed(), self.random, self.run.deadline, limit)
        for gpus in exchange.run():
            self._accept(gpus)
        self.rounds += limit - exchange.rounds

    def _rounds_left(self, most: int | None) -> int:
        """Return the rounds that are left, at most ``most``."""
        rounds_left = self.most_rounds - self.rounds
        return rounds_left if most is None else min(most, rounds_left)

    def scale(self) -> Outcome:
        """Serve all workloads at larger and larger scales: bisect with first plans, then search with rounds."""
        if (outcome := scale_without_search(self.instance)) is not None:
            return outcome
        fewest, *_, few = self._few_batches or (BATCHES, BATCHES)
        first = self._likely_scale() if self.instance.slo_rule.by_share else 1
        fits = bisected_scale(lambda scale: self._serves(scale, 0, self.run.start, fewest), first)
        rise, rounds = FIRST_RISE, CYCLE
        while self.rounds < self.most_rounds and not self._time_is_over():
            if self._serves(fits + rise, rounds, self._raised(fits, fits + rise), few):
                fits, rise = fits + rise, 2 * rise
            elif rise > 1:
                rise //= 2
            elif self._at_scale(fits + 1, None, few).problem.could_fit:
                rounds *= 2
            else:
                break
        return self._outcome(self._at_scale(fits + 1, None, fewest) if self.plan is None else None)

    def _likely_scale(self) -> int:
        """Return the largest scale at which the workloads need ``LIKELY_FILL`` of the pool, each on its best GPU type.

        Each scale needs budgets of its own under a rule by share, so the bisection must not begin far from the result.
        """
        views = [View.of(self.instance, pool.type) for pool in self.instance.gpus]
        gpus = sum(pool.count or 0 for pool in self.instance.gpus)

        def fits(scale: int) -> bool:
            needed = np.min([least_fractions(view, scale * SCALE_STEP) for view in views], axis=0)
            return float(needed.sum()) <= LIKELY_FILL * gpus

        return max(1, bisected_scale(fits))

    def _serves(self, scale: int, rounds: int, start: Plan | None, batches: int) -> bool:
        """Search for a plan at a scale, and accept it; return whether there is one."""
        if self._time_is_over():
            return False
        packing = self._at_scale(scale, start, batches)
        self._repack(packing, rounds)
        if packing.search.waiting:
            return False
        self._accept(packing.gpus())
        return True

    def _at_scale(self, scale: int, start: Plan | None, batches: int) -> _ItemPacking:
        return _ItemPacking(self.instance.scaled(scale * SCALE_STEP), start, self.random, batches)

    def _raised(self, fits: int, scale: int) -> Plan | None:
        """Return the incumbent, a plan at scale ``fits``, with its rates raised to another scale."""
        if self.plan is None:
            return self.run.start
        return self.plan.scaled(dict.fromkeys(self.instance.workload_index, scale / fits))

    def _time_is_over(self) -> bool:
        """Return whether the time is over; before the first plan, the time is never over."""
        return self.plan is not None and not self.run.remaining_s

    def _repack(
        self, packing: _ItemPacking, rounds: int | None = None, improved: Callable[[], None] = lambda: None
    ) -> None:
        """Search for at most ``rounds`` rounds; ``None`` for all rounds that are left."""
        rounds_before = packing.search.rounds
        packing.search.run(self._rounds_left(rounds), self.run.deadline, improved)
        self.rounds += packing.search.rounds - rounds_before

    def _accept_best_of(self, packing: _ItemPacking) -> None:
        self._accept(packing.gpus())

    def _accept(self, gpus: tuple[PlacedGpu, ...]) -> None:
        self.plan = Plan(self.instance.name, gpus)
        self.run.report(plan=self.plan)

    def _outcome(self, packing: _ItemPacking | None) -> Outcome:
        """Return the result; ``packing``, in which items wait, is only needed if there is no plan."""
        statistics = {"rounds": float(self.rounds)}
        if self.plan is None:
            reason = "" if packing is None else packing.problem.shortage(packing.search.waiting)
            return Outcome(Status.UNKNOWN, statistics=statistics, reason=reason)
        return Outcome(Status.FEASIBLE, self.plan, statistics=statistics)
