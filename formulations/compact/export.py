"""Files of compact models for other solvers (.mps, .lp, .nl), and the plans of these solvers' solutions."""

import re
from pathlib import Path
from typing import Any

import pyomo.environ as pyo
from pyomo.core.base.label import TextLabeler

from bench.api import Outcome, Run
from formulations.compact.build import build
from formulations.compact.model import CompactModel
from formulations.compact.repair import repair
from formulations.compact.search import Search
from instances import InputError, Instance, Plan

COMMENT = {".mps": "*", ".lp": "\\"}
"""Beginning of a comment in files of these endings."""

INDICES = {"O": "o", "A": "o", "B": "o,b", "V": "o,t,k", "J": "t,k", "P": "o,b,r", "S": "o,s"}
"""Indices of variables by the name of their set: option, GPU type, number of a GPU, batch, share, rate step."""

_PLACED = ("v", "b", "r")
"""Variables of placements, batches and shares."""

_VALUE = re.compile(
    r"""(?:name=")?(?P<name>[^\s"]+)"?\s+(?:index="\d+"\s+)?(?:value=")?"""
    r"""(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)(?![^\s"])"""
)
"""Name and value in a line of a solver's file: ``x 1``, ``7 x 1 0``, or ``name="x" value="1"``."""


def whole_model(instance: Instance, continuous_shares: bool = False) -> tuple[Search, CompactModel]:
    """Return a search with the plan of first fit, and the model of all spatial plans that are at least as good.

    The model lacks its nonlinear relations.

    Raises
    ------
    InputError
        If the instance has no such model.
    """
    search = Search.of(instance, Run())
    if isinstance(search, Outcome):
        raise InputError(instance.name, f"has no model: {search.reason or 'no plan needs a GPU'}")
    return search, build(search.problem, search.gpus(equal_cost=True), continuous_shares)


def write(model: CompactModel, file: Path) -> None:
    """Write a model with the names and a legend of its variables; the ending of the file names the format.

    Files for linear solvers begin with the legend as comments. The legend of a file ``.nl`` is a second file, with the
    ending ``.legend``.
    """
    model.pyomo.write(str(file), io_options={"symbolic_solver_labels": True})
    lines = legend(model)
    if file.suffix in COMMENT:
        comments = "".join(f"{COMMENT[file.suffix]} {line}\n" for line in lines)
        file.write_text(comments + file.read_text(encoding="utf-8"), encoding="utf-8")
    else:
        file.with_suffix(".legend").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def legend(model: CompactModel) -> list[str]:
    """Return the meaning of the variables, options and GPU types of a model, a line for each."""
    instance = model.instance
    lines = [f"{instance.name}: {instance.objective}, plans of the class spatial; equations without a source: iGniter"]
    variables = [variable for variable in model.pyomo.component_objects(pyo.Var, descend_into=False) if variable.doc]
    lines += [f"{variable.name}({INDICES[variable.index_set().name]}): {variable.doc}" for variable in variables]
    for o, option in enumerate(model.options):
        workload, gpu = instance.workloads[option.workload], model.offers[option.offer].view.gpu
        lines.append(f"o={o}: workload {workload.id} ({workload.model}) on {gpu.name}")
    lines.append("variables without a line here: piecewise linear functions of the others")
    lines += [f"t={t}: {offer.view.gpu.name}" for t, offer in enumerate(model.offers)]
    return [" ".join(line.split()) for line in lines]


def plan_of(instance: Instance, solution: str, where: str) -> tuple[Plan | None, int]:
    """Return the plan of a solution of ``whole_model``, and the number of GPUs that did not fit and were repaired.

    The plan is ``None`` if it cannot be repaired.

    Parameters
    ----------
    solution
        Text of a solver such as HiGHS, SCIP, Gurobi, CBC or CPLEX: the line of each variable has its name and its
        value. A variable without a line is 0.
    where
        Name of the solution's file, for errors.

    Raises
    ------
    InputError
        If the instance has no model, the text names none of its variables or one that the model lacks, or a batch is
        missing.
    """
    search, model = whole_model(instance)
    label_of = TextLabeler()
    values: dict[str, float] = {}
    for line in solution.splitlines():
        for match in _VALUE.finditer(line):
            values.setdefault(match["name"], float(match["value"]))

    def value_of(variable: Any) -> float:
        label = label_of(variable)
        if label.startswith("b(") and label not in values:
            raise InputError(where, f'lacks a value of "{label}", the batch of a workload; write all variables')
        return values.get(label, 0.0)

    if not any(label_of(variable) in values for variable in model.pyomo.v.values()):
        raise InputError(where, f'names no variable of the model of "{instance.name}"; write names such as v(0_0_0)')
    for variable in model.pyomo.b.values():
        value_of(variable)  # raises InputError: the solution of a smaller instance lacks batches
    own = {label_of(variable) for name in _PLACED for variable in getattr(model.pyomo, name).values()}
    for name in values:
        if name.startswith(tuple(f"{each}(" for each in _PLACED)) and name not in own:
            problem = f'has a value of "{name}", which the model of "{instance.name}" lacks'
            raise InputError(where, f"{problem}: it is a solution of another instance")
    stated = model.patterns(value_of)
    gpus_repaired = sum(search.problem.fit(pattern) is None for pattern in stated)
    patterns = repair(search.problem, stated)
    if patterns is None:
        return None, gpus_repaired
    search.plan = None  # without the plan of first fit, the solution's plan is accepted even if it is no better
    return search.plan if search.accept(patterns) else None, gpus_repaired
