"""A whole replay on the CPU, without ``pynvml``."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from bench.plan_simulation import Settings, simulate
from instances.files import read_plan
from tests.bench.replay.serving_plans import RATE_RPS, REPLAY, gpulet_data, plan_data, write_plan


def without_pynvml(folder: Path) -> dict[str, str]:
    """Return an environment in which ``pynvml`` cannot be imported."""
    (folder / "pynvml.py").write_text("raise ModuleNotFoundError('blocked', name='pynvml')\n")
    return {**os.environ, "PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}


@pytest.fixture(scope="module")
def plan(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a plan of three workloads: w1 on two gpulets, w2 and w3 in turns on a third."""
    gpulets = [
        gpulet_data(("w1", 4, 40.0)),
        gpulet_data(("w1", 2, 20.0), share_units=6),
        gpulet_data(("w2", 4, 40.0), ("w3", 2, 20.0), duty_cycle_ms=90.0, share_units=20),
    ]
    return write_plan(tmp_path_factory.mktemp("plan"), plan_data(gpulets=gpulets))


@pytest.fixture(scope="module")
def measured(plan: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    options = ["--backend", "cpu", "--seconds", "2", "--warmup", "0.5", "--seed", "1", "--no-drop", "--format", "json"]
    done = subprocess.run(
        [*REPLAY, str(plan), *options],
        env=without_pynvml(tmp_path_factory.mktemp("site")),
        cwd="/",
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "serving 2.5 s" in done.stderr
    values: dict[str, Any] = json.loads(done.stdout)
    return values


def test_the_requests_are_those_of_a_simulation(measured: dict[str, Any], plan: Path) -> None:
    plan_, instance = read_plan(plan)
    assert instance is not None
    expected = simulate(plan_, instance, Settings(seconds=2.0, warmup_s=0.5, seed=1))

    assert [workload["requests"] for workload in measured["workloads"]] == [
        workload.requests for workload in expected.workloads
    ]
    for workload in measured["workloads"]:
        assert workload["requests"] == workload["late"] + workload["dropped"] + workload["unfinished"] + round(
            2.0 * workload["goodput_rps"]
        )
        assert workload["offered_rps"] == RATE_RPS[workload["id"]]


def test_the_schema_is_that_of_a_simulation(measured: dict[str, Any], plan: Path) -> None:
    plan_, instance = read_plan(plan)
    assert instance is not None
    expected = simulate(plan_, instance, Settings(seconds=2.0)).to_json()

    assert expected.keys() <= measured.keys()
    assert expected["workloads"][0].keys() <= measured["workloads"][0].keys()
    assert measured["source"] == "replay"
    assert measured["wall_s"] > 2.5


def test_the_parts_of_a_latency_add_up(measured: dict[str, Any]) -> None:
    for workload in measured["workloads"]:
        parts = [workload["split"][f"{part}_ms"] for part in ("queue", "upload", "compute", "feedback")]
        assert sum(part["mean"] for part in parts) == pytest.approx(workload["mean_ms"])
        assert all(0.0 <= part["p50"] <= part["p90"] <= part["p99"] <= part["max"] for part in parts)
        assert workload["predicted"]["p99_ms"] > 0.0


def test_slots_have_the_batches_and_shares_of_the_plan(measured: dict[str, Any]) -> None:
    slots = measured["slots"]

    assert [(slot["workload"], slot["batch"], slot["share_pct"]) for slot in slots] == [
        ("w1", 4, 30.0),
        ("w1", 2, 15.0),
        ("w2", 4, 50.0),
        ("w3", 2, 50.0),
    ]
    assert [slot["timeout_ms"] for slot in slots] == [200.0, 200.0, 510.0, 710.0]
    assert slots[0]["requests"] == pytest.approx(2 * slots[1]["requests"], abs=3)
    for slot in slots:
        assert slot["requests"] <= slot["batches"] * slot["batch"]
        assert slot["warm_up_ms"] > 0.0


def test_a_replay_is_valid_if_the_generator_is_at_most_1_ms_late(measured: dict[str, Any]) -> None:
    late = measured["generator"]

    assert 0.0 <= late["p50"] <= late["p99"] <= late["max"]
    assert measured["valid"] == (late["p99"] <= 1.0)
    assert (measured["invalid_reason"] is None) == measured["valid"]


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--backend", "cp"), 'error: --backend: unknown backend "cp"; did you mean "cpu"?'),
        (("--backend", "mps"), 'error: needs pynvml: pip install "gpushare-bench[replay]"'),
        (("--backend", "cpu", "--seconds", "0"), "error: --seconds: 0; expected a time above 0, at most"),
        (("--backend", "cpu", "--arrivals", "poison"), 'error: --arrivals: unknown arrival process "poison"'),
    ],
)
def test_bad_usage_is_one_line(options: tuple[str, ...], problem: str, plan: Path, tmp_path: Path) -> None:
    command = [*REPLAY, str(plan), *options]
    environment = without_pynvml(tmp_path)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)

    assert done.returncode == 2
    assert done.stderr.startswith(problem)
    assert done.stderr.count("\n") == 1
