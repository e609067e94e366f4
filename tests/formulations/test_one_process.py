"""SCIP, HiGHS and CP-SAT in one process: each solves a small model, whichever is loaded first."""

import subprocess
import sys
from itertools import permutations

import pytest

SOLVE = {
    "pyscipopt": """
import pyscipopt
scip = pyscipopt.Model()
scip.hideOutput()
x, y = scip.addVar(vtype="I", ub=9), scip.addVar(ub=9)
scip.addCons(x * y <= 12)
scip.addCons(x >= 4)
scip.setObjective(y, "maximize")
scip.optimize()
answers["pyscipopt"] = round(scip.getObjVal(), 6)
""",
    "highspy": """
import highspy
highs = highspy.Highs()
highs.silent()
x = highs.addIntegral(ub=9)
y = highs.addIntegral(ub=9)
highs.addConstr(2 * x + 3 * y <= 12)
highs.maximize(x + y)
answers["highspy"] = round(highs.getObjectiveValue(), 6)
""",
    "ortools": """
from ortools.sat.python import cp_model
model = cp_model.CpModel()
x, y = model.new_int_var(0, 9, "x"), model.new_int_var(0, 9, "y")
model.add(2 * x + 3 * y <= 13)
model.add(x != 5)
model.maximize(3 * x + 4 * y)
solver = cp_model.CpSolver()
solver.parameters.num_workers = 1
solver.solve(model)
answers["ortools"] = solver.objective_value
""",
}
OPTIMA = {"pyscipopt": 3.0, "highspy": 6.0, "ortools": 18.0}


@pytest.mark.parametrize("order", list(permutations(SOLVE)), ids="-".join)
def test_each_solves_its_model_in_every_order(order: tuple[str, ...]) -> None:
    # The libraries are loaded in this order and then used in this order, because both loading and use may fail.
    loads = "import " + ", ".join("ortools.sat.python.cp_model" if name == "ortools" else name for name in order)
    program = "\n".join([loads, "answers = {}", *(SOLVE[name] for name in order), "print(sorted(answers.items()))"])

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(sorted(OPTIMA.items()))
