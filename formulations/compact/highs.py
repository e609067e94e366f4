"""Interface from Pyomo to HiGHS for mixed-integer linear models, within the limits of a run."""

import math
from typing import Any

import pyomo.environ as pyo
from pyomo.contrib.solver.common.factory import SolverFactory
from pyomo.contrib.solver.common.results import SolutionStatus, TerminationCondition

from bench.api import Run
from formulations.compact.search import SolverAnswer
from formulations.highs import MOST_NODES, reset_threads

NO_SOLUTION = frozenset({TerminationCondition.provenInfeasible, TerminationCondition.infeasibleOrUnbounded})
"""Conditions that mean infeasible; a compact model is never unbounded, because all its variables are bounded."""


def solve(model: Any, run: Run, reserve_s: float = 0.0) -> SolverAnswer:
    """Solve a mixed-integer linear Pyomo model with HiGHS and load the best solution found.

    Parameters
    ----------
    run
        The work limit counts nodes; presolve may overrun the deadline.
    reserve_s
        Seconds before the deadline at which the solver stops.
    """
    reset_threads()
    solver = SolverFactory("highs")
    solver.set_instance(model)  # before the time limit is set, since it can take seconds
    limit_s = run.remaining_s - reserve_s
    results = solver.solve(
        model,
        load_solutions=False,
        raise_exception_on_nonoptimal_result=False,
        time_limit=max(limit_s, 0.01) if math.isfinite(limit_s) else None,
        threads=run.threads,
        rel_gap=0.0,
        solver_options={
            "random_seed": run.seed % 2**31,
            "mip_max_nodes": min(run.work_left(0, MOST_NODES), MOST_NODES),
        },
    )
    minimised = next(model.component_data_objects(pyo.Objective, active=True)).is_minimizing()
    infeasible = results.termination_condition in NO_SOLUTION
    solved = results.solution_status in (SolutionStatus.optimal, SolutionStatus.feasible)
    bound = results.objective_bound
    if infeasible:
        bound = math.inf if minimised else -math.inf
    elif bound is not None and not math.isfinite(bound):
        bound = None
    if solved:
        results.solution_loader.load_vars()
    finished = infeasible or results.solution_status is SolutionStatus.optimal
    nodes = results.extra_info.get("mip_node_count")
    return SolverAnswer(solved, finished, infeasible, bound, 0.0 if nodes is None else float(nodes.value()))
