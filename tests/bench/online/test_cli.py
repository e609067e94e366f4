"""``bench online``: its JSON, tables, series and errors."""

import csv
import json
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from conftest import Call

import bench.online.planner as planner_module
from bench.cli.app import app
from bench.cli.commands.online import EXAMPLES
from bench.online.control import Online
from bench.online.planner import SchedulerError
from bench.online.result import Period
from tests.frozen import FROZEN

RUN = ("online", "--instances", "gpulet-scen3", "--rates", "2", "--scheduler", "gpu-scaling")


def test_json_holds_the_totals_and_the_series(call: Call) -> None:
    done = call(*RUN, "--seconds", "100", "--period", "30", "--format", "json")

    assert (done.code, done.err) == (0, "")
    run = json.loads(done.out)
    assert (run["instance"], run["policy"], run["seconds"]) == ("gpulet-scen3*2", "reschedule", 100.0)
    assert [period["end_s"] for period in run["periods"]] == [30.0, 60.0, 90.0, 100.0]
    assert run["requests"] == sum(period["requests"] for period in run["periods"])
    assert run["requests"] == pytest.approx(100 * 3 * 200, rel=0.05)
    assert run["unfinished"] == 0
    assert [workload["id"] for workload in run["workloads"]] == ["mobilenet", "resnet50", "vgg16"]


def test_periods_planned_without_headroom_are_counted(call: Call) -> None:
    run = (
        "online",
        "--instances",
        str(FROZEN / "gpulet-scen3.json"),
        "--scheduler",
        "gpu-scaling",
        "--seconds",
        "60",
        "--headroom",
        "1.5",
    )
    run_with_headroom = json.loads(call(*run, "--rates", "2.9", "--format", "json").out)
    assert (
        run_with_headroom["periods_without_headroom"]
        == sum(period["without_headroom"] for period in run_with_headroom["periods"])
        == 0
    )

    without_headroom = json.loads(call(*run, "--rates", "5.3", "--policy", "static", "--format", "json").out)
    assert [period["without_headroom"] for period in without_headroom["periods"]] == [True, True, True]
    assert "3 periods used a plan without headroom" in call(*run, "--rates", "5.3", "--policy", "static").out


def test_a_workload_without_requests_is_named_and_has_no_tick(call: Call, tmp_path: Path) -> None:
    (tmp_path / "late.csv").write_text("1\n" * 2 + "0\n" * 20 + "1\n" * 20)
    done = call(*RUN, "--trace", "late.csv", "--seconds", "0.001", "--period", "1")
    assert "no requests arrived for mobilenet" in done.out
    assert "✓" not in done.out


def test_the_series_is_written_as_csv(call: Call, tmp_path: Path) -> None:
    done = call(*RUN, "--seconds", "60", "--policy", "static", "-o", "new/series.csv", "--format", "json")

    with (tmp_path / "new/series.csv").open() as file:
        rows = list(csv.DictReader(file))
    periods = json.loads(done.out)["periods"]
    assert [float(row["begin_s"]) for row in rows] == [0.0, 20.0, 40.0]
    for row, period in zip(rows, periods, strict=True):
        assert int(row["requests"]) == period["requests"]
        assert float(row["throughput_rps vgg16"]) == period["workloads"]["vgg16"]["throughput_rps"]


def test_the_table_merges_periods(call: Call) -> None:
    done = call(*RUN, "--seconds", "100", "--period", "1", "--policy", "static")

    lines = done.out.splitlines()
    assert lines[0] == "gpulet-scen3*2, gpu-scaling, static, seed 0: 100 s in 100 periods"
    assert [line.split()[0] for line in lines if " s " in line and line.strip()[0].isdigit()][:3] == ["0", "5", "10"]
    assert "GPUs held on average" in done.out


def test_a_trace_for_one_workload(call: Call, tmp_path: Path) -> None:
    (tmp_path / "flat.csv").write_text("1\n" * 40)
    (tmp_path / "late.csv").write_text("0\n" * 20 + "1\n" * 20)

    done = call(*RUN, "--trace", "flat.csv", "--trace", "vgg16=late.csv", "--format", "json")

    first, second = (period["workloads"] for period in json.loads(done.out)["periods"])
    assert first["vgg16"]["requests"] == 0
    assert second["vgg16"]["requests"] == pytest.approx(2 * first["resnet50"]["requests"], rel=0.1)


