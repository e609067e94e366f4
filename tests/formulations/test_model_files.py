"""Model files: another solver reads them, and its solution becomes a plan."""

import re
from dataclasses import replace
from pathlib import Path

import highspy
import pytest

from bench.api import Run
from bench.cli.app import main
from bench.judging.judge import judge
from bench.selection import find_instance
from formulations.pwl import Pwl
from instances import SloRule
from instances.files import instance_to_json, plan_from_json, read_json, write_json
from instances.generate import generate


@pytest.mark.parametrize("ending", ["mps", "lp"])
def test_highs_reads_the_model_back_and_finds_the_same_optimum(tmp_path: Path, ending: str) -> None:
    instance = generate("igniter-mix", 3, 0)
    file = tmp_path / f"model.{ending}"
    write_json(tmp_path / "instance.json", instance_to_json(instance))
    assert main(["model", str(tmp_path / "instance.json"), "-o", str(file)]) == 0
    solver = highspy.Highs()
    solver.silent()
    assert solver.readModel(str(file)) is not highspy.HighsStatus.kError
    solver.run()
    plan = Pwl().schedule(instance, Run()).plan
    assert plan is not None
    assert solver.getInfo().objective_function_value == pytest.approx(plan.gpus_used * 3.06)


def test_the_nonlinear_model_is_written(tmp_path: Path) -> None:
    assert main(["model", "smoke-capacity", "-o", str(tmp_path / "model.nl")]) == 0
    assert (tmp_path / "model.nl").read_text().splitlines()[0].split() == [
        "g3",
        "1",
        "1",
        "0",
        "#",
        "problem",
        "smoke-capacity",
    ]


@pytest.mark.parametrize("name", ["smoke-cost", "smoke-goodput", "4gpu"])
@pytest.mark.parametrize(("ending", "mark"), [("mps", "* "), ("lp", "\\ "), ("nl", "")])
def test_files_have_a_legend_of_their_variables(tmp_path: Path, name: str, ending: str, mark: str) -> None:
    file = tmp_path / f"model.{ending}"
    exit_status = main(["model", name, "-o", str(file)])
    if exit_status == 2:  # the linear model does not support ``capacity``
        assert name == "4gpu"
        assert ending != "nl"
        return
    instance = find_instance(name, "test")
    text = (file if mark else file.with_suffix(".legend")).read_text()
    lines = [line.removeprefix(mark) for line in text.splitlines() if line.startswith(mark)]
    assert lines[0].startswith(f"{name}: {instance.objective}")
    for number, workload in enumerate(instance.workloads):
        assert f"o={number}: workload {workload.id} ({workload.model}) on {instance.gpus[0].type.name}" in lines
    explained = {line.split("(")[0] for line in lines if re.match(r"\w+\([a-z,]+\): ", line)}
    assert {"v", "b", "r", "used", "t_gpu"} <= explained
    if ending == "nl":
        variables = file.with_suffix(".col").read_text().split()
        assert {variable.split("[")[0] for variable in variables} <= explained


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["smoke-cost", "-o", "/proc/none/model.txt"], "expected .lp, .mps, .nl"),
        (["smoke-capacity", "-o", "/proc/none/model.mps"], "pwl does not solve capacity"),
        (["smoke-cost", "-o", "/proc/none/model.mps"], "cannot be written"),
        (["smoke-cost", "--solution", "model.sol", "-o", "plan.mps"], "expected .json with --solution"),
    ],
)
def test_wrong_input_is_an_error_with_a_message(
    arguments: list[str],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["model", *arguments]) == 2
    assert problem in capsys.readouterr().err


STYLES = {
    "highs": "# Columns 9\n{name} {value:.17g}",
    "scip": "{name}            {value:.15g} \t(obj:0)",
    "cbc": "   7 {name}      {value:.15g}     0",
    "cplex": '  <variable name="{name}" index="7" value="{value:.15g}"/>',
}
"""Line of a solution file for each solver."""


@pytest.mark.parametrize("style", STYLES)
def test_a_solution_becomes_a_plan(tmp_path: Path, style: str) -> None:
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    Pwl().write_model(find_instance("smoke-cost", "test"), tmp_path / "model.mps")
    solver.readModel(str(tmp_path / "model.mps"))
    solver.run()
    values = dict(zip(solver.getLp().col_names_, solver.getSolution().col_value, strict=True))
    lines = [STYLES[style].format(name=name, value=value) for name, value in values.items() if abs(value) > 1e-12]
    if style == "highs":
        lines += ["# Dual solution values", *(f"{name} 0" for name in values)]
    (tmp_path / "model.sol").write_text("\n".join(["objective value: 6.12", *lines]))
    plan = tmp_path / "plan.json"
    assert main(["model", "smoke-cost", "--solution", str(tmp_path / "model.sol"), "-o", str(plan)]) == 0
    verdict = judge(plan_from_json(read_json(plan)), find_instance("smoke-cost", "test"))
    assert verdict.feasible
    assert verdict.value == pytest.approx(solver.getObjectiveValue())


def test_a_solution_of_another_model_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solution = tmp_path / "model.sol"
    for text, message in (("x 1\ny 0", "names no variable"), ("v(0_0_0) 1", 'lacks a value of "b(0)"')):
        solution.write_text(text)
        assert main(["model", "smoke-cost", "--solution", str(solution), "-o", str(tmp_path / "plan.json")]) == 2
        assert message in capsys.readouterr().err
    assert not (tmp_path / "plan.json").exists()


def test_a_solution_of_a_smaller_instance_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solution = tmp_path / "model.sol"
    solution.write_text("v(0_0_0) 1\nb(0) 1\nb(1) 1\n")
    assert main(["model", "smoke-cost", "--solution", str(solution), "-o", str(tmp_path / "plan.json")]) == 2
    assert 'lacks a value of "b(2)"' in capsys.readouterr().err


def test_a_solution_of_a_larger_instance_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solution = tmp_path / "model.sol"
    solution.write_text("".join(f"v({o}_0_0) 1\nb({o}) 1\n" for o in range(9)))
    assert main(["model", "smoke-cost", "--solution", str(solution), "-o", str(tmp_path / "plan.json")]) == 2
    assert "it is a solution of another instance" in capsys.readouterr().err
    assert not (tmp_path / "plan.json").exists()


def test_repaired_gpus_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """All workloads of smoke-cost on one GPU with the largest batches do not fit."""
    solution = tmp_path / "model.sol"
    solution.write_text("".join(f"v({o}_0_0) 1\nb({o}) 32\nr({o}) 20\n" for o in range(5)))
    assert main(["model", "smoke-cost", "--solution", str(solution), "-o", str(tmp_path / "plan.json")]) == 0
    assert "feasible" in (told := capsys.readouterr().err)
    assert told.rstrip().endswith("; 1 GPU repaired")


def test_an_instance_without_a_model_leaves_an_existing_file_unchanged(tmp_path: Path) -> None:
    file = tmp_path / "model.mps"
    file.write_text("mine")
    under_attainment = replace(generate("igniter-mix", 2, 0), slo_rule=SloRule.ATTAINMENT)
    write_json(tmp_path / "instance.json", instance_to_json(under_attainment))
    assert main(["model", str(tmp_path / "instance.json"), "-o", str(file)]) == 2
    assert file.read_text() == "mine"
