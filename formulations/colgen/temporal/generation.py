"""Column generation over relaxed contents of GPUs: certified bounds on plans whose slots may take turns."""

import math
from collections.abc import Callable
from typing import ClassVar, NamedTuple

import numpy as np

from bench.api import Run
from formulations.colgen.bounded_search import BoundedSearch
from formulations.colgen.bounds import SAFETY, cost_bound, value_bound
from formulations.colgen.loop import Smoothing, StepResult, generate
from formulations.colgen.restricted_master import LinearMaster, Priced, Relaxation
from formulations.colgen.temporal.gpulet_positions import MARGIN, SLOTS, Worth
from formulations.colgen.temporal.pricer import RelaxedGpu, TemporalPricer
from instances import GOODPUT_STEP, Instance, Objective, SloRule
from instances.arrays import Floats
from instances.view import View

GOOD_ENOUGH = 1e-4
"""Relative gap between the restricted master and the bound at which column generation stops."""

SMOOTHING_WEIGHT, LEAST_SMOOTHING = 0.5, 0.1
"""Weight of the stability centre's duals, and the weight up to which ``weaken`` turns to the master's own duals."""

FAR_ABOVE = 1e4
"""Cost of leaving a workload unserved, relative to the largest price, or under ``capacity`` to the largest rate."""

ANOTHER_ROUND = 1e-3
"""Least relative decrease of ``most_served`` after which another round follows."""


class ContentColumn(NamedTuple):
    """Content of a GPU as the master sees it.

    Attributes
    ----------
    pool
        Index of the GPU type.
    served
        Fraction of each workload's rate that it serves, shape (workloads,).
    throughput_rps
        Requests per second that its slots complete when busy all the time.
    least
        Least fraction of each workload's rate that it must get, shape (workloads,); ``None`` for 0.
    """

    pool: int
    served: Floats
    throughput_rps: float
    least: Floats | None = None


