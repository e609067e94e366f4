"""Interface from Pyomo to SCIP: Pyomo writes the model to a file that SCIP reads."""

import math
import os
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.api import Run
from formulations.compact.export import write
from formulations.compact.model import CompactModel, Expr
from formulations.compact.search import SolverAnswer
from formulations.compact.tables import is_tabulated

MEMORY_PART = 0.5
"""SCIP's memory limit as a fraction of the run's limit: SCIP does not count all of its memory."""

REFUSED = "SCIP refuses the model: a coefficient is 1e20 or larger, which SCIP takes for infinity"

ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""Environment variables that limit the threads of linear algebra."""


def _load() -> Any:
    """Import PySCIPOpt with single-threaded linear algebra.

    The linear algebra library reads its number of threads from the environment when it is loaded. With several threads,
    idle threads spin, which makes SCIP many times slower if other programs use the cores.
    """
    previous_values = {name: os.environ.get(name) for name in ONE_THREAD}
    os.environ.update(dict.fromkeys(ONE_THREAD, "1"))
    try:
        return import_module("pyscipopt")  # by name: its own type stubs do not pass mypy
    finally:
        for name, value in previous_values.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


pyscipopt: Any = _load()


class _Incumbents(pyscipopt.Eventhdlr):  # type: ignore[misc]
    """Event handler that passes on every new incumbent."""

    def __init__(self, on_incumbent: Callable[[], None]) -> None:
        self.on_incumbent = on_incumbent

    def eventinit(self) -> None:
        self.model.catchEvent(pyscipopt.SCIP_EVENTTYPE.BESTSOLFOUND, self)

    def eventexit(self) -> None:
        self.model.dropEvent(pyscipopt.SCIP_EVENTTYPE.BESTSOLFOUND, self)

    def eventexec(self, event: Any) -> None:
        self.on_incumbent()


def _prefer_placements(scip: Any, variables: dict[str, Any]) -> None:
    """Branch on placements first: batches, shares and interference follow from them."""
    for name, variable in variables.items():
        if name.startswith(("v[", "used[")):
            scip.chgVarBranchPriority(variable, 1)


def solve(
    model: CompactModel, run: Run, reserve_s: float, on_solution: Callable[[Callable[[Expr], float]], None]
) -> SolverAnswer:
    """Solve a compact model with all its rows.

    Parameters
    ----------
    run
        The work limit counts nodes.
    reserve_s
        Seconds before the deadline at which the solver stops.
    on_solution
        Called at each new incumbent with a function that returns the value of a Pyomo variable.
    """
    scip = pyscipopt.Model()
    scip.hideOutput()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "model.nl"
        write(model, file)
        try:
            scip.readProblem(str(file))
        except Exception:  # noqa: BLE001 - PySCIPOpt has no class of its own; SCIP has printed its reason
            return SolverAnswer(False, False, False, None, 0.0, REFUSED)
    variables = {variable.name: variable for variable in scip.getVars()}

    def value_of(variable: Expr) -> float:
        # A variable that is in no row is not in the file.
        scip_variable = variables.get(variable.name)
        return float(variable.lb) if scip_variable is None else float(scip.getSolVal(scip.getBestSol(), scip_variable))

    scip.includeEventhdlr(_Incumbents(lambda: on_solution(value_of)), "incumbents", "passes on every new incumbent")
    _prefer_placements(scip, variables)
    scip.setParam("randomization/randomseedshift", run.seed % 2**31)
    scip.setParam("lp/threads", run.threads)
    if math.isfinite(run.remaining_s):
        scip.setParam("limits/time", max(0.01, run.remaining_s - reserve_s))
    if is_tabulated(model):
        # Probing tries thousands of pairs of batch and share one by one, and fixes few.
        scip.setParam("propagating/probing/maxprerounds", 0)
    if run.work_limit is not None:
        scip.setParam("limits/totalnodes", run.work_limit)
    if run.memory_limit_mb is not None:
        scip.setParam("limits/memory", MEMORY_PART * run.memory_limit_mb)
    scip.optimize()
    infeasible = scip.getStatus() in ("infeasible", "inforunbd")
    finished = infeasible or scip.getStatus() == "optimal"
    bound = float(scip.getDualbound())
    if infeasible:
        bound = math.inf if model.instance.objective.minimised else -math.inf
    bounded = infeasible or abs(bound) < scip.infinity()
    return SolverAnswer(
        scip.getNSols() > 0, finished, infeasible, bound if bounded else None, float(scip.getNTotalNodes())
    )
