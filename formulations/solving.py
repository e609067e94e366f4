"""Run CP-SAT on the assignment model until what it finds is true of the real problem.

Importing this module loads OR-Tools.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor

from ortools.sat.python import cp_model

from bench.api import Run
from formulations.assignment import Assignment
from formulations.offers import Fits, Group

BOUND_TOLERANCE = 1e-6
"""Bounds come as floating-point numbers; the objective is whole."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a search ended.

    Attributes
    ----------
    finished
        Whether the solver proved the last accepted solution best, or that there is none (better).
    restarts
        Searches after the first, each without groups that fitted in whole numbers only.
    branches
        Of all searches.
    """

    finished: bool
    restarts: int
    branches: int


class _Watcher(cp_model.CpSolverSolutionCallback):
    """Takes solutions whose groups really fit, and stops the search at one that has a misfit."""

    def __init__(self, assignment: Assignment, fits: Fits, accept: Callable[[Sequence[Group]], None]) -> None:
        super().__init__()
        self.assignment, self.fits, self.accept = assignment, fits, accept
        self.misfits: list[Group] = []

    def on_solution_callback(self) -> None:
        groups = self.assignment.groups(self.boolean_value)
        misfits = [group for group in groups if self.fits(group) is None]
        if misfits:
            self.misfits += misfits
            self.stop_search()
        else:
            self.accept(groups)


def solve(
    assignment: Assignment,
    fits: Fits,
    run: Run,
    deadline: float,
    accept: Callable[[Sequence[Group]], None],
    improve_bound: Callable[[int], None],
) -> Answer:
    """Solve ``assignment``.

    Parameters
    ----------
    assignment
        The model; groups that do not fit after all are forbidden in it.
    fits
        The truth about a group.
    run
        For the seed and the threads.
    deadline
        ``time.monotonic()`` at which to stop; presolve may take a little more.
    accept
        Called with every solution that really fits.
    improve_bound
        Called with every bound on the objective.
    """
    sense = assignment.sense
    restarts = branches = 0

    def whole(bound: float) -> int:
        return ceil(bound - BOUND_TOLERANCE) if sense < 0 else floor(bound + BOUND_TOLERANCE)

    while True:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = run.threads
        solver.parameters.random_seed = run.seed
        solver.parameters.max_time_in_seconds = max(0.0, deadline - time.monotonic())
        if sense:
            solver.best_bound_callback = lambda bound: improve_bound(whole(bound))
        watcher = _Watcher(assignment, fits, accept)
        status = solver.solve(assignment.model, watcher)
        if status == cp_model.MODEL_INVALID:
            raise RuntimeError(f"CP-SAT rejects the model: {assignment.model.validate()}")
        branches += solver.num_branches
        if sense and status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            improve_bound(whole(solver.best_objective_bound))
        if not watcher.misfits:
            return Answer(status in (cp_model.OPTIMAL, cp_model.INFEASIBLE), restarts, branches)
        for group in watcher.misfits:
            assignment.forbid(group)
        restarts += 1
