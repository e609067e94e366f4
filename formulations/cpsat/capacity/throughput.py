"""Largest throughput of a pool: a partition of the workloads into sets, one GPU each, refined until it is optimal.

Every set that may fit on a GPU has a certified upper bound on its throughput. CP-SAT chooses sets that place every
workload once, for the largest sum of bounds. The chosen sets are searched further, which lowers their bounds, and the
choice is repeated. Once the search of every chosen set is finished, the plan is optimal.

If there are too many sets, the bound is that of ``share_bound`` and the plan is that of first fit.
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
from formulations.pattern import Pattern
from formulations.problem import TOO_FEW, WHOLE, Problem, first_fit, groups_of
from instances import PlacedGpu, Plan
from instances.arrays import Floats
from instances.configurations import Configurations
from instances.one_gpu import fit_gpu, placed_throughput_rps

PROVEN_WITHIN = 1e-9
"""Relative difference from the bound within which a plan is optimal."""

LISTING_PART = 0.5
"""Fraction of the remaining time that listing the sets may take."""

OPEN_CELLS = 400_000
"""Largest number of open cells over all sets: about 500 bytes each."""


@dataclass
class MostThroughput:
    """One run under ``capacity``.

    Attributes
    ----------
    most_sets
        Largest number of sets listed on each GPU type.
    """

    problem: Problem
    run: Run
    most_sets: int
    plan: Plan | None = None
    value: float = -math.inf
    bound: float = math.inf
    statistics: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        alike: dict[tuple[str, float, float], list[int]] = defaultdict(list)
        for w, asked in enumerate(self.problem.instance.workloads):
            alike[asked.model, asked.slo_ms, asked.rate_rps].append(w)
        self.classes = list(alike.values())
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
            self._take_groups(groups_of(run.start, problem, problem.rates))
        order, even = problem.largest_first(), [1.0] * len(problem.offers)
        self._take_groups(self._spread(first_fit(problem, order, even, run.deadline)))
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

    def _take(self, gpus: Sequence[PlacedGpu], value: float) -> None:
        """Make a plan that places every workload the incumbent if it is better."""
        if value > self.value:
            self.plan, self.value = Plan(self.problem.instance.name, tuple(gpus)), value
            self.run.report(plan=self.plan)

    def _take_groups(self, groups: Sequence[Pattern]) -> None:
        """Distribute the spare shares of GPUs that place every workload, and accept the plan."""
        if not self.problem.serves_all(groups):
            return
        gpus, value = [], 0.0
        for group in groups:
            view = self.problem.offers[group.pool].view
            gpu = fit_gpu(view, group.residents, spend_spare=True)
            if gpu is None:
                return
            gpus.append(gpu)
            value += placed_throughput_rps(view, gpu)
        self._take(gpus, value)

    def _spread(self, groups: Sequence[Pattern]) -> list[Pattern]:
        """Split the fullest GPUs of a type until none of its GPUs is idle: fewer residents interfere less."""
        spread: list[Pattern] = []
        for t, count in enumerate(self.counts):
            own = sorted((group.residents for group in groups if group.pool == t), key=len)
            while own and len(own) < count and len(own[-1]) > 1:
                fullest = own.pop()
                half = len(fullest) // 2
                own = sorted([*own, fullest[:half], fullest[half:]], key=len)
            spread += [Pattern.of(t, residents) for residents in own]
        return spread

    def _list_sets(self) -> tuple[list[GpuSets] | None, str]:
        """List the sets of every GPU type; return ``None`` and the reason if there are too many or no time is left."""
        deadline = solver_deadline(self.run, LISTING_PART)
        sets = []
        for of_type in zip(self.tables, self.configurations, self.impacts, strict=True):
            listed = gpu_sets(*of_type, self.sizes, self.most_sets, deadline)
            if listed is None and time.monotonic() >= deadline:
                return None, "no time to list all sets of workloads that may share a GPU"
            if listed is None:
                return None, f"more than {self.most_sets} sets of workloads may share a GPU (parameter gpu_sets)"
            sets.append(listed)
        self.statistics["gpu_sets"] = float(sum(map(len, sets)))
        return sets, ""

    def _refine(self, sets: Sequence[GpuSets]) -> bool:
        """Alternate between choosing sets and searching them until none improves; return whether no plan exists."""
        deadline = solver_deadline(self.run)
        self.statistics |= {"partitions": 0.0, "cells": 0.0}
        while self.run.remaining_s > 0.0:
            gpus, bound = best_partition(sets, self.counts, self.sizes, self.run, deadline)
            self.statistics["partitions"] += 1.0
            if bound == -math.inf:
                return True
            self._improve_bound(bound * (1.0 + ROUNDING))
            chosen = {(t, search.members): search for t, search in gpus}
            self._take_sets(gpus)
            unsettled = [search for search in chosen.values() if not search.closed]
            if not unsettled or sum(len(s.open) for found in sets for s in found.values()) > OPEN_CELLS:
                break
            for search in unsettled:
                self.statistics["cells"] += search.go_on(deadline)
            self._take_sets(gpus)
        return False

    def _take_sets(self, gpus: Chosen) -> None:
        """Build a plan from the best known configurations of the sets."""
        if not gpus or any(search.value == -math.inf for _, search in gpus):
            return
        waiting = [list(members) for members in self.classes]
        placed = []
        for t, search in gpus:
            offered, view, chosen = self.configurations[t], self.problem.offers[t].view, list(search.chosen)
            own = [waiting[c].pop(0) for c in search.members]
            placed.append(view.placed(own, offered.units[chosen], offered.batch[chosen], view.rate_rps[own]))
        self._take(placed, math.fsum(search.value for _, search in gpus))
