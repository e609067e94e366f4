"""Pinned release of HiGHS: it solves models that other releases get wrong, and loads beside OR-Tools."""

import importlib.metadata
import subprocess
import sys
import tomllib
from pathlib import Path

import highspy
import numpy as np
import pyomo.environ as pyo
import pytest

from bench.api import Run
from formulations.compact.highs import solve


def minimise(
    costs: list[float],
    rows: list[tuple[dict[int, float], float, float]],
    bounds: list[tuple[float, float]],
    whole: set[int],
) -> float:
    """Solve a model with highspy and return its optimum; rows are (coefficients by column, least, most)."""
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for cost, (low, high) in zip(costs, bounds, strict=True):
        solver.addCol(cost, low, high, 0, np.array([], dtype=np.int32), np.array([]))
    for column in whole:
        solver.changeColIntegrality(column, highspy.HighsVarType.kInteger)
    for terms, least, most in rows:
        columns = np.array(list(terms), dtype=np.int32)
        solver.addRow(least, most, len(columns), columns, np.array(list(terms.values())))
    solver.run()
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value)


def test_presolve_keeps_a_fixed_charge() -> None:
    # min 2 b + 99999 y with a + b = 10, a <= 100 y, y binary
    rows = [({0: 1.0, 1: 1.0}, 10.0, 10.0), ({0: 1.0, 2: -100.0}, -np.inf, 0.0)]
    bounds = [(0.0, np.inf), (0.0, np.inf), (0.0, 1.0)]

    assert minimise([0.0, 2.0, 99999.0], rows, bounds, {2}) == pytest.approx(20.0)


def test_presolve_rounds_no_integer_variable() -> None:
    # min 2 x + 3 z with x + z >= 4.5, z integer
    rows = [({0: 1.0, 1: 1.0}, 4.5, np.inf)]

    assert minimise([2.0, 3.0], rows, [(0.0, np.inf), (0.0, np.inf)], {1}) == pytest.approx(9.0)


def test_the_same_models_are_solved_through_pyomo() -> None:
    first = pyo.ConcreteModel()
    first.a = pyo.Var(domain=pyo.NonNegativeReals)
    first.b = pyo.Var(domain=pyo.NonNegativeReals)
    first.y = pyo.Var(domain=pyo.Binary)
    first.sum = pyo.Constraint(expr=first.a + first.b == 10)
    first.charge = pyo.Constraint(expr=first.a <= 100 * first.y)
    first.value = pyo.Objective(expr=2 * first.b + 99999 * first.y)
    second = pyo.ConcreteModel()
    second.x = pyo.Var(domain=pyo.NonNegativeReals)
    second.z = pyo.Var(domain=pyo.NonNegativeIntegers)
    second.cover = pyo.Constraint(expr=second.x + second.z >= 4.5)
    second.value = pyo.Objective(expr=2 * second.x + 3 * second.z)

    for model, best in ((first, 20.0), (second, 9.0)):
        answer = solve(model, Run())

        assert answer.solved
        assert pyo.value(model.value) == pytest.approx(best)
        assert answer.bound == pytest.approx(best)


def test_a_model_without_a_solution_gives_an_answer_and_no_exception() -> None:
    model = pyo.ConcreteModel()
    model.z = pyo.Var(domain=pyo.Integers, bounds=(0, 1))
    model.row = pyo.Constraint(expr=2 * model.z == 1)
    model.value = pyo.Objective(expr=model.z)

    answer = solve(model, Run())

    assert (answer.solved, answer.infeasible, answer.bound) == (False, True, float("inf"))


def test_one_process_solves_with_different_numbers_of_threads() -> None:
    for threads in (1, 2, 1):
        model = pyo.ConcreteModel()
        model.z = pyo.Var(domain=pyo.Integers, bounds=(0, 7))
        model.row = pyo.Constraint(expr=2 * model.z >= 3)
        model.value = pyo.Objective(expr=model.z)

        assert solve(model, Run(threads=threads)).bound == pytest.approx(2.0)


def test_the_installed_release_is_the_pinned_one() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    pins = [dependency for dependency in project["dependencies"] if dependency.startswith("highspy")]

    assert pins == [f"highspy=={importlib.metadata.version('highspy')}"]


@pytest.mark.parametrize(
    "order", [("highspy", "ortools.sat.python.cp_model"), ("ortools.sat.python.cp_model", "highspy")]
)
def test_highspy_and_ortools_load_in_either_order_and_both_solve(order: tuple[str, str]) -> None:
    code = f"""
import {order[0]}, {order[1]}
import highspy
from ortools.sat.python import cp_model
solver = highspy.Highs()
solver.setOptionValue("output_flag", False)
solver.addVar(1.0, 4.0)
solver.changeColCost(0, 1.0)
solver.run()
model = cp_model.CpModel()
x = model.new_int_var(2, 5, "x")
model.minimize(x)
cp = cp_model.CpSolver()
cp.parameters.num_workers = 1
cp.solve(model)
print(solver.getInfo().objective_function_value, cp.objective_value)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.split() == ["1.0", "2.0"]
