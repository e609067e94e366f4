"""Processes of a scheduler that try to survive its run."""

import subprocess
from pathlib import Path

import pytest
from conftest import TaskFactory
from hostile.collection import is_expected
from processes import sessions, survivors, until, with_variable

from bench.ledger.row import Termination
from bench.runner.runner import run_tasks
from bench.runner.worker_limits import RUN_VARIABLE, mark
from bench.task import Task


@pytest.fixture
def make_survivor(make_task: TaskFactory, tmp_path: Path) -> TaskFactory:
    """Make a task with the scheduler Survivor; each of its processes makes a file in a folder of the task."""

    def make(how: str, seed: int, time_limit_s: float = 20.0, **parameters: object) -> Task:
        survivor_parameters = {"pids": tmp_path / str(seed), **parameters}
        return make_task(
            f"Survivor:{how}",
            seed=seed,
            parameters=survivor_parameters,
            time_limit_s=time_limit_s,
            memory_limit_mb=4096.0,
        )

    return make


def started(folder: Path) -> list[int]:
    """Return the ids of the processes that made files."""
    return [int(file.name) for file in folder.glob("*/*")]


@pytest.mark.parametrize("how", ["daemon", "children", "orphans", "bare", "secret", "moving"])
def test_no_process_survives_its_run(make_survivor: TaskFactory, tmp_path: Path, how: str) -> None:
    rows = run_tasks([make_survivor(how, seed) for seed in range(2)], None, 2)
    for row in rows:
        assert is_expected(f"Survivor:{how}", row.termination, row.reason), row.reason
    assert len(started(tmp_path)) >= 6
    assert survivors(started(tmp_path)) == []
    assert sessions(started(tmp_path)) == []  # nor any process that they started at the end
    marks = [f"{RUN_VARIABLE}={mark(int(row.statistics['worker']))}" for row in rows if row.statistics]
    assert until(lambda: not any(with_variable(variable) for variable in marks), 10)


def test_no_process_survives_the_time_limit(make_survivor: TaskFactory, tmp_path: Path) -> None:
    (row,) = run_tasks([make_survivor("children", 0, time_limit_s=2.0, stay=True)], None, grace_s=0.3)
    assert row.termination is Termination.WALL_LIMIT
    assert len(started(tmp_path)) == 3
    assert survivors(started(tmp_path)) == []


def test_other_runs_and_processes_are_not_killed(
    make_task: TaskFactory, make_survivor: TaskFactory, tmp_path: Path
) -> None:
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        idle = make_task("UsesHalfTheTime", time_limit_s=4.0)
        rows = run_tasks([idle, *(make_survivor("bare", seed) for seed in range(3))], None, 2)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert {row.termination for row in rows} == {Termination.FINISHED}
    assert survivors(started(tmp_path)) == []


@pytest.mark.soak
@pytest.mark.parametrize("how", ["orphans", "bare", "secret", "daemon"])
def test_none_of_200_processes_survives(make_survivor: TaskFactory, tmp_path: Path, how: str) -> None:
    run_tasks([make_survivor(how, seed, count=20) for seed in range(10)], None, 2)
    assert len(started(tmp_path)) == 200
    assert survivors(started(tmp_path)) == []
