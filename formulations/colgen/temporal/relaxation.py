"""Column generation over contents of GPUs: bounds for plans that take turns (``cost``, ``goodput``, ``scale``)."""

import math
from collections.abc import Callable
from typing import ClassVar

import numpy as np

from bench.api import Run
from formulations.colgen.bounds import SAFETY, cost_bound, value_bound
from formulations.colgen.temporal.contents import TemporalPricer
from formulations.colgen.temporal.places import MARGIN
from formulations.colgen.temporal.programme import Programme, ProgrammeSolution
from instances import Instance, Objective
from instances.arrays import Floats
from instances.view import View

GOOD_ENOUGH = 1e-4
"""Relative gap between the restricted master and the bound at which column generation stops."""

PULL = 0.5
"""Weight of the stabilisation centre's duals against the master's own."""

LEAST_PULL = 0.1
"""Weight below which the master's own duals are used."""

FAR_ABOVE = 1e4
"""Cost of leaving a workload unserved, in GPUs."""

ANOTHER_ROUND = 1e-3
"""Relative decrease of the fraction that counts above which another round follows."""


class TemporalRelaxation:
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
    contents
        Pool, and served fraction of each workload, of every known content.
    centre
        Stabilisation centre: the duals of the best bound.
    """

    def __init__(self, instance: Instance, run: Run) -> None:
        self.instance, self.run = instance, run
        self.rate_rps = np.array([workload.rate_rps for workload in instance.workloads])
        self.price = np.array([pool.type.price_per_hour for pool in instance.gpus])
        self.count = np.array([math.inf if pool.count is None else float(pool.count) for pool in instance.gpus])
        self.pricers = [TemporalPricer(View.of(instance, pool.type)) for pool in instance.gpus]
        self.bound = -math.inf if self.minimised else math.inf
        self.iterations = 0
        self.contents: list[tuple[int, Floats]] = []
        self.centre: Floats | None = None

    # Parts that depend on the objective ------------------------------------------------------------------------

    minimised: ClassVar[bool] = False

    def begin(self) -> Programme:
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
        programme = self.begin()
        if not self.contents:
            self.contents = [(t, alone) for t, pricer in enumerate(self.pricers) for alone in self._alone(pricer, most)]
        for t, served in self.contents:
            programme.add(self.cost_of(t, np.minimum(served, most)), np.minimum(served, most), t)
        centre, best, pull = self.centre, None, 1.0
        while self.run.remaining_s > 0.0:
            solution = programme.solve()
            dual = solution.workload if centre is None else pull * centre + (1.0 - pull) * solution.workload
            worth = np.maximum(self.worth(dual), 0.0) / self.rate_rps
            priced = [p.price(worth, most * self.rate_rps, closely, self.run.deadline) for p in self.pricers]
            self.iterations += 1
            bound = self.dual_bound(dual, np.array([each.bound for each in priced]))
            if best is None or self._better(bound, best):
                best, centre = bound, dual
            if self._better(bound, self.bound):
                self.bound, self.centre = bound, dual
                report()
            if abs(self._own(solution) - best) <= GOOD_ENOUGH * abs(best):
                return
            fractions = [(t, rps / self.rate_rps) for t, each in enumerate(priced) for rps in each.served_rps]
            gains = [self._add(programme, solution, t, served) for t, served in fractions]
            if any(gains) or pull == 1.0:
                pull = PULL
            elif pull == 0.0:
                return
            else:
                pull = pull / 2.0 if pull > LEAST_PULL else 0.0

    def unservable(self) -> list[int]:
        """Return the workloads that no GPU type serves at any rate, ascending positions."""
        every = range(len(self.rate_rps))
        served = [pricer.alone(w, self.rate_rps) > 0.0 for pricer in self.pricers for w in every]
        return np.flatnonzero(~np.array(served, dtype=bool).reshape(-1, len(every)).any(axis=0)).tolist()

    def _alone(self, pricer: TemporalPricer, most: float) -> Floats:
        """Return the contents that serve a single workload, shape (workloads, workloads)."""
        rates = [pricer.alone(w, most * self.rate_rps) for w in range(len(self.rate_rps))]
        return np.diag(np.array(rates) / self.rate_rps)

    def _add(self, programme: Programme, solution: ProgrammeSolution, pool: int, served: Floats) -> bool:
        """Add a content; return whether it gains at the master's own duals."""
        cost = self.cost_of(pool, served)
        programme.add(cost, served, pool)
        self.contents.append((pool, served))
        gain = float(solution.workload @ served) + float(solution.pool[pool]) - cost
        return gain > GOOD_ENOUGH * (abs(cost) + abs(float(solution.pool[pool])))

    def _own(self, solution: ProgrammeSolution) -> float:
        return solution.value if self.minimised else -solution.value

    def _better(self, bound: float, than: float) -> bool:
        return bound > than if self.minimised else bound < than


class CostRelaxation(TemporalRelaxation):
    """Bounds on ``cost``: every workload is served in full."""

    minimised = True

    def begin(self) -> Programme:
        """Return the restricted master without contents."""
        served = np.ones(len(self.rate_rps))
        programme = Programme(served, np.full_like(served, np.inf), self.count, self.run.threads)
        for row in np.eye(len(served)):
            programme.add(FAR_ABOVE * float(self.price.max()), row)
        return programme

    def worth(self, dual: Floats) -> Floats:
        """Return the worth of each workload served in full."""
        return dual

    def cost_of(self, pool: int, served: Floats) -> float:
        """Return the cost of a content."""
        return float(self.price[pool])

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from the duals and the best worth."""
        return cost_bound(dual, np.ones(len(dual)), best_worth, self.price, self.count)


class GoodputRelaxation(TemporalRelaxation):
    """Bounds on ``goodput``: serve the most requests."""

    def begin(self) -> Programme:
        """Return the restricted master without contents."""
        served = np.ones(len(self.rate_rps))
        return Programme(np.full_like(served, -np.inf), served, self.count, self.run.threads)

    def worth(self, dual: Floats) -> Floats:
        """Return the worth of each workload served in full."""
        return self.rate_rps + np.minimum(dual, 0.0)

    def cost_of(self, pool: int, served: Floats) -> float:
        """Return the cost of a content."""
        return -float(self.rate_rps @ served)

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound from the duals and the best worth."""
        return value_bound(-np.minimum(dual, 0.0), np.full(len(dual), 1.0 + MARGIN), best_worth, self.count)


class ScaleRelaxation(TemporalRelaxation):
    """Bounds on ``scale``: serve the same multiple of every rate."""

    def begin(self) -> Programme:
        """Return the restricted master without contents."""
        served = np.zeros(len(self.rate_rps))
        programme = Programme(served, np.full_like(served, np.inf), self.count, self.run.threads)
        programme.add(-1.0, np.full_like(served, -1.0))
        return programme

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


RELAXATIONS: dict[Objective, type[TemporalRelaxation]] = {
    Objective.COST: CostRelaxation,
    Objective.GOODPUT: GoodputRelaxation,
    Objective.SCALE: ScaleRelaxation,
}
