"""Check for a known fault of CP-SAT: a presolve rule that loses feasible solutions."""

from typing import TYPE_CHECKING

from bench.doctor import Finding, Level
from bench.provenance import distribution_version

if TYPE_CHECKING:
    from ortools.sat.python.cp_model import CpModel

ROWS = (
    ((1252977446, 1198096563, 1270164001, 1746760093, 1268226426, 1130420634, 1366122131), 1642853384),
    ((1288617324, 1803635462, 1347927745, 1706188398, 1826159079, 1954786007, 1455297329), 3361635846),
)
"""Coefficients and limits of two rows; at most one row is enforced. Sums of the coefficients exceed 32 bits."""

BEST = 5.0
"""Largest objective of the model with these rows; CP-SAT 9.15 claims 4 (google/or-tools #5293)."""


def lossy_model() -> "CpModel":
    """Return a small model for which a presolve that sums coefficients into 32 bits loses the best solution."""
    from ortools.sat.python import cp_model

    model = cp_model.CpModel()
    chosen = [model.new_bool_var("") for _ in ROWS[0][0]]
    enforced = [model.new_bool_var("") for _ in ROWS]
    model.add_at_most_one(chosen[:3])
    model.add_at_most_one(chosen[3:6])
    for (coefficients, bound), literal in zip(ROWS, enforced, strict=True):
        load = cp_model.LinearExpr.weighted_sum(chosen, coefficients)
        model.add(load <= bound).only_enforce_if(literal)
    model.add_bool_or([literal.negated() for literal in enforced])
    model.maximize(sum(chosen) + chosen[5] + enforced[0] + 2 * enforced[1])
    return model


def presolve_answers() -> list[Finding]:
    """Solve a model for which CP-SAT's presolve may lose the best solution, with the faulty rule and without it."""
    if distribution_version("ortools") is None:
        return []  # another check reports missing solvers
    largest = {with_rule: _largest(with_rule) for with_rule in (True, False)}
    if largest[False] != BEST:
        problem = f"wrong without the rule of presolve as well: {largest[False]:g} instead of {BEST:g}"
        return [Finding("cpsat", Level.ERROR, problem, 'pip install "gpushare-bench" in a fresh environment')]
    if largest[True] != BEST:
        observation = (
            f"right; the rule of presolve that `cpsat` switches off loses the best solution ({largest[True]:g})"
        )
        return [Finding("cpsat", Level.OK, observation)]
    return [Finding("cpsat", Level.OK, "right; this release has no fault in the rule that `cpsat` switches off")]


def _largest(with_rule: bool) -> float:
    """Return the objective that CP-SAT calls optimal, with or without the faulty presolve rule."""
    from ortools.sat.python import cp_model

    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    if not with_rule:
        solver.parameters.presolve_inclusion_work_limit = 0
    solver.solve(lossy_model())
    return round(solver.objective_value)
