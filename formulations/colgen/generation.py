"""Column generation: the linear relaxation over all patterns, with a certified bound at every step."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from bench.api import Run
from formulations.colgen.bounds import cost_bound, value_bound
from formulations.colgen.capacity import CapacityPricer, Filled
from formulations.colgen.master import Cover, Master, Relaxation
from formulations.colgen.pricer import NO_PAIRS, Pattern, Priced, Pricer
from formulations.colgen.search import Pairs
from instances import Instance, Objective
from instances.one_gpu import Resident, fit_gpu
from instances.view import View

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIRST_TOLERANCE = 0.02
"""A pattern is looked for when it gains at least this fraction of a GPU's worth; halved whenever none does."""

PATTERNS_PER_CALL, PATTERNS_PER_BOX = 500, 10
SEED_FILL, SEED_PATTERNS = 0.95, 3_000
CLOSING_PATTERNS, CLOSING_NODES = 20_000, 2_000_000
SEED_TIME_FRACTION, SEED_TIME_MOST_S = 0.2, 60.0


@dataclass(slots=True)
class Tally:
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

    first_node_limit = 2_000
    last_tolerance = 1e-6
    last_node_limit = 200_000_000

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance = instance
        self.run = run
        self.views = [View.of(instance, pool.type) for pool in instance.gpus]
        self.price = np.array([pool.type.price_per_hour for pool in instance.gpus])
        self.count = np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])
        self.order, self.copy_of, self.class_of = identical_workloads(instance)
        self.copies = np.bincount(self.class_of).astype(np.float64)
        self.master = Master(self.cover(), run.threads)
        self.relaxation: Relaxation | None = None
        self.bound = self.trivial_bound
        self.tally = Tally()

    # What an objective decides ----------------------------------------------------------------------------------

    trivial_bound: float
    """The bound before anything is known."""

    def cover(self) -> Cover:
        """What the master asks for."""
        raise NotImplementedError

    def cost_of(self, pattern: Pattern) -> float:
        """Cost of a pattern in the minimised master."""
        raise NotImplementedError

    def seed(self) -> None:
        """Give the master patterns to start from."""
        raise NotImplementedError

    def price_at(
        self, relaxation: Relaxation, tolerance: float, node_limit: int, pairs: Pairs = NO_PAIRS
    ) -> list[Priced]:
        """Look, on every GPU type, for patterns that gain at the given duals by more than the tolerance."""
        raise NotImplementedError

    def dual_bound(self, relaxation: Relaxation, best_worth: Floats) -> float:
        """Bound on the objective from duals and a bound on the worth of every pattern at them."""
        raise NotImplementedError

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        """Worth above which a pattern of a pool gains: what its GPU costs and its pool charges, and the tolerance."""
        raise NotImplementedError

    # What they share --------------------------------------------------------------------------------------------

    @property
    def minimised(self) -> bool:
        """Whether the instance's own objective is minimised, as the master's always is."""
        return self.instance.objective.minimised

    def add(self, patterns: list[Pattern]) -> int:
        """Add patterns to the master; how many were new."""
        return sum(self.master.add(pattern, self.cost_of(pattern)) for pattern in patterns)

    def solve(self, finished: Callable[[], bool]) -> None:
        """Generate patterns until none gains, time is up or ``finished()`` says that the bound is good enough."""
        tolerance, node_limit = FIRST_TOLERANCE, self.first_node_limit
        while self.run.remaining_s > 0.0:
            self.relaxation = self.master.relax()
            priced = self.price_at(self.relaxation, tolerance, node_limit)
            self.tally.iterations += 1
            self.tally.nodes += sum(p.nodes for p in priced)
            new = sum(self.add(p.patterns) for p in priced)
            best_worth = np.array([p.bound for p in priced])
            if np.isfinite(best_worth).all():
                found = self.dual_bound(self.relaxation, best_worth)
                self.bound = max(self.bound, found) if self.minimised else min(self.bound, found)
            if finished():
                return
            if new:
                continue
            cut_short = any(
                p.bound > self.threshold(t, self.relaxation, tolerance) * (1.0 + 1e-12) for t, p in enumerate(priced)
            )
            if cut_short and node_limit < self.last_node_limit:
                node_limit *= 10
            elif tolerance > self.last_tolerance:
                tolerance /= 2.0
            else:
                return

    def complete_within(self, slack: float) -> bool:
        """Add every pattern whose reduced cost is below ``slack``; whether that could be done.

        A plan worth ``slack`` more than the linear relaxation holds no other patterns.
        """
        return False


