"""Objective ``scale``: the largest multiple of all rates that the pool can serve, by bisection."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from bench.api import Outcome, Run, Status
from formulations.configurations import Rates, rates_at
from formulations.cpsat.assignment import Assignment
from formulations.cpsat.progress import NO_PLAN_IN_TIME, solver_deadline
from formulations.cpsat.solving import solve
from formulations.problem import TOO_FEW, WHOLE, Problem, first_fit, groups_of
from formulations.scale import ScaleBisection
from instances import SCALE_STEP, Instance, Plan
from instances.view import View

PATIENCE = 0.25
"""Fraction of the remaining time and work that one scale may take, so that others can still be decided."""

LEAST_WORK = 0.01
"""Deterministic seconds below which no further scale is tried."""


def largest_scale(instance: Instance, run: Run, conflict_sets: int) -> Outcome:
    """Find the largest scale on the grid at which all workloads fit on the pool."""
    unlimited = [pool.type.name for pool in instance.gpus if pool.count is None]
    if unlimited:
        return Outcome(Status.UNKNOWN, reason=f"scale is unbounded: the pool sets no number of {unlimited[0]} GPUs")
    return _ScaleSearch(instance, run, conflict_sets=conflict_sets).solved()


@dataclass
class _ScaleSearch(ScaleBisection):
    """Bisection by necessary conditions, by first fit, and by the assignment model."""

    conflict_sets: int = 0

    def solved(self) -> Outcome:
        """Run the search and return its outcome."""
        with suppress(TimeoutError):
            self._exclude_hopeless()
            if self.run.start is not None:
                self._take_over(self.run.start)
            self._fit_greedily()
            if self.run.remaining_s > 0.0:
                self._decide_exactly()
        return self.outcome(NO_PLAN_IN_TIME)

    def _problem(self, scale: int) -> Problem:
        scaled = replace(self.instance.scaled(scale * SCALE_STEP), name=self.instance.name)
        return Problem(scaled, rates_at(scaled, 1.0), self.run.deadline)

    def _exclude_hopeless(self) -> None:
        """Find the first scale at which a workload does not fit alone, or all need more shares than the pool has."""
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
        self.run.report(bound=self.bound())

    def _beyond_all(self) -> int:
        """Return a scale at which, for some workload, more requests arrive than any batch can serve."""
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
        # The finite sample of p99 may end before a slowly growing queue violates the SLO (hence 1.1). Under
        # ``attainment``, some requests may be dropped.
        return math.ceil(1.1 * beyond / self.instance.attainment / SCALE_STEP) + 1

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
                self.accept(scale, problem.plan(groups))

    def _fit_greedily(self) -> None:
        """Bisect with first fit alone, which may miss feasible plans."""
        missed = self.fails
        while self.fits < missed - 1 and self.run.remaining_s > 0.0:
            scale = (self.fits + missed) // 2
            problem = self._problem(scale)
            groups = first_fit(problem, problem.largest_first(), [1.0] * len(problem.offers), self.run.deadline)
            if problem.serves_all(groups):
                self.accept(scale, problem.plan(groups))
            else:
                missed = scale

    def _decide_exactly(self) -> None:
        """Bisect with the solver; if a scale takes too long, smaller and larger ones are tried."""
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
        """Solve the model at ``scale``; return whether it was decided in time that all workloads fit or do not."""
        problem = self._problem(scale)
        deadline = solver_deadline(self.run, PATIENCE)
        counts = [offer.count for offer in problem.offers]
        self.statistics["scales"] = self.statistics.get("scales", 0.0) + 1
        try:
            model = Assignment(problem, counts, self.conflict_sets, deadline)
        except TimeoutError:
            return False
        finished = solve(
            model,
            self.run,
            accept=lambda groups: self.accept(scale, problem.plan(groups)),
            improve_bound=lambda _: None,
            statistics=self.statistics,
            part=PATIENCE,
        )
        if finished and self.fits < scale:
            self.exclude(scale)
        return finished