@pytest.mark.parametrize("policy", ["static", "reschedule", "shadow", "reactive"])
def test_every_policy_runs(call: Call, policy: str) -> None:
    done = call(*RUN, "--seconds", "45", "--policy", policy, "--error", "0.1", "--format", "json")

    assert done.code == 0
    run = json.loads(done.out)
    assert len(run["periods"]) == (45 if policy == "shadow" else 3)
    assert sum(run["answers"].values()) == len(run["periods"])


@pytest.mark.parametrize("scheduler", ["igniter", "mig"])
def test_online_runs_work_under_other_models_and_on_mig(call: Call, scheduler: str) -> None:
    instance = {"igniter": "igniter-12", "mig": "parvagpu-1"}[scheduler]

    done = call("online", "--instances", instance, "--scheduler", scheduler, "--seconds", "45", "--format", "json")

    assert done.code == 0
    assert json.loads(done.out)["unfinished"] == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--trace", "bad.csv"], "error: bad.csv: line 2"),
        (["--trace", "huge.csv"], "error: huge.csv: line 1: 1e308 req/s; expected a number from 0 to 1,000,000,000"),
        (["--trace", "none.csv"], "error: none.csv: cannot be read: No such file or directory"),
        (["--trace", "vgg61=bad.csv"], 'error: --trace vgg61=bad.csv: unknown workload "vgg61"; did you mean "vgg16"?'),
        (["--scheduler", "ignite"], 'error: --scheduler: unknown scheduler "ignite"; did you mean "igniter"?'),
        (["--scheduler", "mig"], "error: --scheduler: mig does not plan GPUs divided by shares"),
        (["--param", "igniter.depth=2", "--scheduler", "igniter"], "error: --param igniter.depth: unknown parameter"),
        (["--policy", "shade"], 'error: --policy: unknown policy "shade"; did you mean "shadow"?'),
        (["--period", "0"], "error: --period: 0; expected a finite time of at least 0.001 s"),
        (["--period", "1e-310"], "error: --period: 1e-310; expected"),
        (["--time-limit", "nan"], "error: --time-limit: nan; expected"),
        (["--period", "-20"], "error: --period: -20; expected"),
        (["--reorganisation", "-1"], "error: --reorganisation: -1; expected"),
        (["--seconds", "inf"], "error: --seconds: inf; expected"),
        (["--weight", "0"], "error: --weight: 0; expected a fraction above 0"),
        (["--headroom", "0"], "error: --headroom: 0; expected"),
        (["--rates", "nan"], "error: --rates: nan; expected"),
        (["--rates", "20"], "error: --scheduler: gpu-scaling finds no plan for the rates of gpulet-scen3*20"),
        (["--instances", "mediator-40"], "error: --instances"),
        (["--instances", "gpulet-1023"], "error: --instances"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(
    call: Call, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "bad.csv").write_text("1\nmany\n")
    (tmp_path / "huge.csv").write_text("1e308\n1e308\n")

    done = call(*RUN, *arguments)

    assert (done.code, done.out) == (2, "")
    assert done.err.startswith(message)
    assert done.err.count("\n") == 1


def test_a_scheduler_that_raises_is_one_line_and_exit_code_1(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise SchedulerError("gpu-scaling: RuntimeError: out of ideas")

    monkeypatch.setattr(planner_module.Planner, "plan", fail)

    done = call(*RUN)

    assert (done.code, done.out, done.err) == (1, "", "failed: gpu-scaling: RuntimeError: out of ideas\n")


def test_after_ctrl_c_the_finished_periods_are_printed(call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    original_run = Online.run

    def interrupted(self: Online) -> Iterator[Period]:
        for number, period in enumerate(original_run(self)):
            yield period
            if number == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(Online, "run", interrupted)

    done = call(*RUN, "--seconds", "200", "--format", "json")

    assert done.code == 130
    assert done.err == "interrupted after 3 periods\n"
    run = json.loads(done.out)
    assert (run["seconds"], len(run["periods"])) == (60.0, 3)


@pytest.mark.parametrize("example", EXAMPLES)
def test_examples_are_accepted_by_the_parser(example: str) -> None:
    bench, command, *arguments = shlex.split(example)
    assert (bench, command) == ("bench", "online")
    application: Any = typer.main.get_command(app)
    application.commands[command].make_context("bench", arguments)
