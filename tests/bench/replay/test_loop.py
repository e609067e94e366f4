"""The loop of ``bench gpu``, which profiles, plans and replays on one GPU, with fake commands."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Call

from bench.cli.app import app
from bench.replay.loop import BUDGET_MIN, NETWORKS, missing_driver, missing_mps, run_loop, steps
from instances.catalogue import gpu_type, gpu_type_to_toml
from instances.files import read_instance


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
        assert seconds >= 60.0
        self.ran.append(tuple(command))
        if self.fails and self.fails in command:
            return self.code
        if command[:2] == ("profile", "fit"):
            (folder / "catalogue").mkdir()
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
