"""Covering problems of small entries: other solvers find the entries' values, and no better ones."""

import re
import subprocess
import sys
from importlib.util import find_spec
from itertools import combinations
from pathlib import Path

import highspy
import pytest
from ortools.sat.python import cp_model

from bench.cli.app import main
from bench.library.covering import CoveringProblem, as_mps, as_opb, better_than, covering_problem, maximal
from instances import Objective
from instances.library import LIBRARY

EXAMPLE = Path(__file__).parents[3] / "examples" / "prove_covering.py"
NAMES = ["cost-turing-4", "cost-four-4", "capacity-t4-4", "goodput-t4-4", "cost-inss-7"]


def problem_of(name: str) -> CoveringProblem:
    entry = LIBRARY.entry(name)
    return covering_problem(entry.instance, entry.bound)


def solved_mps(text: str, folder: Path) -> float | None:
    """Return the least objective value that HiGHS finds; ``None`` without a solution."""
    (folder / "model.mps").write_text(text)
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    assert solver.readModel(str(folder / "model.mps")) == highspy.HighsStatus.kOk
    solver.run()
    if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
        return None
    assert solver.getModelStatus() == highspy.HighsModelStatus.kOptimal
    return float(solver.getInfo().objective_function_value)


def solved_opb(text: str) -> float | None:
    """Return the least objective value that CP-SAT finds; ``None`` without a solution."""
    head, *lines = [line for line in text.splitlines() if not line.startswith("* x")]
    (count,) = re.findall(r"#variable= (\d+)", head)
    model = cp_model.CpModel()
    variables = {f"x{number}": model.new_bool_var(f"x{number}") for number in range(1, int(count) + 1)}

    def total(words: list[str]) -> cp_model.LinearExprT:
        pairs = zip(words[::2], words[1::2], strict=True)
        return sum(int(coefficient) * variables[name] for coefficient, name in pairs)

    for line in lines:
        if line.startswith("min: "):
            model.minimize(total(line.split()[1:-1]))
        elif not line.startswith("*"):
            *terms, relation, right, end = line.split()
            assert end == ";"
            model.add(total(terms) >= int(right) if relation == ">=" else total(terms) == int(right))
    solver = cp_model.CpSolver()
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return None if status == cp_model.INFEASIBLE else solver.objective_value


@pytest.mark.parametrize("name", NAMES)
def test_other_solvers_find_the_value_of_the_entry_and_none_better(name: str, tmp_path: Path) -> None:
    entry, problem = LIBRARY.entry(name), problem_of(name)
    assert entry.closed
    assert entry.value is not None
    sign = 1.0 if problem.minimised else -1.0
    for best in (solved_mps(as_mps(problem), tmp_path), solved_opb(as_opb(problem))):
        assert best is not None
        assert sign * best / problem.unit == pytest.approx(entry.value, rel=1e-7)
    better = better_than(problem, entry.value)
    assert solved_mps(as_mps(better), tmp_path) is None
    assert solved_opb(as_opb(better)) is None
    worse = entry.value * (1.1 if problem.minimised else 0.9)
    assert solved_opb(as_opb(better_than(problem, worse))) is not None


def test_under_scale_there_is_no_solution_at_the_bound(tmp_path: Path) -> None:
    entry, problem = LIBRARY.entry("scale-t4-4"), problem_of("scale-t4-4")
    assert solved_mps(as_mps(problem), tmp_path) is None
    assert entry.value is not None
    attained = covering_problem(entry.instance, repr(entry.value))
    assert solved_mps(as_mps(attained), tmp_path) is not None


def test_only_maximal_patterns_are_listed_under_cost() -> None:
    assert maximal({0b001: 1, 0b011: 1, 0b100: 1, 0b110: 1}) == [0b011, 0b110]
    problem = problem_of("cost-four-4")
    for one, other in combinations(problem.patterns, 2):
        if one.gpu_type == other.gpu_type:
            sets = set(one.workloads), set(other.workloads)
            assert not sets[0] <= sets[1]
            assert not sets[1] <= sets[0]


def test_comments_tell_the_pattern_of_each_variable() -> None:
    problem = problem_of("cost-turing-4")
    legend = re.findall(r"^\* (x\d+): rtx2080ti with (.+)$", as_opb(problem), flags=re.M)
    assert [name for name, _ in legend] == [f"x{number + 1}" for number in range(len(problem.patterns))]
    ids = [workload.id for workload in problem.instance.workloads]
    assert [words.split() for _, words in legend] == [[ids[w] for w in p.workloads] for p in problem.patterns]


def test_the_command_writes_both_formats(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for ending in ("opb", "mps"):
        assert main(["library", "covering", "cost-turing-4", "--better", "-o", str(tmp_path / f"c.{ending}")]) == 0
        assert "patterns" in capsys.readouterr().err
    better = better_than(problem_of("cost-turing-4"), LIBRARY.entry("cost-turing-4").value or 0.0)
    assert (tmp_path / "c.opb").read_text() == as_opb(better)
    assert (tmp_path / "c.mps").read_text() == as_mps(better)


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["cost-t4-24", "-o", "c.opb"], "has 24 workloads; patterns are listed for at most 10"),
        (["library-parvagpu-2", "-o", "c.opb"], "they have no list of patterns"),
        (["cost-t4-4", "-o", "c.lp"], "expected .opb, .mps"),
        (["scale-t4-4", "--better", "-o", "c.opb"], "--better: scale-t4-4 has no value"),
    ],
)
def test_other_entries_are_refused(
    arguments: list[str],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["library", "covering", *arguments]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.soak
@pytest.mark.parametrize(
    "name",
    [
        line.name
        for line in LIBRARY.summaries()
        if line.objective == Objective.COST and line.closed and line.workloads <= 10 and line.name.startswith("cost-")
    ],
)
def test_exact_proves_the_costs_of_small_entries_with_its_own_certificate(name: str, tmp_path: Path) -> None:
    if find_spec("exact") is None:
        pytest.skip("needs the solver Exact (pip install exact)")
    assert main(["library", "covering", name, "--better", "-o", str(tmp_path / "better.opb")]) == 0
    assert _answer(tmp_path, "better") == "no solution"
    proof = (tmp_path / "better.proof").read_text().splitlines()
    assert proof[0].startswith("pseudo-Boolean proof version")
    assert proof[-1].startswith("c ")  # the last line names a contradiction
    assert not any(line.startswith("a ") for line in proof)  # no step is assumed


def _answer(folder: Path, name: str) -> str:
    """Run the example in a process of its own, since Exact replaces the handlers of signals."""
    command = [sys.executable, str(EXAMPLE), f"{name}.opb", name]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, timeout=120).stdout.strip()
