"""Column generation: the linear relaxation over all patterns, with a certified bound at every step."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from bench.api import Run
from formulations.colgen.master import Covering, Master, Relaxation
from formulations.colgen.plans import plan_of
from formulations.colgen.pricer import Pattern, Priced
from instances import Instance, PlacedGpu, Plan, PlanClass
from instances.arrays import Floats, Ints
from instances.one_gpu import Resident, fit_gpu
from instances.view import View

WEAKEST_PULL = 0.2
"""Weight of the best bound's duals below which they are dropped."""


COVER_ROOM = 1e-10
"""Relative room for the rounding of sums of parts of workloads."""

CLOSING_ROOM = 1e-6
"""Relative room for rounding when patterns are told apart by their reduced costs."""


@dataclass(slots=True)
class GenerationCounts:
    """Counts for the statistics of a run."""

    iterations: int = 0
    nodes: int = 0


class Generation:
    """Master and pricers of one instance; one subclass for each objective.

    Parameters
    ----------
    instance
        What is to be placed.
    run
        Its terms.
    """

    plan_class: ClassVar[PlanClass] = PlanClass.SPATIAL
    """Of all the plans that the bound holds for."""

    first_tolerance, last_tolerance = 0.02, 1e-6
    """A pattern is looked for when it gains at least this fraction of a GPU's worth; halved whenever none does."""

    diving_tolerance: float | None = 1e-3
    """Of the pricing between two steps of diving; ``None`` to dive among the known patterns only."""

    first_pull = 0.7
    """Weight of the best bound's duals against the master's own."""

    first_node_limit = 2_000
    last_node_limit = 200_000_000

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance = instance
        self.run = run
        self.views = [View.of(instance, pool.type) for pool in instance.gpus]
        self.price = np.array([pool.type.price_per_hour for pool in instance.gpus])
        self.count = np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])
        self.order, self.copy_of, self.class_of = identical_workloads(instance)
        self.copies = np.bincount(self.class_of).astype(np.float64)
        self.asked = self.cover()
        self.master = Master(self.asked, run.threads)
        self.relaxation: Relaxation | None = None
        self.centre: Relaxation | None = None
        self.bound = self.trivial_bound
        self.tally = GenerationCounts()

    # What an objective decides ----------------------------------------------------------------------------------

    @property
    def trivial_bound(self) -> float:
        """The bound before anything is known."""
        raise NotImplementedError

    def cover(self) -> Covering:
        """What the master asks for."""
        raise NotImplementedError

    def cost_of(self, pattern: Pattern) -> float:
        """Cost of a pattern in the minimised master."""
        raise NotImplementedError

    def seed(self) -> None:
        """Give the master patterns to start from."""
        raise NotImplementedError

    def price_at(self, relaxation: Relaxation, tolerance: float, node_limit: int) -> list[Priced]:
        """Look, on every GPU type, for patterns that gain at the given duals by more than the tolerance."""
        raise NotImplementedError

    def dual_bound(self, relaxation: Relaxation, best_worth: Floats) -> float:
        """Bound on the objective from duals and a bound on the worth of every pattern at them."""
        raise NotImplementedError

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        """Worth above which a pattern of a pool gains: what its GPU costs and its pool charges, and the tolerance."""
        raise NotImplementedError

    def patterns_within(self, slack: float, pool: int, relaxation: Relaxation) -> list[Pattern] | None:
        """Every pattern of a pool whose reduced cost is at most ``slack``; ``None`` if some are missing."""
        raise NotImplementedError

    # What they share --------------------------------------------------------------------------------------------

    @property
    def minimised(self) -> bool:
        """Whether the instance's own objective is minimised, as the master's always is."""
        return self.instance.objective.minimised

    def add(self, patterns: list[Pattern]) -> int:
        """Add patterns to the master; how many were new, or of lower cost than known."""
        return sum(self.master.add(p, self.cost_of(p), self.amounts(p)) for p in patterns)

    def amounts(self, pattern: Pattern) -> Floats:
        """How many workloads of each class a pattern covers, shape (classes,)."""
        held = np.bincount([self.class_of[w] for w, _, _ in pattern.members], minlength=len(self.copies))
        return held.astype(np.float64)

    def obstacle(self) -> str:
        """One line on why no plan exists, as far as the first patterns tell; empty if one may."""
        return ""

    def solve(self, finished: Callable[[], bool]) -> None:
        """Generate patterns until none gains, time is up or ``finished()`` says that the bound is good enough.

        Duals are pulled towards those of the best bound so far (Wentges' smoothing): far from the end the master's own
        duals jump. When the pulled duals ask for nothing that gains at the master's own, the pull is weakened.
        """
        tolerance, node_limit, pull = self.first_tolerance, self.first_node_limit, self.first_pull
        while self.run.remaining_s > 0.0:
            self.relaxation = self.master.relax()
            duals = self._pulled(self.relaxation, pull)
            priced = self.price_at(duals, tolerance, node_limit)
            self.tally.iterations += 1
            self.tally.nodes += sum(p.nodes for p in priced)
            new = sum(self.add(p.patterns) for p in priced)
            best_worth = np.array([p.bound for p in priced])
            if np.isfinite(best_worth).all():
                self._improve_bound(duals, best_worth)
            if finished():
                return
            if new and (pull == 0.0 or any(self._gains(p, self.relaxation) for p in priced)):
                pull = self.first_pull if new else pull
                continue
            if pull > 0.0:
                pull = pull / 2.0 if pull > WEAKEST_PULL else 0.0
                continue
            cut_short = any(p.bound > self.threshold(t, duals, tolerance) * (1.0 + 1e-12) for t, p in enumerate(priced))
            if cut_short and node_limit < self.last_node_limit:
                node_limit *= 10
            elif tolerance > self.last_tolerance:
                tolerance /= 2.0
            else:
                return

    def starts(self) -> list[list[Pattern]]:
        """Whole plans to begin with, as patterns that the master knows: the one handed over, if it is any good."""
        if self.run.start is None:
            return []
        patterns = [self._pattern_of(gpu) for gpu in self.run.start.gpus if gpu.gpulets]
        known = [pattern for pattern in patterns if pattern is not None]
        self.add(known)
        return [known] if len(known) == len(patterns) and self.complete(known) else []

    def _pattern_of(self, gpu: PlacedGpu) -> Pattern | None:
        """Contents of a placed GPU as a pattern, or ``None`` if it is none of this class or does not fit."""
        index = {pool.type.name: t for t, pool in enumerate(self.instance.gpus)}
        where = self.instance.workload_index
        if gpu.type not in index or any(len(gpulet.slots) != 1 for gpulet in gpu.gpulets):
            return None
        slots = [gpulet.slots[0] for gpulet in gpu.gpulets]
        if any(slot.workload not in where for slot in slots):
            return None
        members = tuple(sorted((where[slot.workload], slot.batch, slot.rate_rps) for slot in slots))
        view = self.views[index[gpu.type]]
        if any(b > view.tables.max_batch[view.model[w]] for w, b, _ in members):
            return None
        return self.pattern_if_feasible(index[gpu.type], members)

    def pattern_if_feasible(self, pool: int, members: tuple[tuple[int, int, float], ...]) -> Pattern | None:
        """Return the pattern of these members, or ``None`` if they do not fit on one GPU or break the objective."""
        residents = [Resident(*member) for member in members]
        return Pattern(pool, members) if fit_gpu(self.views[pool], residents) is not None else None

    def placed(self, pattern: Pattern, residents: list[Resident]) -> PlacedGpu | None:
        """Return a GPU with the contents of a pattern, or what is left of them."""
        return fit_gpu(self.views[pattern.pool], residents)

    def dual_value(self, relaxation: Relaxation) -> float:
        """Value of the master's dual at a solution's duals: like the relaxation's own, but no rounding makes it higher.

        A coverage dual above the cost of an artificial column counts for that cost only.
        """
        workload = np.minimum(relaxation.workload_dual, self.asked.artificial_cost)
        limited = np.isfinite(self.count)
        terms = [*(workload * self.copies), *(relaxation.pool_dual[limited] * self.count[limited])]
        return min(relaxation.value, math.fsum(terms))

    def complete(self, patterns: list[Pattern]) -> bool:
        """Whether these patterns together are a plan: everyone covered as asked, the pools large enough."""
        covered = np.sum([self.amounts(p) for p in patterns], axis=0) if patterns else np.zeros_like(self.copies)
        used = np.bincount([p.pool for p in patterns], minlength=len(self.count)).astype(np.float64)
        least = self.asked.least * (1.0 - COVER_ROOM)
        return bool(np.all(covered >= least) and np.all(covered <= self.asked.most) and np.all(used <= self.count))

    def realise(self, counts: Mapping[int, int]) -> tuple[float, Plan] | None:
        """Make a plan of a solution of the master.

        Parameters
        ----------
        counts
            GPUs by pattern.

        Returns
        -------
        tuple or None
            Its value, as the master counts it, and the plan; ``None`` if it is none after all: solvers round.
        """
        patterns = [self.master.patterns[c] for c in sorted(counts) for _ in range(counts[c])]
        if not self.complete(patterns):
            return None
        value = math.fsum(self.master.costs[c] * n for c, n in counts.items())
        return value, plan_of(self.instance.name, self.class_of, patterns, self.placed)

    def _pulled(self, relaxation: Relaxation, pull: float) -> Relaxation:
        if self.centre is None or pull == 0.0:
            return relaxation
        return replace(
            relaxation,
            workload_dual=pull * self.centre.workload_dual + (1.0 - pull) * relaxation.workload_dual,
            pool_dual=pull * self.centre.pool_dual + (1.0 - pull) * relaxation.pool_dual,
        )

    def _gains(self, priced: Priced, relaxation: Relaxation) -> bool:
        return any(self.reduced_cost(pattern, relaxation) < -1e-9 for pattern in priced.patterns)

    def reduced_cost(self, pattern: Pattern, relaxation: Relaxation) -> float:
        """What a pattern costs beyond what its workloads and its pool pay for it."""
        paid = float(relaxation.workload_dual @ self.amounts(pattern))
        return self.cost_of(pattern) - paid - float(relaxation.pool_dual[pattern.pool])

    def _improve_bound(self, duals: Relaxation, best_worth: Floats) -> None:
        found = float(self.dual_bound(duals, best_worth))
        if (found > self.bound) if self.minimised else (found < self.bound):
            self.bound, self.centre = found, duals

    def complete_below(self, worst: float) -> bool:
        """Add every pattern that plans of at most this cost, as the master counts it, hold; whether that was possible.

        A plan costs what the relaxation does and the reduced costs of its patterns. Once none is negative, none may
        exceed what the plan costs more than the relaxation.
        """
        gains = True
        while gains:
            gains = False
            relaxation = self.relaxation = self.master.relax()
            room = CLOSING_ROOM * (abs(worst) + abs(relaxation.value))
            slack = max(0.0, worst - self.dual_value(relaxation)) + room
            for pool in range(len(self.views)):
                found = self.patterns_within(slack, pool, relaxation)
                if found is None:
                    return False
                changed = [pattern for pattern in found if self.add([pattern])]
                # As many patterns of negative reduced cost as there are workloads still fit into the room.
                gains = gains or any(self.reduced_cost(p, relaxation) < -room / len(self.class_of) for p in changed)
        return True


def identical_workloads(instance: Instance) -> tuple[Ints, Ints, Ints]:
    """Group workloads of equal model, SLO and rate.

    Returns
    -------
    order
        Positions in the instance with identical workloads side by side, shape (workloads,).
    copy_of
        For each place in ``order`` the place before if identical, else -1.
    class_of
        Class of each workload, by position in the instance.
    """
    keys = [(w.model, w.slo_ms, w.rate_rps) for w in instance.workloads]
    classes = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    class_of = np.array([classes[key] for key in keys], dtype=np.int64)
    order = np.argsort(class_of, kind="stable").astype(np.int64)
    copy_of = np.full(len(order), -1, dtype=np.int64)
    same = class_of[order][1:] == class_of[order][:-1]
    copy_of[1:][same] = np.flatnonzero(same)
    return order, copy_of, class_of
