"""Column generation for plans that take turns: certified bounds on ``cost``, ``goodput`` and ``scale``, no plan."""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from bench.api import Bound, Outcome, Run, Status
from formulations.colgen.bounds import SAFETY, cost_bound, value_bound
from formulations.colgen.column_generation import Smoothing
from formulations.colgen.restricted_master import LinearMaster, Relaxation
from formulations.colgen.temporal.gpulet_positions import MARGIN
from formulations.colgen.temporal.pricer import TemporalPricer
from formulations.colgen.temporal.turns import SLOTS
from formulations.problem import TOO_FEW
from instances import Instance, Objective, Plan, PlanClass, SloRule
from instances.arrays import Floats
from instances.view import View

GOOD_ENOUGH = 1e-4
"""Relative gap between the restricted master and the bound at which column generation stops."""

SMOOTHING_WEIGHT, LEAST_SMOOTHING = 0.5, 0.1
"""Weight of the stability centre's duals, and the weight below which the master's own duals are used."""

FAR_ABOVE = 1e4
"""Cost of leaving a workload unserved, in GPUs."""

ANOTHER_ROUND = 1e-3
"""Relative decrease of the fraction that counts above which another round follows."""


class TemporalGeneration:
    """Column generation over contents, and the best bound so far; one subclass per objective.

    Parameters
    ----------
    instance
        Instance with workloads; its rule is not ``p99``.
    run
        Limits of the run.

    Attributes
    ----------
    bound
        Bound on the instance's own objective.
    iterations
        Number of solutions of the restricted master so far.
    columns
        Pool, and served fraction of each workload, of every known content of a GPU.
    stability_centre
        Solution of the master with the duals of the best bound.
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance, self.run = instance, run
        self.rate_rps = np.array([workload.rate_rps for workload in instance.workloads])
        self.price = np.array([pool.type.price_per_hour for pool in instance.gpus])
        self.count = np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])
        self.pricers = [TemporalPricer(View.of(instance, pool.type)) for pool in instance.gpus]
        self.bound = -math.inf if self.minimised else math.inf
        self.iterations = 0
        self.columns: list[tuple[int, Floats]] = []
        self.stability_centre: Relaxation | None = None

    # Parts that depend on the objective ------------------------------------------------------------------------

    minimised: ClassVar[bool] = False

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        raise NotImplementedError

    def worth(self, dual: Floats) -> Floats:
        """Return the worth of each workload served in full, at the duals of their rows."""
        raise NotImplementedError

    def cost_of(self, pool: int, served: Floats) -> float:
        """Return the cost of a content in the minimised master; ``served`` are fractions of the workloads' rates."""
        raise NotImplementedError

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from duals and an upper bound on the worth of every content on each GPU type."""
        raise NotImplementedError

    def most_served(self) -> float:
        """Return the fraction of a workload's rate beyond which service does not count."""
        return 1.0

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
        if not self.columns:
            self.columns = self.initial_columns(most)
        for t, served in self.columns:
            master.add_column(self.cost_of(t, np.minimum(served, most)), np.minimum(served, most), t)
        # At first the duals of the best bound so far are priced again.
        smoothing = Smoothing(SMOOTHING_WEIGHT, LEAST_SMOOTHING, 1.0, self.stability_centre)
        best: float | None = None
        while self.run.remaining_s > 0.0:
            relaxation = master.relax()
            duals = smoothing.smoothed(relaxation)
            dual = duals.workload_dual
            worth = np.maximum(self.worth(dual), 0.0) / self.rate_rps
            priced = [p.price(worth, most * self.rate_rps, closely, self.run.deadline) for p in self.pricers]
            self.iterations += 1
            bound = self.dual_bound(dual, np.array([each.bound for each in priced]))
            if best is None or self._better(bound, best):
                best, smoothing.stability_centre = bound, duals
            if self._better(bound, self.bound):
                self.bound, self.stability_centre = bound, duals
                report()
            value = relaxation.value if self.minimised else -relaxation.value
            if abs(value - best) <= GOOD_ENOUGH * abs(best):
                return
            fractions = [(t, rps / self.rate_rps) for t, each in enumerate(priced) for rps in each.served_rps]
            gains = [self._add(master, relaxation, t, served) for t, served in fractions]
            if any(gains) or smoothing.weight == 1.0:
                smoothing.restore()
            elif smoothing.weight == 0.0:
                return
            else:
                smoothing.weaken()

    def unservable(self) -> list[int]:
        """Return the workloads that no GPU type serves at any rate, ascending positions."""
        every = range(len(self.rate_rps))
        served = [pricer.alone(w, self.rate_rps) > 0.0 for pricer in self.pricers for w in every]
        return np.flatnonzero(~np.array(served, dtype=bool).reshape(-1, len(every)).any(axis=0)).tolist()

    def initial_columns(self, most: float) -> list[tuple[int, Floats]]:
        """Return the contents that serve a single workload, at most ``most`` of its rate."""
        columns: list[tuple[int, Floats]] = []
        for t, pricer in enumerate(self.pricers):
            rates = [pricer.alone(w, most * self.rate_rps) for w in range(len(self.rate_rps))]
            columns += [(t, alone) for alone in np.diag(np.array(rates) / self.rate_rps)]
        return columns

    def _add(self, master: LinearMaster, relaxation: Relaxation, pool: int, served: Floats) -> bool:
        """Add a content; return whether it gains at the master's own duals."""
        cost, pool_dual = self.cost_of(pool, served), float(relaxation.pool_dual[pool])
        master.add_column(cost, served, pool)
        self.columns.append((pool, served))
        gain = float(relaxation.workload_dual @ served) + pool_dual - cost
        return gain > GOOD_ENOUGH * (abs(cost) + abs(pool_dual))

    def _better(self, bound: float, than: float) -> bool:
        return bound > than if self.minimised else bound < than


