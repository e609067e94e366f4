"""Largest throughput of a pool: a partition of the workloads into sets, one GPU each, refined until it is optimal.

Every set that may fit on a GPU has a certified upper bound on its throughput. CP-SAT chooses sets that place every
workload once, for the largest sum of bounds. The chosen sets are searched further, which lowers their bounds, and the
choice is repeated. Once the search of every chosen set is finished, the plan is optimal.

If there are too many sets, or no time to list them, the bound is that of ``share_bound``. The plan is then the better
of two: the start plan of the run, and the plan of first fit, spread over the idle GPUs.
"""

import math
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from bench.api import Bound, Outcome, Run, Status
from formulations.cpsat.capacity.one_gpu import GpuSets, class_configurations, gpu_sets
from formulations.cpsat.capacity.partition import Chosen, best_partition
from formulations.cpsat.capacity.share_bound import share_bound
from formulations.cpsat.progress import NO_PLAN_IN_TIME, ROUNDING, solver_deadline
from formulations.problem import TOO_FEW, WHOLE, Problem, first_fit, patterns_of
from instances import PlacedGpu, Plan
from instances.arrays import Floats
from instances.configurations import Configurations
from instances.one_gpu import Pattern, fit_gpu, placed_throughput_rps

PROVEN_WITHIN = 1e-9
"""Relative difference from the bound within which a plan is optimal."""

LISTING_PART = 0.5
"""Fraction of the remaining time that listing the sets may take."""

MOST_OPEN_CELLS = 400_000
"""Largest number of open cells (see ``one_gpu``) in the searches of all sets; a cell takes about 500 bytes."""


