"""Model files: another solver reads them and finds the optimum."""

from pathlib import Path

import highspy
import pytest

from bench.api import Run
from bench.cli.app import main
from formulations.pwl import Pwl
from instances.files import instance_to_json, write_json
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
    assert (tmp_path / "model.nl").read_text().startswith("g3")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["smoke-cost", "-o", "/proc/none/model.txt"], "expected .lp, .mps, .nl"),
        (["smoke-capacity", "-o", "/proc/none/model.mps"], "pwl does not solve capacity"),
        (["smoke-cost", "-o", "/proc/none/model.mps"], "cannot be written"),
    ],
)
def test_wrong_input_is_told(
    arguments: list[str],
    problem: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["model", *arguments]) == 2
    assert problem in capsys.readouterr().err
