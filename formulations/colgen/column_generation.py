"""Column generation: the linear relaxation over all patterns, with a certified bound after every iteration."""

import math
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import ClassVar

import numpy as np

from bench.api import Bound, Duals, ProofNode, Run
from formulations.colgen.bounded_search import BoundedSearch
from formulations.colgen.bounds import cost_bound, most_served, value_bound
from formulations.colgen.exchanges import served_by
from formulations.colgen.loop import Smoothing, StepResult, generate
from formulations.colgen.restricted_master import Covering, Pattern, Priced, Relaxation, RestrictedMaster
from instances import PART_STEPS, Gpulet, Instance, PlacedGpu, Plan, PlanClass
from instances.arrays import Floats, Ints
from instances.one_gpu import Resident, fit_gpu
from instances.view import View

COVER_ROOM = 1e-10
"""Relative tolerance for the rounding of sums of fractions of workloads."""

CLOSING_ROOM = 1e-6
"""Relative tolerance for the rounding of reduced costs when every pattern below a reduced cost is added."""


class ColumnGeneration(BoundedSearch):
    """Restricted master and pricing problems of one instance; subclasses by objective, plan class and rule.

    ``nodes`` is the number of nodes of pricing searches, for the statistics of a run.
    """

    plan_class: ClassVar[PlanClass] = PlanClass.SPATIAL
    """Class of the plans that the bound covers."""

    first_tolerance, last_tolerance = 0.02, 1e-6
    """First and last fraction of a GPU's worth by which a pattern must gain; ``_refine`` halves it."""

    diving_tolerance: float | None = 1e-3
    """Tolerance of the pricing in each step of diving; ``None`` to dive among the known patterns only."""

    smoothing_weight = 0.7
    """Initial weight of the stability centre's duals against the master's own."""

    first_node_limit, last_node_limit = 2_000, 200_000_000

    def __init__(self, instance: Instance, run: Run) -> None:
        super().__init__(instance, run)
        self.views = [View.of(instance, pool.type) for pool in instance.gpus]
        self.divisible = self.find_divisible()
        self.order, self.copy_of, self.class_of = identical_workloads(instance, self.divisible)
        self.copies = np.bincount(self.class_of).astype(np.float64)
        self.asked = self.cover()
        self.master = RestrictedMaster(self.asked, run.threads)
        self.relaxation: Relaxation | None = None
        self.smoothing = Smoothing(self.smoothing_weight)
        self.tolerance, self.node_limit = self.first_tolerance, self.first_node_limit
        self.bound = self.trivial_bound
        self.proof: list[ProofNode] = []
        self.nodes = 0
        self._cut_short = False

    # Parts that depend on the objective ------------------------------------------------------------------------

    @property
    def trivial_bound(self) -> float:
        """Bound before the first iteration: no cost, or the sum of all rates."""
        return 0.0 if self.minimised else most_served(self.instance)

    def cover(self) -> Covering:
        """Return the rows of the master."""
        raise NotImplementedError

    def cost_of(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        raise NotImplementedError

    def initial_columns(self) -> None:
        """Add the initial patterns to the master."""
        raise NotImplementedError

    def price_at(self, relaxation: Relaxation, tolerance: float, node_limit: int) -> list[Priced[Pattern]]:
        """Solve the pricing problem of every GPU type: find patterns that gain more than the tolerance."""
        raise NotImplementedError

    def dual_bound(self, relaxation: Relaxation, best_worth: Floats) -> float:
        """Return the bound on the objective from duals and an upper bound on the worth of every pattern at them."""
        if self.minimised:
            return cost_bound(relaxation.workload_dual, self.copies, best_worth, self.price, self.count)
        return value_bound(self.charge(relaxation), self.copies, best_worth, self.count)

    def charge(self, relaxation: Relaxation) -> Floats:
        """Return the charge for a workload of each class under a throughput objective, shape (classes,)."""
        return -relaxation.workload_dual

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        """Return the worth above which a pattern gains: the price, if any, minus the pool's dual, plus a tolerance."""
        if self.minimised:
            return float(self.price[pool] * (1.0 + tolerance) - relaxation.pool_dual[pool])
        return float(tolerance * self.mean_rps(relaxation) - relaxation.pool_dual[pool])

    def mean_rps(self, relaxation: Relaxation) -> float:
        """Return the mean throughput of a GPU, for a throughput objective."""
        return abs(relaxation.value) / max(1.0, float(self.count.sum()))

    def patterns_within(self, slack: float, pool: int, relaxation: Relaxation) -> list[Pattern] | None:
        """Return every pattern of a pool with a reduced cost of at most ``slack``; ``None`` if some may be missing."""
        return None

    def find_divisible(self) -> frozenset[int]:
        """Return the workloads that patterns may serve in parts, multiples of ``1 / PART_STEPS`` of the rate."""
        return frozenset()

    def certified(self, value: float) -> Bound:
        """Return a bound with the plans for which it holds."""
        return Bound(value, True, plan_class=self.plan_class)

    # Parts that all objectives share ---------------------------------------------------------------------------

    def add(self, patterns: Iterable[Pattern | None]) -> int:
        """Add patterns, leaving out ``None``, to the master; return how many were new or became much cheaper."""
        return sum(self.master.add(p, self.cost_of(p), self.amounts(p)) for p in patterns if p is not None)

    def learn(self, priced: list[Priced[Pattern]], duals: Relaxation) -> int:
        """Add the patterns of pricing at ``duals`` and improve the bound; return how many were new or much cheaper."""
        best_worth = np.array([each.bound for each in priced])
        bound = float(self.dual_bound(duals, best_worth))
        if self.better(bound, self.bound):
            self.bound, self.smoothing.stability_centre = bound, duals
            self.proof = [self.duals(duals, best_worth)]
        return sum(self.add(each.patterns) for each in priced)

    def amounts(self, pattern: Pattern) -> Floats:
        """Return the number of workloads of each class that a pattern covers, shape (classes,); parts are fractions."""
        held = np.zeros(len(self.copies))
        for w, _, rate in pattern.members:
            held[self.class_of[w]] += self.part(w, rate)
        return held

    def part(self, workload: int, rate_rps: float) -> float:
        """Return the part of a workload that a slot of this rate covers: all of it unless it is divisible."""
        return rate_rps / self.instance.workloads[workload].rate_rps if workload in self.divisible else 1.0

    def obstacle(self) -> str:
        """Return a one-line reason why no plan exists, judged from the initial patterns; empty if a plan may exist."""
        return ""

    def solve(self, finished: Callable[[], bool]) -> None:
        """Add patterns until none gains, the time is over, or ``finished()`` reports that the bound is good enough."""
        self.tolerance, self.node_limit = self.first_tolerance, self.first_node_limit
        self.generate(self.relaxed, finished)

    def relaxed(self) -> Relaxation:
        """Solve the relaxation of the master."""
        self.relaxation = self.master.relax()
        return self.relaxation

    def generate(self, relax: Callable[[], Relaxation], finished: Callable[[], bool]) -> None:
        """Add patterns that gain at the duals of ``relax()`` until none gains, the time is over, or ``finished()``.

        The node limit and the tolerance of pricing go on from the last call's.
        """
        self.smoothing.restore()
        generate(self.run, self.smoothing, relax, partial(self._step, finished), self._refine)

    def _step(self, finished: Callable[[], bool], relaxation: Relaxation, duals: Relaxation) -> StepResult:
        """Price at the smoothed duals, add the patterns and improve the bound."""
        priced = self.price_at(duals, self.tolerance, self.node_limit)
        self.iterations += 1
        self.nodes += sum(p.nodes for p in priced)
        new = self.learn(priced, duals)
        if finished():
            return StepResult.ENOUGH
        found = (pattern for each in priced for pattern in each.patterns)
        if new and (self.smoothing.weight == 0.0 or any(self.reduced_cost(p, relaxation) < -1e-9 for p in found)):
            return StepResult.GAIN
        least = [self.threshold(t, duals, self.tolerance) * (1.0 + 1e-12) for t in range(len(priced))]
        self._cut_short = any(p.bound > worth for p, worth in zip(priced, least, strict=True))
        return StepResult.NO_GAIN

    def _refine(self) -> bool:
        """Raise the node limit if it cut the last pricing short, else lower the tolerance; return whether one moved."""
        if self._cut_short and self.node_limit < self.last_node_limit:
            self.node_limit *= 10
        elif self.tolerance > self.last_tolerance:
            self.tolerance /= 2.0
        else:
            return False
        return True

    def starts(self) -> list[list[Pattern]]:
        """Return initial solutions, each as a list of known patterns: the run's start plan, if it is usable."""
        return self.start_from(self.run.start)

    def start_from(self, plan: Plan | None) -> list[list[Pattern]]:
        """Return the patterns of a plan as an initial solution; add those that are usable."""
        if plan is None:
            return []
        patterns = [self._pattern_of(gpu) for gpu in plan.gpus if gpu.gpulets]
        known = [pattern for pattern in patterns if pattern is not None]
        self.add(known)
        return [known] if len(known) == len(patterns) and self.complete(known) else []

    def _pattern_of(self, gpu: PlacedGpu) -> Pattern | None:
        """Return the content of a placed GPU as a pattern, or ``None`` if it is infeasible or not of the plan class."""
        pools = {pool.type.name: t for t, pool in enumerate(self.instance.gpus)}
        if gpu.type not in pools or any(len(gpulet.slots) != 1 for gpulet in gpu.gpulets):
            return None
        view = self.views[pools[gpu.type]]
        for gpulet in gpu.gpulets:
            w = self.instance.workload_index.get(gpulet.slots[0].workload)
            if w is None or not 1 <= gpulet.slots[0].batch <= view.tables.max_batch[view.model[w]]:
                return None
        return self._pattern_of_gpulets(pools[gpu.type], gpu.gpulets)

    def _pattern_of_gpulets(self, pool: int, gpulets: tuple[Gpulet, ...]) -> Pattern | None:
        where, slots = self.instance.workload_index, [gpulet.slots[0] for gpulet in gpulets]
        members = sorted((where[slot.workload], slot.batch, slot.rate_rps) for slot in slots)
        return self.pattern_if_feasible(pool, tuple(members))

    def pattern_if_feasible(self, pool: int, members: tuple[tuple[int, int, float], ...]) -> Pattern | None:
        """Return the pattern of these members, or ``None`` if they do not fit on one GPU or violate the objective."""
        if len({w for w, _, _ in members}) < len(members):
            return None  # parts of a workload are on different GPUs
        residents = [Resident(*member) for member in members]
        return Pattern(pool, members) if fit_gpu(self.views[pool], residents) is not None else None

    def placed(self, pattern: Pattern, residents: list[Resident]) -> PlacedGpu | None:
        """Return a GPU with these residents of a pattern; ``None`` if they do not fit."""
        return fit_gpu(self.views[pattern.pool], residents)

    def dual_value(self, relaxation: Relaxation) -> float:
        """Return the value of the master's dual at the duals of a relaxation, at most the relaxation's own value.

        A coverage dual above the cost of an artificial column counts as that cost.
        """
        workload = np.minimum(relaxation.workload_dual, self.asked.artificial_cost)
        limited = np.isfinite(self.count)
        terms = [*(workload * self.copies), *(relaxation.pool_dual[limited] * self.count[limited])]
        return min(relaxation.value, math.fsum(terms))

    def complete(self, patterns: list[Pattern]) -> bool:
        """Return whether these patterns form a plan: every class covered as required, within the pools."""
        covered = np.sum([self.amounts(p) for p in patterns], axis=0) if patterns else np.zeros_like(self.copies)
        used = np.bincount([p.pool for p in patterns], minlength=len(self.count)).astype(np.float64)
        least = self.asked.least * (1.0 - COVER_ROOM)
        return bool(np.all(covered >= least) and np.all(covered <= self.asked.most) and np.all(used <= self.count))

    def own_slots(self, counts: dict[int, int]) -> dict[int, int]:
        """Return the solution with patterns of the workloads that its slots serve, where the master exchanged some."""
        patterns, serves = self.master.chosen(counts), self.asked.serves
        if serves is None or self.complete(patterns):
            return counts
        own = self.serving(patterns, served_by(serves, self.class_of, patterns))
        self.add(own)
        return self.master.counts(own)

    def serving(self, patterns: list[Pattern], served: list[int]) -> list[Pattern]:
        """Return the patterns of the workloads that the slots of ``patterns`` serve: see ``served_by``."""
        raise NotImplementedError

    def realise(self, counts: Mapping[int, int]) -> tuple[float, Plan] | None:
        """Turn a solution of the master, the number of GPUs by pattern, into a plan.

        Returns
        -------
        tuple or None
            The value in the master, and the plan; ``None`` if rounding made the solution infeasible.
        """
        patterns = self.master.chosen(counts)
        if not self.complete(patterns):
            return None
        plan = self._plan_of(patterns)
        if plan is None:
            return None
        try:
            return math.fsum(float(self.master.costs[c]) * n for c, n in counts.items()), plan
        except OverflowError:  # the sum exceeds the largest float
            return math.inf, plan

    def _plan_of(self, patterns: list[Pattern]) -> Plan | None:
        """Build the plan with one GPU per pattern; a workload that several patterns cover is placed once.

        The result is ``None`` if a GPU is not feasible any more when residents have left it.
        """
        whole_rps = {w: self.instance.workloads[w].rate_rps for w in self.divisible}
        left_rps = whole_rps.copy()
        waiting: dict[int, deque[int]] = defaultdict(deque)
        for workload, group in enumerate(self.class_of):
            waiting[int(group)].append(workload)
        gpus = []
        for pattern in patterns:
            residents = []
            for w, batch, rate in pattern.members:
                of_class = waiting[int(self.class_of[w])]
                if w in left_rps:
                    served = min(rate, left_rps[w])
                    left_rps[w] -= served
                    if served > COVER_ROOM * whole_rps[w]:
                        residents.append(Resident(w, batch, served))
                elif of_class:
                    residents.append(Resident(of_class.popleft(), batch, rate))
            if residents:
                gpu = self.placed(pattern, residents)
                if gpu is None:
                    return None
                gpus.append(gpu)
        return Plan(self.instance.name, tuple(gpus))

    def reduced_cost(self, pattern: Pattern, relaxation: Relaxation) -> float:
        """Return the reduced cost: the pattern's cost minus the duals of its workloads and its pool."""
        paid = float(relaxation.workload_dual @ self.amounts(pattern))
        return self.cost_of(pattern) - paid - float(relaxation.pool_dual[pattern.pool])

    def duals(self, relaxation: Relaxation, best_worth: Floats) -> Duals:
        """Return the duals of a bound as a node of its proof."""
        dual = relaxation.workload_dual if self.minimised else self.charge(relaxation)
        return Duals(tuple(dual[self.class_of].tolist()), tuple(best_worth.tolist()))

    def complete_below(self, worst: float) -> bool:
        """Add every pattern that a plan of master cost at most ``worst`` can hold; return whether all were found.

        A plan costs the relaxation's value plus the reduced costs of its patterns. If none is negative, each is at most
        the difference between the plan's cost and the relaxation's value.
        """
        gains = True
        while gains:
            gains = False
            relaxation = self.relaxed()
            room = CLOSING_ROOM * (abs(worst) + abs(relaxation.value))
            slack = max(0.0, worst - self.dual_value(relaxation)) + room
            for pool in range(len(self.views)):
                found = self.patterns_within(slack, pool, relaxation)
                if found is None:
                    return False
                changed = [pattern for pattern in found if self.add([pattern])]
                # A plan has at most one pattern per workload, or per step of a divisible one: smaller reduced costs
                # sum to at most the tolerance.
                most = len(self.class_of) + PART_STEPS * len(self.divisible)
                gains = gains or any(self.reduced_cost(p, relaxation) < -room / most for p in changed)
        return True


def identical_workloads(instance: Instance, apart: Collection[int] = ()) -> tuple[Ints, Ints, Ints]:
    """Group workloads of equal model, SLO and rate; those in ``apart`` are each a class of their own.

    Returns
    -------
    order
        Positions in the instance with identical workloads adjacent, shape (workloads,).
    copy_of
        For each place in ``order`` the preceding place if its workload is identical, else -1.
    class_of
        Class of each workload, by position in the instance.
    """
    keys = [
        (w.model, w.slo_ms, w.rate_rps, w.id if position in apart else "")
        for position, w in enumerate(instance.workloads)
    ]
    classes = {key: number for number, key in enumerate(dict.fromkeys(keys))}
    class_of = np.array([classes[key] for key in keys], dtype=np.int64)
    order = np.argsort(class_of, kind="stable").astype(np.int64)
    copy_of = np.full(len(order), -1, dtype=np.int64)
    same = class_of[order][1:] == class_of[order][:-1]
    copy_of[1:][same] = np.flatnonzero(same)
    return order, copy_of, class_of
