"""Column generation over relaxed contents of GPUs: certified bounds on plans whose slots may take turns."""

import math
from collections.abc import Callable

import numpy as np

from bench.api import Run
from formulations.colgen.claims import is_better
from formulations.colgen.column_generation import (
    Smoothing,
    StepResult,
    cost_bound,
    generate,
    prices_and_counts,
    value_bound,
)
from formulations.colgen.restricted_master import LinearMaster, Priced, Relaxation
from formulations.colgen.temporal.gpulet_positions import MARGIN, SLOTS, Worth
from formulations.colgen.temporal.pricer import TemporalPricer
from formulations.rounding import SAFETY
from instances import GOODPUT_STEP, Instance, Objective, SloRule
from instances.arrays import Floats
from instances.one_gpu import Pattern
from instances.view import View

GOOD_ENOUGH = 1e-4
"""Relative gap between the restricted master and the bound at which column generation stops."""

SMOOTHING_WEIGHT = 0.5
"""First weight of the stability centre's duals; see ``Smoothing``."""

LEAST_SMOOTHING = 0.1
"""Least weight of the stability centre's duals."""

UNSERVED_COST_FACTOR = 1e4
"""Cost of leaving a workload unserved, relative to the largest price; under ``capacity``, to the largest rate."""

LEAST_DECREASE = 1e-3
"""Least relative decrease of ``most_served`` after which another round follows."""

OBJECTIVES = frozenset({Objective.COST, Objective.GOODPUT, Objective.SCALE, Objective.CAPACITY})
"""Objectives of ``TemporalGeneration``."""

Column = tuple[int, Floats]
"""Column of the master: the pool of a GPU, and its amounts.

The amounts have shape (2 * workloads + 1,). First, for each workload, comes the part of its rate that the GPU can
serve. Then, for each workload, comes the least part that must arrive so that its batches fill within the SLO. The last
entry is the requests per second that all slots complete when busy all the time.
"""