class TemporalGeneration(BoundedSearch):
    """Column generation over contents; one subclass per objective.

    Parameters
    ----------
    instance
        Instance with workloads; its rule is analytic.
    slots
        Largest number of slots of a gpulet: 1, or 3.

    Attributes
    ----------
    columns
        Every known content of a GPU; those of a known plan give duals of the right size from the beginning.
    stability_centre
        Solution of the master with the duals of the best bound.
    """

    agreement: ClassVar[float] = 2e-6  # relaxed times are too short by ``MARGIN``

    def __init__(self, instance: Instance, run: Run, slots: int = SLOTS) -> None:
        super().__init__(instance, run)
        self.slots = slots
        self.rate_rps = np.array([workload.rate_rps for workload in instance.workloads])
        self.pricers = [TemporalPricer(View.of(instance, pool.type), slots) for pool in instance.gpus]
        self.columns: list[ContentColumn] = []
        self.stability_centre: Relaxation | None = None

    # Parts that depend on the objective ------------------------------------------------------------------------

    throughput: ClassVar[float] = 0.0
    """Worth of a unit of throughput."""

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        raise NotImplementedError

    def worth(self, dual: Floats) -> Floats:
        """Return the worth of each workload served in full at the duals of their rows, beyond that of throughput."""
        return dual

    def cost_of(self, column: ContentColumn) -> float:
        """Return the cost of a content in the minimised master."""
        raise NotImplementedError

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from duals and an upper bound on the worth of every content on each GPU type."""
        raise NotImplementedError

    def most_served(self) -> float:
        """Return the fraction of a workload's rate beyond which service does not count."""
        return 1.0

    def worth_at(self, dual: Floats, most: float | None = None) -> Worth:
        """Return the worth of a GPU's rates at the duals, of which at most ``most`` of each workload counts."""
        goodput = self.instance.objective is Objective.GOODPUT
        return Worth(
            np.maximum(self.worth(dual), 0.0) / self.rate_rps,
            (self.most_served() if most is None else most) * self.rate_rps,
            self.rate_rps * (GOODPUT_STEP if goodput else 0.0),
            self.throughput,
        )

    def tighten(self, bound: float, known: float, tolerance: float) -> None:
        """Improve the bound to ``bound``, which holds for all plans better than the value ``known``."""
        if self.minimised:
            self.bound = max(self.bound, min(bound * (1.0 - tolerance), known))
        else:
            self.bound = min(self.bound, max(bound * (1.0 + tolerance), known))

    # Parts that all objectives share ---------------------------------------------------------------------------

    def solve(self, report: Callable[[], None]) -> None:
        """Add contents until none improves the bound or the time is over; call ``report`` after every better bound.

        The first round uses quick limits on turns, so that a bound exists even if the time is short.
        """
        closely = False
        while self.run.remaining_s > 0.0:
            most = self.most_served()
            self._round(most, closely, report)
            if closely and self.most_served() >= most * (1.0 - ANOTHER_ROUND):
                return
            closely = True

    def _round(self, most: float, closely: bool, report: Callable[[], None]) -> None:
        """Add contents that serve at most ``most`` of each workload's rate, starting from those of the last round."""
        master = self.restricted_master()
        if not closely:
            self.columns += self.initial_columns(most)
        for column in self.columns:
            self.add_to(master, column, most)
        # With a weight of 1, the first duals that are priced are those of the best bound so far.
        smoothing = Smoothing(SMOOTHING_WEIGHT, LEAST_SMOOTHING, 1.0, self.stability_centre)
        best: float | None = None

        def step(relaxation: Relaxation, duals: Relaxation) -> StepResult:
            nonlocal best
            dual = duals.workload_dual[: len(self.rate_rps)]
            priced = self.priced(dual, most, closely)
            self.iterations += 1
            bound = self.dual_bound(dual, np.array([each.bound for each in priced]))
            if best is None or self.better(bound, best):
                best, smoothing.stability_centre = bound, duals
            if self.better(bound, self.bound):
                self.bound, self.stability_centre = bound, duals
                report()
            value = relaxation.value if self.minimised else -relaxation.value
            if abs(value - best) <= GOOD_ENOUGH * abs(best):
                return StepResult.ENOUGH
            columns = [
                ContentColumn(t, gpu.served_rps / self.rate_rps, gpu.throughput_rps)
                for t, each in enumerate(priced)
                for gpu in each.patterns
            ]
            gains = [self._add(master, relaxation, column) for column in columns]
            return StepResult.GAIN if any(gains) or smoothing.weight == 1.0 else StepResult.NO_GAIN

        generate(self.run, smoothing, master.relax, step, refine=lambda: False)

    def priced(self, dual: Floats, most: float, closely: bool) -> list[Priced[RelaxedGpu]]:
        """Solve the pricing problem of every GPU type."""
        worth = self.worth_at(dual, most)
        return [pricer.price(worth, closely, self.run.deadline) for pricer in self.pricers]

    def add_to(self, master: LinearMaster, column: ContentColumn, most: float = math.inf) -> None:
        """Add a content that serves at most ``most`` of each workload's rate to a master."""
        capped = column._replace(served=np.minimum(column.served, most))
        amounts = capped.served
        if self.waits_for_batch:
            least = np.zeros(len(self.rate_rps)) if column.least is None else column.least
            amounts = np.concatenate([amounts, least])
        master.add_column(self.cost_of(capped), amounts, column.pool)

    def _rows(self, least: Floats, most: Floats) -> LinearMaster:
        """Return a master with a row per workload, and another for the least rates of its slots where these matter."""
        if self.waits_for_batch:
            least = np.concatenate([least, np.full(len(least), -np.inf)])
            most = np.concatenate([most, np.full(len(most), 1.0 + MARGIN)])
        return LinearMaster(least, most, self.count, self.run.threads)

    def _all_served(self, unserved_cost: float) -> LinearMaster:
        """Return a master in which every workload is served in full, or at this cost not at all."""
        served = np.ones(len(self.rate_rps))
        master = self._rows(served, np.full_like(served, np.inf))
        for row in np.eye(len(served)):
            master.add_column(unserved_cost, row)
        return master

    @property
    def waits_for_batch(self) -> bool:
        """Whether low rates violate an SLO, and the rates that arrive are given."""
        return self.instance.slo_rule is SloRule.ASSEMBLY and self.instance.objective is not Objective.SCALE

    def unservable(self) -> list[int]:
        """Return the workloads that no GPU type serves at any rate, ascending positions."""
        every = range(len(self.rate_rps))
        served = [pricer.alone(w, self.rate_rps) > 0.0 for pricer in self.pricers for w in every]
        return np.flatnonzero(~np.array(served, dtype=bool).reshape(-1, len(every)).any(axis=0)).tolist()

    def initial_columns(self, most: float) -> list[ContentColumn]:
        """Return the contents that serve a single workload, at most ``most`` of its rate."""
        columns: list[ContentColumn] = []
        for t, pricer in enumerate(self.pricers):
            rates = [pricer.alone(w, most * self.rate_rps) for w in range(len(self.rate_rps))]
            columns += [ContentColumn(t, alone, 0.0) for alone in np.diag(np.array(rates) / self.rate_rps)]
        return columns

    def _add(self, master: LinearMaster, relaxation: Relaxation, column: ContentColumn) -> bool:
        """Add a content; return whether it gains at the master's own duals."""
        cost, pool_dual = self.cost_of(column), float(relaxation.pool_dual[column.pool])
        self.add_to(master, column)
        self.columns.append(column)
        gain = float(relaxation.workload_dual[: len(self.rate_rps)] @ column.served) + pool_dual - cost
        return gain > GOOD_ENOUGH * (abs(cost) + abs(pool_dual))


