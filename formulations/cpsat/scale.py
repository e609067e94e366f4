"""Objective ``scale``: the largest multiple of all rates that the pool can serve, by bisection."""

import math
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from bench.api import Outcome, Run, Status
from formulations.confirmation import confirm
from formulations.cpsat.assignment import Assignment
from formulations.cpsat.progress import NO_PLAN_IN_TIME, solver_deadline
from formulations.cpsat.solving import solve
from formulations.problem import TOO_FEW, WHOLE, Problem, first_fit, patterns_of
from formulations.scale import ScaleBisection, impossible_scale
from instances import SCALE_STEP, Instance, Objective, Plan
from instances.configurations import Rates, rates_at

PATIENCE = 0.25
"""Fraction of the remaining time and work that one scale may take, so that other scales can still be decided."""

UNCONFIRMED = "CP-SAT's proof was not confirmed in time"

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
    """Bisection by necessary conditions, by first fit, and by the assignment model.

    ``_claimed_scale`` is the smallest scale that CP-SAT claims to be infeasible; 0 while there is no claim.
    """

    conflict_sets: int = 0
    _claimed_scale: int = 0

    def solved(self) -> Outcome:
        """Run the search and return its outcome."""
        with suppress(TimeoutError):
            self._exclude_hopeless()
            if self.run.start is not None:
                self._accept_start(self.run.start)
            self._fit_greedily()
            if self.run.remaining_s > 0.0:
                self._decide_exactly()
            self._confirm_limit()
            self.look_below_the_grid(self._decide_below_the_grid)
        return self.outcome(NO_PLAN_IN_TIME)

    @property
    def _limit(self) -> int:
        """Smallest scale known to be infeasible."""
        assert self.fails is not None, "hopeless scales are excluded first"
        return self.fails

    def _problem(self, factor: float) -> Problem:
        scaled = replace(self.instance.scaled(factor), name=self.instance.name)
        return Problem(scaled, rates_at(scaled, 1.0), self.run.deadline)

    def _exclude_hopeless(self) -> None:
        """Find the first scale at which a workload alone fits on no GPU, or all need more shares than the pool has."""
        undecided_scale, excluded_scale = 0, impossible_scale(self.instance) + 1
        while undecided_scale < excluded_scale - 1:
            scale = (undecided_scale + excluded_scale) // 2
            problem = self._problem(scale * SCALE_STEP)
            reason = problem.unservable()
            needed_gpus = sum(problem.least_fraction(workload) for workload in range(len(problem.rates)))
            if reason or needed_gpus > sum(offer.count for offer in problem.offers) * (1.0 + 1e-9):
                excluded_scale, self.reason = scale, reason or f"{TOO_FEW}, {WHOLE}"
            else:
                undecided_scale = scale
        self.fails = excluded_scale
        self.run.report(bound=self.bound())

    def _accept_start(self, start: Plan) -> None:
        """Accept the start plan of the run if it serves every workload."""
        served_rps = {slot.workload: slot.rate_rps for _, _, slot in start.slots()}
        single_step = np.ones(1, dtype=np.int64)
        rates = [
            Rates(np.array([served_rps.get(workload.id, workload.rate_rps)]), single_step)
            for workload in self.instance.workloads
        ]
        problem = self._problem(SCALE_STEP)
        patterns = patterns_of(start, problem, rates)
        if problem.serves_all(patterns):
            served_part = min(served_rps[workload.id] / workload.rate_rps for workload in self.instance.workloads)
            scale = min(self._limit - 1, math.floor(served_part / SCALE_STEP + 1e-9))
            if scale > self.fits:
                self.accept(scale, problem.plan(patterns))

    def _fit_greedily(self) -> None:
        """Bisect with first fit alone, which may miss feasible plans."""
        missed_scale = self._limit
        while self.fits < missed_scale - 1 and self.run.remaining_s > 0.0:
            scale = (self.fits + missed_scale) // 2
            problem = self._problem(scale * SCALE_STEP)
            patterns = first_fit(problem, problem.largest_first(), [1.0] * len(problem.offers), self.run.deadline)
            if problem.serves_all(patterns):
                self.accept(scale, problem.plan(patterns))
            else:
                missed_scale = scale

    def _decide_exactly(self) -> None:
        """Bisect with the solver; if a scale takes too long, smaller and larger scales are tried."""
        undecided: set[int] = set()
        while self.run.remaining_s > 0.0 and self._work_left() > LEAST_WORK:
            undecided = {scale for scale in undecided if self.fits < scale < self._limit}
            lowest, highest = min(undecided, default=self._limit), max(undecided, default=self.fits)
            if self.fits < lowest - 1:
                scale = (self.fits + lowest) // 2
            elif highest < self._limit - 1:
                scale = (highest + self._limit) // 2
            else:
                return
            if not self._decide(scale):
                undecided.add(scale)

    def _work_left(self) -> float:
        """Return the remaining units of work; infinity without a work limit."""
        return math.inf if self.run.work_limit is None else self.run.work_limit - self.statistics.get("work", 0.0)

    def _decide(self, scale: int) -> bool:
        """Solve the model at ``scale``; return whether the solver decided in time whether all workloads fit."""
        outcome = self._solve_at(scale * SCALE_STEP)
        if outcome.plan is not None:
            self.accept(scale, outcome.plan)
        elif outcome.status is Status.INFEASIBLE:
            self._claimed_scale, self.doubt = scale, UNCONFIRMED
            self.exclude(scale)
        return outcome.status is not Status.UNKNOWN

    def _solve_at(self, factor: float, presolve: bool = True) -> Outcome:
        """Solve the model at ``factor`` times the rates."""
        problem = self._problem(factor)
        deadline = solver_deadline(self.run, PATIENCE)
        counts = [offer.count for offer in problem.offers]
        self.statistics["scales"] = self.statistics.get("scales", 0.0) + 1
        try:
            model = Assignment(problem, counts, self.conflict_sets, deadline)
        except TimeoutError:
            return Outcome(Status.UNKNOWN)
        plans: list[Plan] = []
        finished = solve(
            model,
            self.run,
            accept=lambda patterns: plans.append(problem.plan(patterns)),
            improve_bound=lambda _: None,
            statistics=self.statistics,
            part=PATIENCE,
            presolve=presolve,
        )
        if plans:
            return Outcome(Status.FEASIBLE, plans[-1])
        return Outcome(Status.INFEASIBLE if finished else Status.UNKNOWN)

    def _confirm_limit(self) -> None:
        """Prove once more that the smallest infeasible scale is infeasible, if CP-SAT claims it."""
        if self._claimed_scale == self.fails and self.fails is not None:
            self.doubt = self._doubt(self.fails * SCALE_STEP)
            self.run.report(bound=self.bound())

    def _decide_below_the_grid(self, factor: float) -> Outcome:
        """Solve the model at ``factor``, and prove once more that it is infeasible if CP-SAT claims so."""
        outcome = self._solve_at(factor)
        if outcome.status is Status.INFEASIBLE:
            self.doubt = self.doubt or self._doubt(factor)
        return outcome

    def _doubt(self, factor: float) -> str:
        """Return why it is not confirmed that ``factor`` times the rates is infeasible; empty if it is."""
        scaled = replace(self.instance.scaled(factor), name=self.instance.name, objective=Objective.COST)
        answer = confirm(scaled, self.run, None, 0.0)
        if answer.agrees or self._solve_at(factor, presolve=False).status is Status.INFEASIBLE:
            return ""
        return f"CP-SAT's proof is not confirmed: {answer.reason}"