class TemporalGeneration:
    """Column generation over patterns whose slots may take turns. The restricted master has a row for every workload.

    Under ``cost`` and ``capacity`` every workload is served in full, under ``goodput`` at most in full, and under
    ``scale`` all are served the same multiple of their rates.

    Parameters
    ----------
    instance
        Instance with workloads and one of the ``OBJECTIVES``; its SLO rule is neither ``p99`` nor ``attainment``.
    slots
        Largest number of slots of a gpulet: 1 or 3.

    Attributes
    ----------
    price, count
        Price of each GPU type, and number of its GPUs: ``inf`` without a limit, shape (GPU types,).
    bound, iterations
        Bound on the instance's objective (an upper bound if it is maximised), and number of pricing rounds so far.
    columns
        Every known content of a GPU. The contents of a known plan come first, so that the first duals have the right
        size.
    stability_centre
        Solution of the master with the duals of the best bound.
    """

    proof_tolerance = 2e-6  # larger than that of other plan classes: relaxed times are too short by ``MARGIN``

    def __init__(self, instance: Instance, run: Run, slots: int = SLOTS) -> None:
        self.instance, self.run, self.slots = instance, run, slots
        self.objective, self.minimised = instance.objective, instance.objective.minimised
        self.price, self.count = prices_and_counts(instance)
        self.bound = -math.inf if self.minimised else math.inf
        self.iterations = 0
        self.rate_rps = np.array([workload.rate_rps for workload in instance.workloads])
        views = [View.of(instance, pool.type) for pool in instance.gpus]
        self.pricers = [TemporalPricer(view, t, slots) for t, view in enumerate(views)]
        self.columns: list[Column] = []
        self.stability_centre: Relaxation | None = None

    # Rows, cost, worth and bound ---------------------------------------------------------------------------------

    def restricted_master(self) -> LinearMaster:
        """Return the restricted master without contents."""
        rates, count = self.rate_rps, len(self.rate_rps)
        zeros, ones, unlimited = np.zeros(count), np.ones(count), np.full(count, np.inf)
        match self.objective:
            case Objective.GOODPUT:
                master = self._rows(-unlimited, ones)
                extra_columns = zip(rates.tolist(), -np.eye(count), strict=True)
            case Objective.SCALE:
                master = self._rows(zeros, unlimited)
                extra_columns = zip([-1.0], [-ones], strict=True)
            case _:
                master = self._rows(ones, unlimited)
                costly = float(self.price.max() if self.minimised else rates.max())
                extra_columns = zip([UNSERVED_COST_FACTOR * costly] * count, np.eye(count), strict=True)
        for cost, amounts in extra_columns:
            master.add_column(cost, amounts)
        return master

    def _rows(self, least: Floats, most: Floats) -> LinearMaster:
        """Return a master with a row per workload, and if slots wait for batches, a second row for its least rates."""
        if self.waits_for_batch:
            least = np.concatenate([least, np.full(len(least), -np.inf)])
            most = np.concatenate([most, np.full(len(most), 1.0 + MARGIN)])
        return LinearMaster(least, most, self.count, self.run.threads)

    def cost_of(self, column: Column) -> float:
        """Return the cost of a content in the minimised master."""
        pool, amounts = column
        match self.objective:
            case Objective.COST:
                return float(self.price[pool])
            case Objective.GOODPUT:
                return -float(self.rate_rps @ amounts[: len(self.rate_rps)])
            case Objective.CAPACITY:
                return -float(amounts[-1])
            case _:
                return 0.0

    def worth_at(self, dual: Floats, most_served: float | None = None) -> Worth:
        """Return the worth of the rates that a GPU serves, at the duals.

        Of each workload's rate at most the part ``most_served`` counts; ``None`` stands for ``self.most_served()``.
        """
        goodput = self.objective is Objective.GOODPUT
        return Worth(
            np.maximum(self.rate_rps + np.minimum(dual, 0.0) if goodput else dual, 0.0) / self.rate_rps,
            (self.most_served() if most_served is None else most_served) * self.rate_rps,
            self.rate_rps * (GOODPUT_STEP if goodput else 0.0),
            1.0 if self.objective is Objective.CAPACITY else 0.0,
        )

    def dual_bound(self, dual: Floats, best_worth: Floats) -> float:
        """Return the bound on the objective that follows from duals and from ``best_worth``.

        ``best_worth`` has an upper bound on the worth of a GPU of each type, shape (GPU types,). Under ``scale``, a
        multiple s of all rates is worth s times the sum of the duals, and all GPUs together are worth at most the sum
        of their bounds.
        """
        ones = np.ones(len(dual))
        match self.objective:
            case Objective.COST:
                return cost_bound(dual, ones, best_worth, self.price, self.count)
            case Objective.GOODPUT:
                return value_bound(-np.minimum(dual, 0.0), ones + MARGIN, best_worth, self.count)
            case Objective.CAPACITY:
                return value_bound(-np.maximum(dual, 0.0), ones - MARGIN, best_worth, self.count)
            case _:
                dual_sum = math.fsum(np.maximum(dual, 0.0))
                if dual_sum <= 0.0:
                    return math.inf
                return value_bound(0.0 * ones, 0.0 * ones, best_worth, self.count) / dual_sum * (1.0 + SAFETY)

    def most_served(self) -> float:
        """Return the fraction of a workload's rate beyond which service does not count.

        Under ``scale`` it is the bound on the scale: no plan serves a larger multiple of every rate. Under ``capacity``
        a workload's slots may complete more requests than arrive.
        """
        match self.objective:
            case Objective.SCALE:
                return self.bound
            case Objective.CAPACITY:
                return math.inf
            case _:
                return 1.0

    def tighten(self, bound: float, plan_value: float, tolerance: float) -> None:
        """Improve the bound by ``bound``, which holds only for plans better than ``plan_value``.

        So the new bound is at best ``plan_value``. ``tolerance`` is a relative allowance for errors in ``bound``.
        """
        if self.minimised:
            self.bound = max(self.bound, min(bound * (1.0 - tolerance), plan_value))
        else:
            self.bound = min(self.bound, max(bound * (1.0 + tolerance), plan_value))

    # The loop ----------------------------------------------------------------------------------------------------

    def solve(self, report: Callable[[], None]) -> None:
        """Add contents until none improves the bound or the time is over; call ``report`` after every better bound.

        The first round bounds the worth of turns quickly instead of exactly, so that there is a bound even if the time
        is short.
        """
        exact_turns = False
        while self.run.remaining_s > 0.0:
            most_served = self.most_served()
            self._round(most_served, exact_turns, report)
            if exact_turns and self.most_served() >= most_served * (1.0 - LEAST_DECREASE):
                return
            exact_turns = True

    def _round(self, most_served: float, exact_turns: bool, report: Callable[[], None]) -> None:
        """Generate contents that serve at most ``most_served`` of each rate, from the columns known so far."""
        master = self.restricted_master()
        if not exact_turns:
            self.columns += self.initial_columns(most_served)
        for column in self.columns:
            self.add_to(master, column, most_served)
        # With a weight of 1, the first duals that are priced are those of the best bound so far.
        smoothing = Smoothing(SMOOTHING_WEIGHT, LEAST_SMOOTHING, 1.0, self.stability_centre)
        best: float | None = None

        def step(relaxation: Relaxation, duals: Relaxation) -> StepResult:
            nonlocal best
            dual = duals.workload_dual[: len(self.rate_rps)]
            priced = self.priced(dual, most_served, exact_turns)
            self.iterations += 1
            bound = self.dual_bound(dual, np.array([result.bound for result in priced]))
            if best is None or is_better(bound, best, self.instance):
                best, smoothing.stability_centre = bound, duals
            if is_better(bound, self.bound, self.instance):
                self.bound, self.stability_centre = bound, duals
                report()
            value = relaxation.value if self.minimised else -relaxation.value
            if abs(value - best) <= GOOD_ENOUGH * abs(best):
                return "enough"
            columns = [self.column_of(pattern) for result in priced for pattern in result.patterns]
            gains = [self._add(master, relaxation, column) for column in columns]
            return "gain" if any(gains) or smoothing.weight == 1.0 else "no gain"

        generate(self.run, smoothing, master.relax, step, refine=lambda: False)

    def priced(self, dual: Floats, most_served: float, exact_turns: bool) -> list[Priced]:
        """Solve the pricing problem of every GPU type."""
        worth = self.worth_at(dual, most_served)
        return [pricer.price(worth, exact_turns, self.run.deadline) for pricer in self.pricers]

    # Columns -----------------------------------------------------------------------------------------------------

    def column_of(self, relaxed: Pattern) -> Column:
        """Return the column of a relaxed pattern, whose slots have rates but no least rates."""
        return relaxed.pool, self.amounts(self.served_rps(relaxed), throughput_rps=relaxed.throughput_rps)

    def served_rps(self, relaxed: Pattern) -> Floats:
        """Return the rate at which a relaxed pattern serves each workload, shape (workloads,)."""
        served = np.zeros(len(self.rate_rps))
        for slot in relaxed.residents:
            served[slot.workload] += slot.rate_rps
        return served

    def amounts(self, served_rps: Floats, least_rps: Floats | float = 0.0, throughput_rps: float = 0.0) -> Floats:
        """Return the amounts of a ``Column``."""
        least = np.broadcast_to(least_rps, served_rps.shape)
        return np.concatenate([served_rps / self.rate_rps, least / self.rate_rps, [throughput_rps]])

    def add_to(self, master: LinearMaster, column: Column, most_served: float = math.inf) -> None:
        """Add a content that serves at most ``most_served`` of each workload's rate to a master."""
        pool, amounts, workloads = *column, len(self.rate_rps)
        capped = amounts.copy()
        capped[:workloads] = np.minimum(amounts[:workloads], most_served)
        rows = capped[: 2 * workloads if self.waits_for_batch else workloads]
        master.add_column(self.cost_of((pool, capped)), rows, pool)

    def _add(self, master: LinearMaster, relaxation: Relaxation, column: Column) -> bool:
        """Add a content; return whether its reduced cost shows a gain at the duals of the master, without smoothing."""
        cost, pool_dual, workloads = self.cost_of(column), float(relaxation.pool_dual[column[0]]), len(self.rate_rps)
        self.add_to(master, column)
        self.columns.append(column)
        gain = float(relaxation.workload_dual[:workloads] @ column[1][:workloads]) + pool_dual - cost
        return gain > GOOD_ENOUGH * (abs(cost) + abs(pool_dual))

    def initial_columns(self, most_served: float) -> list[Column]:
        """Return the contents that serve a single workload, at most ``most_served`` of its rate."""
        columns: list[Column] = []
        for t, pricer in enumerate(self.pricers):
            rates = [pricer.rate_alone_rps(w, most_served * self.rate_rps) for w in range(len(self.rate_rps))]
            columns += [(t, self.amounts(served_rps)) for served_rps in np.diag(rates)]
        return columns

    @property
    def waits_for_batch(self) -> bool:
        """Whether low rates violate an SLO; under ``scale`` never, since the rates that arrive are not given."""
        return self.instance.slo_rule is SloRule.ASSEMBLY and self.objective is not Objective.SCALE

    def unservable(self) -> list[int]:
        """Return the positions of the workloads that no GPU type serves at any rate, in ascending order."""
        workloads = range(len(self.rate_rps))
        served = [pricer.rate_alone_rps(w, self.rate_rps) > 0.0 for pricer in self.pricers for w in workloads]
        return np.flatnonzero(~np.array(served, dtype=bool).reshape(-1, len(workloads)).any(axis=0)).tolist()
