"""Processes of a scheduler that try to survive its run."""

import subprocess
from pathlib import Path

import pytest
from conftest import TaskFactory
from processes import survivors, until, with_variable

from bench.ledger.row import Termination
from bench.runner.runner import run_tasks
from bench.runner.worker_limits import RUN_VARIABLE

HOW = {
    "daemon": Termination.CRASHED,
    "adopted": Termination.FINISHED,
    "bare": Termination.FINISHED,
    "secret": Termination.FINISHED,
    "forkserver": Termination.CRASHED,
}


def pids(folder: Path) -> list[int]:
    return [int(file.name) for file in folder.iterdir()]


@pytest.mark.parametrize("how", HOW)
def test_nothing_survives_its_run(make_task: TaskFactory, tmp_path: Path, how: str) -> None:
    (row,) = run_tasks([make_task("Escaper", parameters={"how": how, "count": 3, "pids": tmp_path})], None)
    assert row.termination is HOW[how], row.reason
    assert len(pids(tmp_path)) >= 3
    assert survivors(pids(tmp_path)) == []


def test_process_that_moves_on_by_forking_is_caught(make_task: TaskFactory, tmp_path: Path) -> None:
    (row,) = run_tasks([make_task("Escaper", parameters={"how": "moving", "pids": tmp_path})], None)
    assert row.termination is Termination.FINISHED
    assert until(lambda: with_variable(f"{RUN_VARIABLE}={row.reason}") == [], 10)


def test_other_runs_and_processes_are_spared(make_task: TaskFactory, tmp_path: Path) -> None:
    bystander = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    try:
        rows = run_tasks(
            [
                make_task("UsesHalfTheTime", time_limit_s=4.0),
                *(
                    make_task("Escaper", seed=seed, parameters={"how": "bare", "count": 3, "pids": tmp_path})
                    for seed in range(3)
                ),
            ],
            None,
            2,
        )
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
    assert {row.termination for row in rows} == {Termination.FINISHED}
    assert survivors(pids(tmp_path)) == []


@pytest.mark.soak
@pytest.mark.parametrize("how", ["adopted", "bare", "secret", "daemon"])
def test_none_of_two_hundred_survives(make_task: TaskFactory, tmp_path: Path, how: str) -> None:
    folders = [tmp_path / str(seed) for seed in range(10)]
    for folder in folders:
        folder.mkdir()
    run_tasks(
        [
            make_task("Escaper", seed=seed, parameters={"how": how, "count": 20, "pids": folder})
            for seed, folder in enumerate(folders)
        ],
        None,
        2,
    )
    started = [pid for folder in folders for pid in pids(folder)]
    assert len(started) == 200
    assert survivors(started) == []