class TemporalCostGeneration(TemporalGeneration):
    """Bounds on ``cost``: every workload is served in full."""

    minimised = True

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        served = np.ones(len(self.rate_rps))
        master = LinearMaster(served, np.full_like(served, np.inf), self.count, self.run.threads)
        for row in np.eye(len(served)):
            master.add_column(FAR_ABOVE * float(self.price.max()), row)
        return master

    def worth(self, dual: Floats) -> Floats:
        """Return the worth of each workload served in full."""
        return dual

    def cost_of(self, pool: int, served: Floats) -> float:
        """Return the cost of a content."""
        return float(self.price[pool])

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from the duals and the best worth."""
        return cost_bound(dual, np.ones(len(dual)), best_worth, self.price, self.count)


class TemporalGoodputGeneration(TemporalGeneration):
    """Bounds on ``goodput``: serve the most requests."""

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        served = np.ones(len(self.rate_rps))
        return LinearMaster(np.full_like(served, -np.inf), served, self.count, self.run.threads)

    def worth(self, dual: Floats) -> Floats:
        """Return the worth of each workload served in full."""
        return self.rate_rps + np.minimum(dual, 0.0)

    def cost_of(self, pool: int, served: Floats) -> float:
        """Return the cost of a content."""
        return -float(self.rate_rps @ served)

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from the duals and the best worth."""
        return value_bound(-np.minimum(dual, 0.0), np.full(len(dual), 1.0 + MARGIN), best_worth, self.count)


class TemporalScaleGeneration(TemporalGeneration):
    """Bounds on ``scale``: serve the same multiple of every rate."""

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        served = np.zeros(len(self.rate_rps))
        master = LinearMaster(served, np.full_like(served, np.inf), self.count, self.run.threads)
        master.add_column(-1.0, np.full_like(served, -1.0))
        return master

    def worth(self, dual: Floats) -> Floats:
        """Return the worth of each workload served in full."""
        return dual

    def cost_of(self, pool: int, served: Floats) -> float:
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


TEMPORAL_GENERATIONS: dict[Objective, type[TemporalGeneration]] = {
    Objective.COST: TemporalCostGeneration,
    Objective.GOODPUT: TemporalGoodputGeneration,
    Objective.SCALE: TemporalScaleGeneration,
}


BOUND_ONLY = "colgen computes only a bound on plans that take turns; colgen@NAME passes on the plan of NAME"


def turns_obstacle(instance: Instance) -> str:
    """Return the reason why no bound on plans that take turns is available; empty if one is."""
    if instance.objective not in TEMPORAL_GENERATIONS:
        return f"{instance.objective} has no bound on plans that take turns"
    if instance.slo_rule is SloRule.P99:
        return "p99 has no bound on plans that take turns: the rate that a gpulet can serve is known by simulation only"
    if instance.objective is not Objective.COST and any(pool.count is None for pool in instance.gpus):
        return f"{instance.objective} needs a number of GPUs for every type of the pool"
    return ""


def bound_on_turns(instance: Instance, run: Run) -> Outcome:
    """Bound the value of plans with up to three slots per gpulet and any number of gpulets per workload.

    A given start plan is returned as the plan.

    Parameters
    ----------
    instance
        Instance for which ``turns_obstacle`` returns no reason.
    run
        Limits of the run.
    """
    if not instance.workloads:
        return Outcome(Status.OPTIMAL, Plan(instance.name, ()), Bound(0.0, True, PlanClass.SPATIO_TEMPORAL))
    generation = TEMPORAL_GENERATIONS[instance.objective](instance, run)
    unservable = generation.unservable() if instance.objective is Objective.COST else []
    if unservable:
        asked = instance.workloads[unservable[0]]
        return Outcome(Status.INFEASIBLE, reason=f"{asked.id}: no GPU of the pool serves {asked.model} at any rate")
    generation.solve(lambda: run.report(bound=_bound(generation)))
    statistics = {"iterations": float(generation.iterations), "contents": float(len(generation.columns))}
    if instance.objective is Objective.COST and generation.bound > _whole_pool(instance) * (1.0 + 1e-9):
        return Outcome(Status.INFEASIBLE, statistics=statistics, reason=TOO_FEW)
    bound = _bound(generation)
    if run.start is None:
        return Outcome(Status.UNKNOWN, None, bound, statistics, BOUND_ONLY)
    return Outcome(Status.FEASIBLE, run.start, bound, statistics)


def _bound(generation: TemporalGeneration) -> Bound | None:
    value = generation.bound
    return Bound(value, True, PlanClass.SPATIO_TEMPORAL, slots_per_gpulet=SLOTS) if math.isfinite(value) else None


def _whole_pool(instance: Instance) -> float:
    """Return the price of all GPUs of the pool; infinite if some type has no limit."""
    return math.fsum(
        pool.type.price_per_hour * (math.inf if pool.count is None else pool.count) for pool in instance.gpus
    )
