"""Known fault of CP-SAT: a rule of its presolve that loses feasible solutions."""

from typing import TYPE_CHECKING

from bench.doctor import Finding, Level
from bench.provenance import distribution_version

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

ROWS = (
    ((1252977446, 1198096563, 1270164001, 1746760093, 1268226426, 1130420634, 1366122131), 1642853384),
    ((1288617324, 1803635462, 1347927745, 1706188398, 1826159079, 1954786007, 1455297329), 3361635846),
)
"""Coefficients and limit of two rows, of which at most one is enforced; their sums exceed 32 bits."""

BEST = 5.0
"""Largest objective of the model with these rows; CP-SAT 9.15 claims 4 (google/or-tools #5293)."""


def lossy_model() -> "CpModel":
    """Return a small model whose best solution is lost by a presolve that sums coefficients into 32 bits."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    taken = [model.new_bool_var("") for _ in ROWS[0][0]]
    enforced = [model.new_bool_var("") for _ in ROWS]
    model.add_at_most_one(taken[:3])
    model.add_at_most_one(taken[3:6])
    for (coefficients, limit), condition in zip(ROWS, enforced, strict=True):
        total = cp_model.LinearExpr.weighted_sum(taken, coefficients)
        model.add(total <= limit).only_enforce_if(condition)
    model.add_bool_or([condition.negated() for condition in enforced])
    model.maximize(sum(taken) + taken[5] + enforced[0] + 2 * enforced[1])
    return model


def presolve_answers() -> list[Finding]:
    """Solve a model that CP-SAT's presolve is known to turn, with the rule in question and without it."""
    if distribution_version("ortools") is None:
        return []  # the versions of the solvers are another check
    found = {rule: _largest(rule) for rule in (True, False)}
    if found[False] != BEST:
        problem = f"wrong without the rule of presolve as well: {found[False]:g} instead of {BEST:g}"
        return [Finding("cpsat", Level.ERROR, problem, 'pip install "gpushare-bench" in a fresh environment')]
    if found[True] != BEST:
        words = f"right; the rule of presolve that `cpsat` switches off loses the best solution ({found[True]:g})"
        return [Finding("cpsat", Level.OK, words)]
    return [Finding("cpsat", Level.OK, "right; this release has no fault in the rule that `cpsat` switches off")]


def _largest(rule: bool) -> float:
    """Return the objective that CP-SAT calls optimal."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if not rule:
        solver.parameters.presolve_inclusion_work_limit = 0
    solver.solve(lossy_model())
    return round(solver.objective_value)