class TemporalCostGeneration(TemporalGeneration):
    """Bounds on ``cost``: every workload is served in full."""

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        return self._all_served(FAR_ABOVE * float(self.price.max()))

    def cost_of(self, column: ContentColumn) -> float:
        """Return the cost of a content."""
        return float(self.price[column.pool])

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from the duals and the best worth."""
        return cost_bound(dual, np.ones(len(dual)), best_worth, self.price, self.count)


class TemporalGoodputGeneration(TemporalGeneration):
    """Bounds on ``goodput``: serve the most requests."""

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        served = np.ones(len(self.rate_rps))
        master = self._rows(np.full_like(served, -np.inf), served)
        for rate_rps, row in zip(self.rate_rps, np.eye(len(served)), strict=True):
            master.add_column(float(rate_rps), -row)
        return master

    def worth(self, dual: Floats) -> Floats:
        """Return the worth of each workload served in full."""
        return self.rate_rps + np.minimum(dual, 0.0)

    def cost_of(self, column: ContentColumn) -> float:
        """Return the cost of a content."""
        return -float(self.rate_rps @ column.served)

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from the duals and the best worth."""
        return value_bound(-np.minimum(dual, 0.0), np.full(len(dual), 1.0 + MARGIN), best_worth, self.count)


class TemporalScaleGeneration(TemporalGeneration):
    """Bounds on ``scale``: serve the same multiple of every rate."""

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        served = np.zeros(len(self.rate_rps))
        master = self._rows(served, np.full_like(served, np.inf))
        master.add_column(-1.0, np.full_like(served, -1.0))
        return master

    def cost_of(self, column: ContentColumn) -> float:
        """Return the cost of a content."""
        return 0.0

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from the duals and the best worth.

        At the duals ``pi`` a multiple s of all rates is worth ``s sum(pi)``, and a GPU of type t serves at most
        ``v_t``.
        """
        paid = math.fsum(np.maximum(dual, 0.0))
        if paid <= 0.0:
            return math.inf
        return value_bound(np.zeros(len(dual)), np.zeros(len(dual)), best_worth, self.count) / paid * (1.0 + SAFETY)

    def most_served(self) -> float:
        """Return the bound: a plan of a scale below it gains nothing from serving more."""
        return self.bound


class TemporalCapacityGeneration(TemporalGeneration):
    """Bounds on ``capacity``: every workload is served, and the slots complete the most requests."""

    throughput = 1.0

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        return self._all_served(FAR_ABOVE * float(self.rate_rps.max()))

    def cost_of(self, column: ContentColumn) -> float:
        """Return the cost of a content."""
        return -column.throughput_rps

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from the duals and the best worth."""
        return value_bound(-np.maximum(dual, 0.0), np.full(len(dual), 1.0 - MARGIN), best_worth, self.count)

    def most_served(self) -> float:
        """Return infinity: a workload's slots may complete more requests than arrive."""
        return math.inf


TEMPORAL_GENERATIONS: dict[Objective, type[TemporalGeneration]] = {
    Objective.COST: TemporalCostGeneration,
    Objective.GOODPUT: TemporalGoodputGeneration,
    Objective.SCALE: TemporalScaleGeneration,
    Objective.CAPACITY: TemporalCapacityGeneration,
}
