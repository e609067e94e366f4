"""The loop of ``bench gpu``, which profiles, plans and replays on one GPU, with fake commands."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import Call

from bench.cli.app import app, main
from bench.replay.light_profile.points import Grid, Point
from bench.replay.light_profile.run import ProfileRequest, profile
from bench.replay.loop import (
    BUDGET_MIN,
    NETWORKS,
    STEP_LIMIT_MIN,
    TIMED_OUT,
    execute,
    missing_driver,
    missing_mps,
    run_loop,
    steps,
)
from bench.replay.process import ChildError
from instances.catalogue import gpu_type, gpu_type_to_toml
from instances.files import read_instance
from tests.bench.replay.light_profile.fake_rig import ENTRY, KNOWN_GPU, MODELS, FakeRig


@pytest.fixture(autouse=True)
def driver(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Return the set of the driver's programs that the host seems to have; tests remove some."""
    programs = {"nvidia-smi", "nvidia-cuda-mps-control"}
    monkeypatch.setattr("bench.replay.loop.which", lambda tool: f"/usr/bin/{tool}" if tool in programs else None)
    return programs


class Host:
    """Fake of a host: a command only writes files that later steps need; one with ``fails`` in it returns ``code``."""

    def __init__(self, fails: str = "", code: int = 1) -> None:
        self.ran: list[tuple[str, ...]] = []
        self.fails, self.code = fails, code

    def __call__(self, command: Sequence[str], folder: Path, seconds: float) -> int:
        assert 60.0 <= seconds <= 60.0 * STEP_LIMIT_MIN
        self.ran.append(tuple(command))
        if self.fails and self.fails in command:
            return self.code
        if command[:2] == ("profile", "fit"):
            (folder / "catalogue").mkdir(exist_ok=True)
            v100 = gpu_type("v100")
            (folder / "catalogue/measured-here.toml").write_text(gpu_type_to_toml(replace(v100, name="measured-here")))
        if command[0] == "run":
            plans = folder / command[-1]
            plans.mkdir(parents=True)
            (plans / "plan.json").write_text("{}")
        return 0


def test_the_loop_runs_every_step_once(tmp_path: Path) -> None:
    host, lines = Host(), list[str]()
    assert run_loop(tmp_path, lines.append, host)
    assert host.ran == [step.command for step in steps(through_mps=True)]
    instance = read_instance(tmp_path / "capacity.json")
    assert {workload.model for workload in instance.workloads} == set(NETWORKS)
    assert (instance.gpus[0].type.name, instance.gpus[0].count) == ("measured-here", 1)
    assert (tmp_path / "cost.plan.json").exists()
    second_host = Host()
    assert run_loop(tmp_path, lines.append, second_host)
    assert second_host.ran == []
    assert set(json.loads((tmp_path / "done.json").read_text())) == {step.name for step in steps(through_mps=True)}


def test_a_failed_step_is_repeated_and_a_failed_replay_does_not_stop_the_loop(tmp_path: Path) -> None:
    lines = list[str]()
    assert not run_loop(tmp_path, lines.append, Host("fit"))
    assert "failed: fit the catalogue entry: exit code 1; the same command continues here" in lines
    host = Host("green")
    assert run_loop(tmp_path, lines.append, host)
    assert host.ran[0][:2] == ("profile", "fit")
    assert host.ran[-1][0] == "report"


def test_replays_beyond_the_budget_are_left_out(tmp_path: Path) -> None:
    assert sum(step.minutes for step in steps(through_mps=True)) <= BUDGET_MIN
    host, lines = Host(), list[str]()
    assert run_loop(tmp_path, lines.append, host, budget_min=0.5)
    assert not any(command[0] == "replay" for command in host.ran)
    assert any(line.startswith("left out: replay") for line in lines)
    assert "missing: replay the cost plan by mps: left out" in "\n".join(lines)