class _SpatialGeneration(Generation):
    """What ``cost`` and ``goodput`` share: exact pricing over (workload, rate) choices at least shares."""

    def __init__(self, instance: Instance, run: Run) -> None:
        super().__init__(instance, run)
        self.pricers = [Pricer(view, t, self.order, self.copy_of) for t, view in enumerate(self.views)]
        self.seed()

    def seed(self) -> None:
        """Start with each choice alone, and with what fills a GPU if everyone pays for its least share."""
        for pricer in self.pricers:
            choices, full = pricer.choices, pricer.tables.share_units
            first = choices.option[:-1]
            alone = [
                Pattern(pricer.pool, ((int(pricer.workloads[choices.workload[k]]), int(choices.batch[o]), rate),))
                for k, (o, rate) in enumerate(zip(first, choices.rate_rps.tolist(), strict=True))
            ]
            self.add([pattern for pattern in alone if self._runs_alone(pattern)])
            if self.minimised and len(first):
                share = np.minimum.reduceat(choices.lower_units, first) / (SEED_FILL * full)
                self.add(pricer.price(share, 1.0, self.first_node_limit, stop_after=SEED_PATTERNS).patterns)

    def _runs_alone(self, pattern: Pattern) -> bool:
        """Whether a single resident fits with its own power, which its least share alone does not look at."""
        return fit_gpu(self.views[pattern.pool], [Resident(*member) for member in pattern.members]) is not None

    def price_at(
        self, relaxation: Relaxation, tolerance: float, node_limit: int, pairs: Pairs = NO_PAIRS
    ) -> list[Priced]:
        return [
            pricer.price(
                self._profit(pricer, relaxation.workload_dual),
                self.threshold(pricer.pool, relaxation, tolerance),
                node_limit,
                PATTERNS_PER_BOX,
                PATTERNS_PER_CALL,
                pairs,
            )
            for pricer in self.pricers
        ]

    def complete_within(self, slack: float) -> bool:
        self.relaxation = self.master.relax()
        for pricer in self.pricers:
            threshold = max(0.0, self.threshold(pricer.pool, self.relaxation, 0.0) - slack)
            profit = self._profit(pricer, self.relaxation.workload_dual)
            limit = CLOSING_PATTERNS
            priced = pricer.price(profit, threshold, CLOSING_NODES, limit, limit)
            self.tally.nodes += priced.nodes
            self.add(priced.patterns)
            if len(priced.patterns) == limit or priced.bound == math.inf or priced.cut_short:
                return False
        return True

    def _profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        raise NotImplementedError

    def _dual_of_choice(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        return workload_dual[self.class_of[pricer.workloads[pricer.choices.workload]]]


class CostGeneration(_SpatialGeneration):
    """``cost``: cover every workload at its full rate with the cheapest GPUs."""

    trivial_bound = 0.0

    def cover(self) -> Cover:
        free = np.full_like(self.copies, np.inf)
        return Cover(self.class_of, self.copies, free, self.count, artificial_cost=10.0 * float(self.price.max()))

    def cost_of(self, pattern: Pattern) -> float:
        return float(self.price[pattern.pool])

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        return float(self.price[pool] * (1.0 + tolerance) - relaxation.pool_dual[pool])

    def _profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        return self._dual_of_choice(pricer, workload_dual)

    def dual_bound(self, relaxation: Relaxation, best_worth: Floats) -> float:
        return cost_bound(relaxation.workload_dual, self.copies, best_worth, self.price, self.count)

    def reduced_cost(self, pattern: Pattern, relaxation: Relaxation) -> float:
        """What a pattern costs beyond what its workloads pay for it."""
        paid = math.fsum(relaxation.workload_dual[self.class_of[w]] for w, _, _ in pattern.members)
        return self.cost_of(pattern) - paid - float(relaxation.pool_dual[pattern.pool])

    def unservable(self) -> list[int]:
        """Workloads that no GPU type serves at their full rate, ascending positions."""
        served = {pattern.members[0][0] for pattern in self.master.patterns if len(pattern.members) == 1}
        classes = {int(self.class_of[w]) for w in served}
        return [w for w in range(len(self.class_of)) if int(self.class_of[w]) not in classes]


class GoodputGeneration(_SpatialGeneration):
    """``goodput``: serve the most requests, workloads in part or not at all."""

    trivial_bound = math.inf

    def cover(self) -> Cover:
        free = np.full_like(self.copies, -np.inf)
        return Cover(self.class_of, free, self.copies, self.count, artificial_cost=0.0)

    def cost_of(self, pattern: Pattern) -> float:
        return -math.fsum(rate for _, _, rate in pattern.members)

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        per_gpu = abs(relaxation.value) / max(1.0, float(self.count.sum()))
        return float(tolerance * per_gpu - relaxation.pool_dual[pool])

    def _profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        return pricer.choices.rate_rps + self._dual_of_choice(pricer, workload_dual)

    def dual_bound(self, relaxation: Relaxation, best_worth: Floats) -> float:
        return value_bound(-relaxation.workload_dual, self.copies, best_worth, self.count)


class CapacityGeneration(Generation):
    """``capacity``: place every workload once, for the most throughput."""

    trivial_bound = math.inf
    first_node_limit = 200
    last_tolerance = 1e-4
    last_node_limit = 20_000

    def __init__(self, instance: Instance, run: Run) -> None:
        self._throughput: dict[Pattern, float] = {}
        super().__init__(instance, run)
        self.pricers = [CapacityPricer(view, t) for t, view in enumerate(self.views)]
        self.seed()

    def cover(self) -> Cover:
        # Far above the throughput that any placement could give up for the sake of another.
        most_rps = 1000.0 * max(
            float(np.max(view.tables.max_batch / np.min(view.tables.active_ms[:, 1:, 1:], axis=(1, 2))))
            for view in self.views
        )
        return Cover(self.class_of, self.copies, self.copies, self.count, artificial_cost=10.0 * most_rps)

    def cost_of(self, pattern: Pattern) -> float:
        return -self._throughput[pattern]

    def seed(self) -> None:
        """Start with each workload alone, and with the tightest GPUs that the same workloads make under ``cost``.

        Shares that tight GPUs save are whole GPUs for those who turn shares into the most throughput.
        """
        for pricer in self.pricers:
            for w in range(len(self.instance.workloads)):
                self._add_filled(pricer, (w,))
        deadline = time.monotonic() + SEED_TIME_FRACTION * min(self.run.remaining_s, SEED_TIME_MOST_S)
        tight = CostGeneration(replace(self.instance, objective=Objective.COST), replace(self.run, deadline=deadline))
        tight.solve(lambda: False)
        relaxation = tight.master.relax()
        for pattern in sorted(tight.master.patterns, key=lambda p: tight.reduced_cost(p, relaxation))[:SEED_PATTERNS]:
            self._add_filled(self.pricers[pattern.pool], tuple(w for w, _, _ in pattern.members))

    def _add_filled(self, pricer: CapacityPricer, workloads: tuple[int, ...]) -> bool:
        filled = pricer.fill(tuple(sorted(workloads)))
        if filled is None:
            return False
        self.add([self._pattern(filled)])
        return True

    def _pattern(self, filled: Filled) -> Pattern:
        rates = [self.instance.workloads[w].rate_rps for w in filled.workload]
        pattern = Pattern(filled.pool, tuple(zip(filled.workload, filled.batch, rates, strict=True)))
        self._throughput[pattern] = filled.throughput_rps
        return pattern

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        per_gpu = abs(relaxation.value) / max(1.0, float(self.count.sum()))
        return float(tolerance * per_gpu - relaxation.pool_dual[pool])

    def price_at(
        self, relaxation: Relaxation, tolerance: float, node_limit: int, pairs: Pairs = NO_PAIRS
    ) -> list[Priced]:
        priced = []
        charge = -relaxation.workload_dual[self.class_of]
        for pricer in self.pricers:
            bound, filled, nodes = pricer.price(
                charge,
                self.threshold(pricer.pool, relaxation, tolerance),
                node_limit > self.first_node_limit,
                node_limit,
            )
            priced.append(Priced(bound, [self._pattern(f) for f in filled], nodes, cut_short=False))
        return priced

    def dual_bound(self, relaxation: Relaxation, best_worth: Floats) -> float:
        return value_bound(-relaxation.workload_dual, self.copies, best_worth, self.count)


def generation_for(instance: Instance, run: Run) -> Generation:
    """Return the generation for the instance's objective."""
    kinds: dict[Objective, type[Generation]] = {
        Objective.COST: CostGeneration,
        Objective.GOODPUT: GoodputGeneration,
        Objective.CAPACITY: CapacityGeneration,
    }
    return kinds[instance.objective](instance, run)


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
