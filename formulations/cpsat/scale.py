"""Objective ``scale``: the largest multiple of all rates that the pool can serve, by bisection."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from bench.api import Bound, Outcome, Run, Status
from formulations.cpsat.progress import NO_PLAN_IN_TIME, solver_deadline
from formulations.problem import TOO_FEW, WHOLE, Group, Problem
from formulations.rates import SCALE_STEP, Rates, rates_at
from formulations.start import first_fit, groups_of
from instances import Instance, Plan, SloRule
from instances.view import View

PATIENCE = 0.25
"""Fraction of the remaining time and work that one scale may take, so that others can still be decided."""

LEAST_WORK = 0.01
"""Deterministic seconds below which no further scale is tried."""


def largest_scale(instance: Instance, run: Run, conflict_sets: int) -> Outcome:
    """Find the largest scale on the grid at which all workloads fit on the pool.

    The bound is the smallest scale on the grid that is proven infeasible. No plan reaches it, but plans above the last
    feasible grid point and below the bound may exist.
    """
    unlimited = [pool.type.name for pool in instance.gpus if pool.count is None]
    if unlimited:
        return Outcome(Status.UNKNOWN, reason=f"scale is unbounded: the pool sets no number of {unlimited[0]} GPUs")
    return _Bisection(instance, run, conflict_sets).outcome()


@dataclass
class _Bisection:
    """Bisection over the scales on the grid, numbered from 1: ``fits`` is feasible, ``fails`` and above are not."""

    instance: Instance
    run: Run
    conflict_sets: int
    fits: int = 0
    fails: int = 0
    plan: Plan | None = None
    reason: str = f"{TOO_FEW}, {WHOLE}"
    statistics: dict[str, float] = field(default_factory=dict)

    def outcome(self) -> Outcome:
        self._exclude_hopeless()
        if self.run.start is not None:
            self._take_over(self.run.start)
        self._fit_greedily()
        if self.run.remaining_s > 0.0:
            self._decide_exactly()
        proven = self.fits == self.fails - 1
        if self.plan is not None:
            return Outcome(Status.OPTIMAL if proven else Status.FEASIBLE, self.plan, self._bound(), self.statistics)
        status = Status.INFEASIBLE if proven else Status.UNKNOWN
        return Outcome(status, None, self._bound(), self.statistics, self.reason if proven else NO_PLAN_IN_TIME)

    def _bound(self) -> Bound:
        # Under p99 a higher rate than the workload's own may have a larger latency budget; those are not tried.
        return Bound(self.fails * SCALE_STEP, certified=self.instance.slo_rule is not SloRule.P99)

    def _problem(self, scale: int) -> Problem:
        return Problem(self.instance, rates_at(self.instance, scale * SCALE_STEP))

    def _accept(self, scale: int, problem: Problem, groups: Sequence[Group]) -> None:
        self.fits, self.plan = scale, problem.plan(groups)
        self.run.report(plan=self.plan)

    def _exclude_hopeless(self) -> None:
        """Find the first scale at which a workload does not fit alone, or all together need more than the pool."""
        hopeful, self.fails = 0, self._beyond_all() + 1
        while hopeful < self.fails - 1:
            scale = (hopeful + self.fails) // 2
            problem = self._problem(scale)
            reason = problem.unservable()
            needed = sum(problem.least_fraction(w) for w in range(len(problem.rates)))
            if reason or needed > sum(offer.count for offer in problem.offers) * (1.0 + 1e-9):
                self.fails, self.reason = scale, reason or f"{TOO_FEW}, {WHOLE}"
            else:
                hopeful = scale
        self.run.report(bound=self._bound())

    def _beyond_all(self) -> int:
        """Return a scale at which, for some workload, no batch is served before the next one is full."""
        beyond = math.inf
        for w, asked in enumerate(self.instance.workloads):
            most_rps = 0.0
            for pool in self.instance.gpus:
                view = View.of(self.instance, pool.type)
                model = int(view.model[w])
                batch = np.arange(1, int(view.tables.max_batch[model]) + 1)
                alone_ms = view.tables.scheduling_ms[model] + view.tables.active_ms[model, batch, 1:].min(axis=1)
                most_rps = max(most_rps, float((1000.0 * batch / alone_ms).max()))
            beyond = min(beyond, most_rps / self.instance.latency_buffer / asked.rate_rps)
        # The finite sample of p99 may end before a slowly growing queue violates the SLO.
        return math.ceil(1.1 * beyond / SCALE_STEP) + 1

    def _take_over(self, start: Plan) -> None:
        """Start from a plan that serves every workload."""
        served = {slot.workload: slot.rate_rps for _, _, slot in start.slots()}
        one = np.ones(1, dtype=np.int64)
        rates = [Rates(np.array([served.get(asked.id, asked.rate_rps)]), one) for asked in self.instance.workloads]
        problem = self._problem(1)
        groups = groups_of(start, problem, rates)
        if problem.serves_all(groups):
            served_part = min(served[asked.id] / asked.rate_rps for asked in self.instance.workloads)
            scale = min(self.fails - 1, math.floor(served_part / SCALE_STEP + 1e-9))
            if scale > self.fits:
                self._accept(scale, problem, groups)

    def _fit_greedily(self) -> None:
        """Bisect with first fit alone, which may miss feasible plans."""
        missed = self.fails
        while self.fits < missed - 1 and self.run.remaining_s > 0.0:
            scale = (self.fits + missed) // 2
            problem = self._problem(scale)
            groups = first_fit(problem, problem.largest_first(), [1.0] * len(problem.offers), self.run.deadline)
            if problem.serves_all(groups):
                self._accept(scale, problem, groups)
            else:
                missed = scale

    def _decide_exactly(self) -> None:
        """Bisect with the solver; if a scale takes too long, scales on both sides are tried."""
        undecided: set[int] = set()
        while self.run.remaining_s > 0.0 and self._work_left() > LEAST_WORK:
            undecided = {scale for scale in undecided if self.fits < scale < self.fails}
            lowest, highest = min(undecided, default=self.fails), max(undecided, default=self.fits)
            if self.fits < lowest - 1:
                scale = (self.fits + lowest) // 2
            elif highest < self.fails - 1:
                scale = (highest + self.fails) // 2
            else:
                return
            if not self._decide(scale):
                undecided.add(scale)

    def _work_left(self) -> float:
        """Return the remaining units of work; infinity without a work limit."""
        return math.inf if self.run.work_limit is None else self.run.work_limit - self.statistics.get("work", 0.0)

    def _decide(self, scale: int) -> bool:
        """Decide whether all workloads fit at ``scale``; return whether that was decided in time."""
        from formulations.cpsat.assignment import Assignment  # imports OR-Tools
        from formulations.cpsat.solving import solve

        problem = self._problem(scale)
        deadline = solver_deadline(self.run, PATIENCE)
        counts = [offer.count for offer in problem.offers]
        self.statistics["scales"] = self.statistics.get("scales", 0.0) + 1
        try:
            model = Assignment(problem, counts, problem.largest_first(), True, self.conflict_sets, deadline)
        except TimeoutError:
            return False
        finished = solve(
            model,
            problem,
            self.run,
            deadline,
            accept=lambda groups: self._accept(scale, problem, groups),
            improve_bound=lambda _: None,
            statistics=self.statistics,
            part=PATIENCE,
        )
        if finished and self.fits < scale:
            self.fails = scale
            self.run.report(bound=self._bound())
        return finished