def test_every_command_of_the_loop_is_accepted_by_the_parser(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import typer

    monkeypatch.chdir(tmp_path)
    for step in steps(through_mps=True):
        command, arguments = typer.main.get_command(app), list(step.command)
        while hasattr(command, "commands"):
            command = command.commands[arguments.pop(0)]
        command.make_context("bench", arguments)


def test_without_mps_the_loop_uses_green_contexts(
    driver: set[str], tmp_path: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    driver.remove("nvidia-cuda-mps-control")
    host, lines = Host(), list[str]()

    assert run_loop(tmp_path, lines.append, host)

    replayed = {command[3] for command in host.ran if command[0] == "replay"}
    assert replayed == {"green", "time-slicing"}
    assert set(steps(through_mps=False)) < set(steps(through_mps=True))
    monkeypatch.setattr("bench.cli.commands.gpu.run_loop", lambda *_, **__: True)
    done = call("gpu")
    assert done.code == 0
    assert "replays the plans by green contexts and time slices" in done.err
    assert "without MPS: green contexts divide the GPU; missing: the MPS daemon" in done.err


def test_without_a_gpu_the_command_prints_the_steps(call: Call, driver: set[str]) -> None:
    assert (missing_driver(), missing_mps()) == (None, None)
    driver.clear()
    done = call("gpu")
    assert done.code == 0
    assert done.err.startswith("no GPU to use here; on a host with one, this profiles 4 networks alone and in pairs")
    assert "missing: the MPS daemon" in done.err
    assert all(f"bench {' '.join(step.command)}" in done.out for step in steps(through_mps=True))


def test_no_step_takes_more_than_nine_minutes() -> None:
    assert STEP_LIMIT_MIN <= 9.0
    assert all(step.minutes <= STEP_LIMIT_MIN for step in steps(through_mps=True))


def test_a_command_at_its_time_limit_is_interrupted_so_that_it_keeps_its_results(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\ntrap 'echo kept > results; exit 130' INT\nwhile :; do sleep 0.05; done\n")
    python.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(python))
    assert execute(("profile", "run"), tmp_path, 1.0) == TIMED_OUT
    assert (tmp_path / "results").read_text() == "kept\n"


FAST_GPU = replace(KNOWN_GPU, hardware=replace(KNOWN_GPU.hardware, pcie_bytes_per_ms=1e9))


class RefusingRig(FakeRig):
    """GPU without counters whose driver refuses a second process."""

    def measure(self, point: Point, seconds: float) -> Any:
        if len(point) > 1:
            raise ChildError("CUDA error: all CUDA-capable devices are busy or unavailable")
        return super().measure(point, seconds)


class RefusingHost(Host):
    """Host with a fake GPU that profiles and fits; the first command of the profile ends after five points."""

    def __call__(self, command: Sequence[str], folder: Path, seconds: float) -> int:
        if command[:2] == ("profile", "run"):
            self.ran.append(tuple(command))
            first = sum(ran[:2] == ("profile", "run") for ran in self.ran) == 1
            rig = RefusingRig(FAST_GPU, counts=False, stop_after=5 if first else None)
            (folder / "measured").mkdir(exist_ok=True)
            request = ProfileRequest(folder / "measured", MODELS, Grid.quick(), 1.0, ENTRY)
            return TIMED_OUT if profile(rig, request, lambda line: None) == 130 else 1
        if command[:2] == ("profile", "fit"):
            return main([*command[:2], str(folder / command[2]), "-o", str(folder / command[4])])
        return super().__call__(command, folder, seconds)


def test_on_a_host_that_refuses_much_the_loop_ends_with_a_report_that_says_what_is_missing(
    driver: set[str], tmp_path: Path
) -> None:
    """Without MPS and counters, with one process at a time and a limit on every command."""
    driver.remove("nvidia-cuda-mps-control")
    host, lines = RefusingHost("time-slicing", code=2), list[str]()

    assert run_loop(tmp_path, lines.append, host)

    assert host.ran[-1][0] == "report"
    assert {workload.model for workload in read_instance(tmp_path / "capacity.json").workloads} == set(MODELS)
    missing = (tmp_path / "missing.txt").read_text().splitlines()
    assert [line.partition(": ")[0] for line in missing] == [
        "replays by MPS",
        "profile two networks alone and together",
        "profile all four networks",
        "replay the cost plan by time-slicing",
        "replay the capacity plan by time-slicing",
        "counters of memory traffic (Nsight Compute)",
        "the light profile",
    ]
    assert missing[1].endswith("no end within 9 min")
    assert [f"missing: {line}" for line in missing] == [line for line in lines if line.startswith("missing: ")]

    # The same command tries again what failed, and makes the entry and the report anew.
    again = Host()
    assert run_loop(tmp_path, lines.append, again)
    assert [" ".join(command[:2]) for command in again.ran] == [
        "profile run",
        "profile run",
        "profile fit",
        "replay cost.plan.json",
        "replay capacity.plan.json",
        "report ledger.sqlite",
    ]