@dataclass
class MostThroughput:
    """One run under ``capacity``.

    Attributes
    ----------
    most_sets
        Largest number of sets listed on each GPU type.
    impacts
        See ``class_configurations``, by GPU type.
    """

    problem: Problem
    run: Run
    most_sets: int
    plan: Plan | None = None
    value: float = -math.inf
    bound: float = math.inf
    statistics: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        workloads_by_class: dict[tuple[str, float, float], list[int]] = defaultdict(list)
        for position, workload in enumerate(self.problem.instance.workloads):
            workloads_by_class[workload.model, workload.slo_ms, workload.rate_rps].append(position)
        self.classes = list(workloads_by_class.values())
        self.sizes = [len(members) for members in self.classes]
        self.counts = [offer.count for offer in self.problem.offers]
        self.tables = [offer.view.tables for offer in self.problem.offers]
        self.configurations: list[Configurations] = []
        self.impacts: list[Floats] = []

    def outcome(self) -> Outcome:
        """Solve the problem and return the outcome."""
        problem, run = self.problem, self.run
        if reason := problem.unservable():
            return Outcome(Status.INFEASIBLE, reason=reason)
        for offer in problem.offers:
            configurations, impact = class_configurations(offer.view, problem.rates, self.classes)
            self.configurations.append(configurations)
            self.impacts.append(impact)
        self._improve_bound(share_bound(self.tables, self.configurations, self.counts, self.sizes))
        if run.start is not None:
            self._accept_patterns(patterns_of(run.start, problem, problem.rates))
        order, equal_prices = problem.largest_first(), [1.0] * len(problem.offers)
        self._accept_patterns(self._spread(first_fit(problem, order, equal_prices, run.deadline)))
        sets, reason = self._list_sets()
        if sets is not None and self._refine(sets) and self.plan is None:
            return Outcome(Status.INFEASIBLE, statistics=self.statistics, reason=f"{TOO_FEW}, {WHOLE}")
        if self.bound < self.value * (1.0 - PROVEN_WITHIN):
            raise RuntimeError(f"a plan of {self.value} req/s contradicts the bound of {self.bound} req/s")
        bound = Bound(self.bound, certified=True)
        if self.plan is None:
            return Outcome(Status.UNKNOWN, None, bound, self.statistics, reason or NO_PLAN_IN_TIME)
        proven = self.value >= self.bound * (1.0 - PROVEN_WITHIN)
        return Outcome(Status.OPTIMAL if proven else Status.FEASIBLE, self.plan, bound, self.statistics, reason)

    def _improve_bound(self, bound: float) -> None:
        if bound < self.bound:
            self.bound = bound
            self.run.report(bound=Bound(bound, certified=True))

    def _accept(self, gpus: Sequence[PlacedGpu], value: float) -> None:
        """Take a plan that serves all workloads as the incumbent if it is better."""
        if value > self.value:
            self.plan, self.value = Plan(self.problem.instance.name, tuple(gpus)), value
            self.run.report(plan=self.plan)

    def _accept_patterns(self, patterns: Sequence[Pattern]) -> None:
        """Take a plan with these patterns as the incumbent if it serves all workloads, fits and is better.

        The spare shares of each GPU are given to its gpulets.
        """
        if not self.problem.serves_all(patterns):
            return
        gpus, value = [], 0.0
        for pattern in patterns:
            view = self.problem.offers[pattern.pool].view
            gpu = fit_gpu(view, pattern.residents, spend_spare=True)
            if gpu is None:
                return
            gpus.append(gpu)
            value += placed_throughput_rps(view, gpu)
        self._accept(gpus, value)

    def _spread(self, patterns: Sequence[Pattern]) -> list[Pattern]:
        """Split the fullest GPUs of a type until none of its GPUs is idle, because fewer residents interfere less."""
        spread_patterns: list[Pattern] = []
        for offer_position, count in enumerate(self.counts):
            residents_of_gpus = sorted(
                (pattern.residents for pattern in patterns if pattern.pool == offer_position), key=len
            )
            while residents_of_gpus and len(residents_of_gpus) < count and len(residents_of_gpus[-1]) > 1:
                fullest = residents_of_gpus.pop()
                half = len(fullest) // 2
                residents_of_gpus = sorted([*residents_of_gpus, fullest[:half], fullest[half:]], key=len)
            spread_patterns += [Pattern.of(offer_position, residents) for residents in residents_of_gpus]
        return spread_patterns

    def _list_sets(self) -> tuple[list[GpuSets] | None, str]:
        """List the sets of every GPU type; return ``None`` and the reason if there are too many or no time is left."""
        deadline = solver_deadline(self.run, LISTING_PART)
        sets = []
        for type_inputs in zip(self.tables, self.configurations, self.impacts, strict=True):
            sets_of_type = gpu_sets(*type_inputs, self.sizes, self.most_sets, deadline)
            if sets_of_type is None and time.monotonic() >= deadline:
                return None, "no time to list all sets of workloads that may share a GPU"
            if sets_of_type is None:
                return None, f"more than {self.most_sets} sets of workloads may share a GPU (parameter gpu_sets)"
            sets.append(sets_of_type)
        self.statistics["gpu_sets"] = float(sum(map(len, sets)))
        return sets, ""

    def _refine(self, sets: Sequence[GpuSets]) -> bool:
        """Choose sets and search the chosen sets, in turn; return whether it is proven that no plan exists.

        The turns end when the searches of all chosen sets are closed, or at a limit.
        """
        deadline = solver_deadline(self.run)
        self.statistics |= {"partitions": 0.0, "cells": 0.0}
        while self.run.remaining_s > 0.0:
            gpus, bound = best_partition(sets, self.counts, self.sizes, self.run, deadline)
            self.statistics["partitions"] += 1.0
            if bound == -math.inf:
                return True
            self._improve_bound(bound * (1.0 + ROUNDING))
            # Several GPUs may hold the same set; its search is continued once.
            chosen_searches = {(offer_position, search.members): search for offer_position, search in gpus}
            self._accept_sets(gpus)
            open_searches = [search for search in chosen_searches.values() if not search.closed]
            if (
                not open_searches
                or sum(len(search.open_cells) for sets_of_type in sets for search in sets_of_type.values())
                > MOST_OPEN_CELLS
            ):
                break
            for search in open_searches:
                self.statistics["cells"] += search.search_part(deadline)
            self._accept_sets(gpus)
        return False

    def _accept_sets(self, gpus: Chosen) -> None:
        """Take the plan of the sets' best known configurations as the incumbent if it is better.

        Without GPUs, or if no configurations of some set are known, there is no such plan.
        """
        if not gpus or any(search.value == -math.inf for _, search in gpus):
            return
        unplaced = [list(members) for members in self.classes]
        placed_gpus = []
        for offer_position, search in gpus:
            configurations = self.configurations[offer_position]
            view = self.problem.offers[offer_position].view
            chosen = list(search.chosen)
            workloads = [unplaced[class_].pop(0) for class_ in search.members]
            placed_gpus.append(
                view.placed(
                    workloads, configurations.units[chosen], configurations.batch[chosen], view.rate_rps[workloads]
                )
            )
        self._accept(placed_gpus, math.fsum(search.value for _, search in gpus))
