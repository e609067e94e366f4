"""Run CP-SAT on the assignment model until what it finds is true of the real problem.

Importing this module loads OR-Tools.
"""

import math
import time
from collections.abc import Callable, Sequence
from math import ceil, floor

from ortools.sat.python import cp_model

from bench.api import Run
from formulations.cpsat.assignment import Assignment
from formulations.problem import Group, Problem

BOUND_TOLERANCE = 1e-6
"""Bounds come as floating-point numbers; the objective is whole."""


class _Watcher(cp_model.CpSolverSolutionCallback):
    """Takes solutions whose groups really fit, and stops the search at one that has a misfit."""

    def __init__(self, assignment: Assignment, problem: Problem, accept: Callable[[Sequence[Group]], None]) -> None:
        super().__init__()
        self.assignment, self.problem, self.accept = assignment, problem, accept
        self.misfits: list[Group] = []

    def on_solution_callback(self) -> None:
        groups = self.assignment.groups(self.boolean_value)
        misfits = [group for group in groups if self.problem.fits(group) is None]
        if misfits:
            self.misfits += misfits
            self.stop_search()
        else:
            self.accept(groups)


def solve(
    assignment: Assignment,
    problem: Problem,
    run: Run,
    deadline: float,
    accept: Callable[[Sequence[Group]], None],
    improve_bound: Callable[[int], None],
    statistics: dict[str, float],
    part: float = 1.0,
) -> bool:
    """Solve ``assignment``; return whether nothing better than the last accepted solution is left to find.

    Parameters
    ----------
    assignment
        The model; groups that fit in whole numbers only are forbidden in it as they turn up.
    problem
        Knows the truth about a group.
    run
        For the seed and the threads.
    deadline
        ``time.monotonic()`` at which to stop; presolve may take a little more.
    accept
        Called with every solution that really fits.
    improve_bound
        Called with every bound on the objective.
    statistics
        Added to: the solver's ``branches`` and ``conflicts``, and ``restarts`` for the sake of misfits, and
        its deterministic time as ``work``.
    part
        Of the work that is left, to be used at most.
    """
    sense = assignment.sense

    def whole(bound: float) -> int:
        return ceil(bound - BOUND_TOLERANCE) if sense < 0 else floor(bound + BOUND_TOLERANCE)

    work = statistics.setdefault("work", 0.0)
    most = math.inf if run.work_limit is None else work + part * max(0.0, run.work_limit - work)
    while True:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = run.threads
        solver.parameters.random_seed = run.seed
        solver.parameters.max_time_in_seconds = max(0.0, deadline - time.monotonic())
        if run.work_limit is not None:
            solver.parameters.max_deterministic_time = max(0.0, most - statistics["work"])
            solver.parameters.interleave_search = run.threads > 1  # threads alone do not take turns alike
        # Where every workload must be placed, learning from conflicts proves more than linear relaxations do.
        solver.parameters.linearization_level = 2 if sense > 0 else 0
        if sense:
            solver.best_bound_callback = lambda bound: improve_bound(whole(bound))
        watcher = _Watcher(assignment, problem, accept)
        status = solver.solve(assignment.model, watcher)
        if status == cp_model.MODEL_INVALID:
            raise RuntimeError(f"CP-SAT rejects the model: {assignment.model.validate()}")
        for name, count in (("branches", solver.num_branches), ("conflicts", solver.num_conflicts)):
            statistics[name] = statistics.get(name, 0.0) + count
        statistics["work"] += solver.response_proto.deterministic_time
        if sense and status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            improve_bound(whole(solver.best_objective_bound))
        if not watcher.misfits:
            return status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        for group in watcher.misfits:
            assignment.forbid(group)
        statistics["restarts"] = statistics.get("restarts", 0.0) + 1
