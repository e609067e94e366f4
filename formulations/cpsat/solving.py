"""Solution of the assignment model with CP-SAT, repeated until the result is feasible for the true problem.

Importing this module loads OR-Tools.
"""

import math
import time
from collections.abc import Callable, Sequence

from ortools.sat.python import cp_model

from bench.api import Run
from formulations.cpsat.assignment import Assignment
from instances.one_gpu import Pattern

BOUND_TOLERANCE = 1e-6
"""Allowance for the rounding of floating-point bounds on the integer objective."""


class _Watcher(cp_model.CpSolverSolutionCallback):
    """Callback that accepts feasible solutions and stops the search at a solution with an infeasible pattern."""

    def __init__(self, assignment: Assignment, accept: Callable[[Sequence[Pattern]], None]) -> None:
        super().__init__()
        self.assignment, self.accept = assignment, accept
        self.misfits: list[Pattern] = []

    def on_solution_callback(self) -> None:
        patterns = self.assignment.patterns(self.boolean_value)
        misfits = [pattern for pattern in patterns if self.assignment.problem.fit(pattern) is None]
        if misfits:
            self.misfits += misfits
            self.stop_search()
        else:
            self.accept(patterns)


def solver_of(run: Run, presolve: bool = True) -> cp_model.CpSolver:
    """Return a solver with the threads and the seed of a run."""
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = run.threads
    solver.parameters.random_seed = run.seed
    solver.parameters.cp_model_presolve = presolve
    # A rule of presolve that is tried within this limit sums coefficients into 32 bits (google/or-tools #5293); it
    # loses feasible solutions in CP-SAT 9.15.
    solver.parameters.presolve_inclusion_work_limit = 0
    return solver


def solve(
    assignment: Assignment,
    run: Run,
    accept: Callable[[Sequence[Pattern]], None],
    improve_bound: Callable[[int], None],
    statistics: dict[str, float],
    part: float = 1.0,
    presolve: bool = True,
) -> bool:
    """Solve ``assignment``; return whether CP-SAT completed the search.

    If it did, the last accepted solution is optimal, or there is no solution if none was accepted. Patterns that fit
    only in the rounded model are added to it as forbidden. Presolve may overrun the deadline.

    Parameters
    ----------
    accept
        Called with every feasible solution.
    improve_bound
        Called with every bound on the objective.
    statistics
        Increased by the solver's ``branches`` and ``conflicts``, by the ``restarts`` after infeasible patterns, and by
        the deterministic time as ``work``.
    part
        Largest fraction of the remaining work to use.
    presolve
        Whether CP-SAT simplifies the model first.
    """
    sense = assignment.sense  # -1: minimise, 1: maximise, 0: any solution

    def rounded_bound(bound: float) -> int:
        return math.ceil(bound - BOUND_TOLERANCE) if sense < 0 else math.floor(bound + BOUND_TOLERANCE)

    work = statistics.setdefault("work", 0.0)
    largest_work = math.inf if run.work_limit is None else work + part * max(0.0, run.work_limit - work)
    while True:
        solver = solver_of(run, presolve)
        solver.parameters.max_time_in_seconds = max(0.0, assignment.deadline - time.monotonic())
        if run.work_limit is not None:
            solver.parameters.max_deterministic_time = max(0.0, largest_work - statistics["work"])
            solver.parameters.interleave_search = run.threads > 1  # without it, several threads are not deterministic
        # The objective is maximised if workloads may be left out. If every workload must be placed, conflict learning
        # proves more than linear relaxations.
        solver.parameters.linearization_level = 2 if sense > 0 else 0
        if sense:
            solver.best_bound_callback = lambda bound: improve_bound(rounded_bound(bound))
        watcher = _Watcher(assignment, accept)
        status = solver.solve(assignment.model, watcher)
        if status == cp_model.MODEL_INVALID:
            raise RuntimeError(f"CP-SAT rejects the model: {assignment.model.validate()}")
        for name, count in (("branches", solver.num_branches), ("conflicts", solver.num_conflicts)):
            statistics[name] = statistics.get(name, 0.0) + count
        statistics["work"] += solver.response_proto.deterministic_time
        if sense and status in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            improve_bound(rounded_bound(solver.best_objective_bound))
        if not watcher.misfits:
            return status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
        for pattern in watcher.misfits:
            assignment.forbid(pattern)
        statistics["restarts"] = statistics.get("restarts", 0.0) + 1
