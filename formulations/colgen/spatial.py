"""Column generation for ``cost`` and ``goodput``: patterns at least shares, priced exactly."""

import math

import numpy as np
from numpy.typing import NDArray

from bench.api import Run
from formulations.colgen.bounds import cost_bound, value_bound
from formulations.colgen.generation import Generation
from formulations.colgen.master import Cover, Relaxation
from formulations.colgen.pricer import Pattern, Priced, Pricer
from instances import Instance
from instances.one_gpu import Resident, fit_gpu

Floats = NDArray[np.float64]

PATTERNS_PER_CALL, PATTERNS_PER_BOX = 500, 10
SEED_FILL, SEED_PATTERNS = 0.95, 3_000
CLOSING_PATTERNS, CLOSING_NODES = 20_000, 2_000_000


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

    def price_at(self, relaxation: Relaxation, tolerance: float, node_limit: int) -> list[Priced]:
        """Look for patterns that gain."""
        return [
            pricer.price(
                self._profit(pricer, relaxation.workload_dual),
                self.threshold(pricer.pool, relaxation, tolerance),
                node_limit,
                PATTERNS_PER_BOX,
                PATTERNS_PER_CALL,
            )
            for pricer in self.pricers
        ]

    def complete_within(self, slack: float) -> bool:
        """Add every pattern whose reduced cost is below ``slack``; whether that could be done."""
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
        """Return what the master asks for."""
        free = np.full_like(self.copies, np.inf)
        return Cover(self.class_of, self.copies, free, self.count, artificial_cost=10.0 * float(self.price.max()))

    def cost_of(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        return float(self.price[pattern.pool])

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        """Return the worth above which a pattern gains."""
        return float(self.price[pool] * (1.0 + tolerance) - relaxation.pool_dual[pool])

    def _profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        return self._dual_of_choice(pricer, workload_dual)

    def dual_bound(self, relaxation: Relaxation, best_worth: Floats) -> float:
        """Return the bound that duals and the best worth give."""
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
        """Return what the master asks for."""
        free = np.full_like(self.copies, -np.inf)
        return Cover(self.class_of, free, self.copies, self.count, artificial_cost=0.0)

    def cost_of(self, pattern: Pattern) -> float:
        """Return the cost of a pattern in the minimised master."""
        return -math.fsum(rate for _, _, rate in pattern.members)

    def threshold(self, pool: int, relaxation: Relaxation, tolerance: float) -> float:
        """Return the worth above which a pattern gains."""
        per_gpu = abs(relaxation.value) / max(1.0, float(self.count.sum()))
        return float(tolerance * per_gpu - relaxation.pool_dual[pool])

    def _profit(self, pricer: Pricer, workload_dual: Floats) -> Floats:
        return pricer.choices.rate_rps + self._dual_of_choice(pricer, workload_dual)

    def dual_bound(self, relaxation: Relaxation, best_worth: Floats) -> float:
        """Return the bound that duals and the best worth give."""
        return value_bound(-relaxation.workload_dual, self.copies, best_worth, self.count)
