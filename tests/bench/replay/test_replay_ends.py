"""Tests of the end of a replay: dying workers, SIGTERM, and a switch to the next plan."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import bench.replay.serving as serving
from bench.replay.backends import Cpu, Crew
from bench.replay.plan_file import read_embedded_plan
from bench.replay.process import Child
from bench.replay.recording import ReplayFailedError, ReplayOptions
from bench.replay.requests import SERVED
from bench.replay.result import to_json
from bench.replay.serving import replay
from bench.replay.serving_plan import Sheet
from bench.simulation.settings import Settings
from instances import InputError
from tests.bench.processes import survivors, until
from tests.bench.replay.serving_plans import gpulet_data, plan_data, write_plan

HERE = Path(__file__).parent

Make = Callable[..., Sheet]


@pytest.fixture(autouse=True)
def quick_device(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have every worker serve without PyTorch."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(HERE / "quick_device.py", folder / "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.fixture
def sheet(tmp_path: Path) -> Make:
    return lambda *arguments, **fields: Sheet.of(
        *read_embedded_plan(write_plan(tmp_path, plan_data(*arguments, **fields)))
    )


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Child]]:
    """Record the processes of a replay, the generator first; none of them is left at the end."""
    started: list[Child] = []

    def recorded(*arguments: Any, **named: Any) -> Child:
        started.append(Child(*arguments, **named))
        return started[-1]

    monkeypatch.setattr(serving, "Child", recorded)
    descriptors = _descriptors()
    yield started
    assert not survivors(child.process.pid for child in started)
    gc.collect()  # an exception that was caught holds what its frames held
    assert _descriptors() == descriptors


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_worker_that_is_killed_is_reported_and_the_others_finish(sheet: Make, children: list[Child]) -> None:
    def hear(text: str) -> None:
        if text.startswith("serving"):
            threading.Timer(0.8, os.kill, (children[1].process.pid, signal.SIGKILL)).start()

    course = replay([sheet(("w1", "w2"))], Cpu(), Settings(seconds=1.5, warmup_s=0.2), say=hear)
    values = to_json(course)

    (failure,) = values["failures"]
    assert failure["workloads"] == ["w1"]
    assert failure["reason"] == "its worker died of SIGKILL"
    dead, alive = values["workloads"]
    assert dead["unfinished"] > 0
    assert alive["unfinished"] == 0
    assert alive["requests"] > 0


def test_executors_that_are_threads_of_one_process_all_serve(
    sheet: Make, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cpu, "crews", lambda _, served: [Crew(tuple(range(len(served.executors))))])

    course = replay([sheet()], Cpu(), Settings(seconds=1.0, warmup_s=0.2, dropping=False))

    assert len(children) == 2  # with the load generator
    assert not course.failures
    assert set(course.requests["outcome"]) == {SERVED}
    assert set(course.requests["slot"]) == {0, 1, 2}


def test_workers_that_cannot_start_fail_the_replay_in_one_line(
    sheet: Make, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cpu, "device", "abacus")

    with pytest.raises(ReplayFailedError) as failed:
        replay([sheet(("w1",))], Cpu(), Settings(seconds=1.0))
    assert str(failed.value) == "GPU 0, gpulet 0 (w1): ValueError: no abacus here"


def test_a_worker_that_dies_while_others_load_fails_the_replay_in_one_line(
    sheet: Make, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = serving.Child

    def first_worker_dies(*arguments: Any, **named: Any) -> Child:
        child = record(*arguments, **named)
        if len(children) == 3:
            children[1].process.kill()
        return child

    monkeypatch.setattr(serving, "Child", first_worker_dies)

    with pytest.raises(ReplayFailedError) as failed:
        replay([sheet(("w1", "w2"))], Cpu(), Settings(seconds=1.0))
    assert str(failed.value) == "GPU 0, gpulet 0 (w1): its worker died of SIGKILL"


def test_a_second_plan_takes_over_while_requests_come(sheet: Make, children: list[Child]) -> None:
    before = sheet(("w1",))
    after = sheet(("w1",), [gpulet_data(("w1", 2, 60.0), share_units=20)])
    for seconds in (4.0, 16.0, 64.0):  # a busy host takes its time to start the second plan
        settings = Settings(seconds=seconds, warmup_s=0.2, dropping=False)
        course = replay([before, after], Cpu(), settings, ReplayOptions(switch_at_s=0.2))
        if (course.requests["slot"] == 1).any():
            break
    values = to_json(course)

    switch = values["switch"]
    assert 0.2 <= switch["began_s"] < switch["switched_s"] < switch["drained_s"]
    (felt,) = switch["workloads"]
    assert felt["id"] == "w1"
    assert felt["without_service_ms"] >= 0.0
    assert felt["p99_ms"] > 0.0
    switched_ms = course.switched_ms
    assert switched_ms is not None
    old, new = (course.requests[course.requests["slot"] == slot] for slot in (0, 1))
    assert len(old) > 0
    assert len(new) > 0
    assert old["due_ms"].max() < new["due_ms"].min()
    assert new["sent_ms"].min() >= switched_ms
    assert set(new["size"]) <= {1, 2}
    assert values["workloads"][0]["unfinished"] == 0
    assert not values["failures"]


def test_a_second_plan_that_cannot_start_leaves_the_first_serving(
    sheet: Make, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def hear(text: str) -> None:
        starts.extend([text] if text.startswith("starting") else [])
        monkeypatch.setattr(Cpu, "device", "abacus" if len(starts) == 2 else "cpu")

    one = sheet(("w1",))
    course = replay([one, one], Cpu(), Settings(seconds=2.0, warmup_s=0.2), ReplayOptions(switch_at_s=0.1), say=hear)
    values = to_json(course)

    assert [(f["plan"], f["reason"]) for f in values["failures"]] == [(1, "ValueError: no abacus here")]
    assert values["switch"]["began_s"] >= 0.1
    assert (values["switch"]["switched_s"], values["switch"]["workloads"]) == (None, [])
    assert set(course.requests["slot"]) == {0}
    assert values["workloads"][0]["unfinished"] == 0


def test_a_replay_without_its_load_generator_fails(sheet: Make, children: list[Child]) -> None:
    def hear(text: str) -> None:
        if text.startswith("serving"):
            children[0].process.kill()

    with pytest.raises(ReplayFailedError, match="the load generator died of SIGKILL"):
        replay([sheet(("w1",))], Cpu(), Settings(seconds=30.0), say=hear)


def test_a_switch_needs_the_same_workloads_and_a_time(sheet: Make) -> None:
    one, other = sheet(("w1",)), sheet(("w2",))

    with pytest.raises(InputError, match="--then: its instance has other workloads"):
        replay([one, other], Cpu(), Settings(seconds=1.0), ReplayOptions(switch_at_s=0.5))
    for at_s in (None, 1.0, -1.0):
        with pytest.raises(InputError, match="--switch-at: expected a time from 0 to 1 s"):
            replay([one, one], Cpu(), Settings(seconds=1.0), ReplayOptions(switch_at_s=at_s))


def test_a_plan_that_does_not_fit_the_memory_is_refused(sheet: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.replay.backends.free_memory_mib", lambda: 1000.0)

    with pytest.raises(InputError, match="the host has 1,000 MiB of free memory; the plan needs 1,200 MiB"):
        replay([sheet()], Cpu(), Settings(seconds=1.0))


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [
        ("starting", signal.SIGTERM, 128 + signal.SIGTERM),
        ("starting", signal.SIGINT, 130),
        ("serving", signal.SIGTERM, 128 + signal.SIGTERM),
        ("serving", signal.SIGKILL, -signal.SIGKILL),
    ],
)
def test_nothing_is_left_whatever_ends_it(moment: str, number: signal.Signals, code: int, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    file = write_plan(tmp_path, plan_data(("w1",)))
    process = subprocess.Popen(
        [sys.executable, "-m", "bench.replay", str(file), "--backend", "cpu", "--seconds", "60"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    with process.stderr:
        while moment not in process.stderr.readline():
            assert process.poll() is None
        family = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert until(lambda: len(family.read_text().split()) == 2)
        started = map(int, family.read_text().split())

        process.send_signal(number)

        assert process.wait(30) == code
    assert not survivors(started)
    assert list(temporary.iterdir()) == []
