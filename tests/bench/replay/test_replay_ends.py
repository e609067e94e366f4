"""The end of replays: dying workers, signals, and a switch to a second plan."""

import gc
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from bench.replay import process as processes
from bench.replay.backends import Cpu, WorkerSpec
from bench.replay.process import Child
from bench.replay.recording import SERVED
from bench.replay.result import to_json
from bench.replay.serving import ReplayFailedError, ReplayOptions, replay
from bench.replay.serving_plan import ServingPlan
from bench.replay.settings import ReplaySettings
from instances import InputError
from tests.bench.processes import survivors, until
from tests.bench.replay.serving_plans import REPLAY, gpulet_data, plan_data, serving_plan_of, write_plan

HERE = Path(__file__).parent

Make = Callable[..., ServingPlan]


@pytest.fixture(autouse=True)
def quick_device(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every worker serve with a fake device without PyTorch."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(HERE / "quick_device.py", folder / "sitecustomize.py")
    monkeypatch.setenv("PYTHONPATH", str(folder))


@pytest.fixture
def serving_plan(tmp_path: Path) -> Make:
    return lambda *arguments, **fields: serving_plan_of(tmp_path, plan_data(*arguments, **fields))


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Child]]:
    """Record the child processes of a replay, the generator first; check that no process or descriptor is left."""
    started: list[Child] = []

    def recorded(*arguments: Any, **named: Any) -> Child:
        started.append(Child(*arguments, **named))
        return started[-1]

    monkeypatch.setattr(processes, "Child", recorded)
    descriptors = _descriptors()
    yield started
    assert not survivors(child.process.pid for child in started)
    gc.collect()  # a caught exception keeps the objects of its frames alive
    assert _descriptors() <= descriptors  # fewer if other objects were collected meanwhile


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_worker_that_is_killed_is_reported_and_the_others_finish(serving_plan: Make, children: list[Child]) -> None:
    def hear(text: str) -> None:
        if text.startswith("serving"):
            threading.Timer(0.8, os.kill, (children[1].process.pid, signal.SIGKILL)).start()

    recording = replay([serving_plan(("w1", "w2"))], Cpu(), ReplaySettings(seconds=1.5, warmup_s=0.2), say=hear)
    values = to_json(recording)

    (failure,) = values["failures"]
    assert failure["workloads"] == ["w1"]
    assert failure["reason"] == "its worker died of SIGKILL"
    dead, alive = values["workloads"]
    assert dead["unfinished"] > 0
    assert alive["unfinished"] == 0
    assert alive["requests"] > 0


def test_executors_that_are_threads_of_one_process_all_serve(
    serving_plan: Make, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cpu, "worker_specs", lambda _, served: [WorkerSpec(tuple(range(len(served.executors))))])

    recording = replay([serving_plan()], Cpu(), ReplaySettings(seconds=1.0, warmup_s=0.2, dropping=False))

    assert len(children) == 2  # the load generator and one worker
    assert not recording.failures
    assert set(recording.requests["outcome"]) == {SERVED}
    assert set(recording.requests["slot"]) == {0, 1, 2}


def test_workers_that_cannot_start_fail_the_replay_in_one_line(
    serving_plan: Make, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Cpu, "device", "abacus")

    with pytest.raises(ReplayFailedError) as failed:
        replay([serving_plan(("w1",))], Cpu(), ReplaySettings(seconds=1.0))
    assert str(failed.value) == "GPU 0, gpulet 0 (w1): ValueError: no abacus here"


def test_a_worker_that_dies_while_others_load_fails_the_replay_in_one_line(
    serving_plan: Make, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    record = processes.Child

    def first_worker_dies(*arguments: Any, **named: Any) -> Child:
        child = record(*arguments, **named)
        if len(children) == 3:
            children[1].process.kill()
        return child

    monkeypatch.setattr(processes, "Child", first_worker_dies)

    with pytest.raises(ReplayFailedError) as failed:
        replay([serving_plan(("w1", "w2"))], Cpu(), ReplaySettings(seconds=1.0))
    assert str(failed.value) == "GPU 0, gpulet 0 (w1): its worker died of SIGKILL"


def test_a_second_plan_takes_over_without_losing_requests(serving_plan: Make, children: list[Child]) -> None:
    before = serving_plan(("w1",))
    after = serving_plan(("w1",), [gpulet_data(("w1", 2, 60.0), share_units=20)])
    for seconds in (4.0, 16.0, 64.0):  # a busy host may need longer to start the second plan
        settings = ReplaySettings(seconds=seconds, warmup_s=0.2, dropping=False)
        recording = replay([before, after], Cpu(), settings, ReplayOptions(switch_at_s=0.2))
        if (recording.requests["slot"] == 1).any():
            break
    values = to_json(recording)

    switch = values["switch"]
    assert 0.2 <= switch["began_s"] < switch["switched_s"] < switch["drained_s"]
    (workload,) = switch["workloads"]
    assert workload["id"] == "w1"
    assert workload["without_service_ms"] >= 0.0
    assert workload["p99_ms"] > 0.0
    switched_ms = recording.switched_ms
    assert switched_ms is not None
    on_first_plan, on_second_plan = (recording.requests[recording.requests["slot"] == slot] for slot in (0, 1))
    assert len(on_first_plan) > 0
    assert len(on_second_plan) > 0
    assert on_first_plan["due_ms"].max() < on_second_plan["due_ms"].min()
    assert on_second_plan["sent_ms"].min() >= switched_ms
    assert set(on_second_plan["size"]) <= {1, 2}
    assert values["workloads"][0]["unfinished"] == 0
    assert not values["failures"]


def test_a_second_plan_that_cannot_start_leaves_the_first_serving(
    serving_plan: Make, children: list[Child], monkeypatch: pytest.MonkeyPatch
) -> None:
    starts = []

    def hear(text: str) -> None:
        starts.extend([text] if text.startswith("starting") else [])
        monkeypatch.setattr(Cpu, "device", "abacus" if len(starts) == 2 else "cpu")

    plan = serving_plan(("w1",))
    settings = ReplaySettings(seconds=2.0, warmup_s=0.2)
    recording = replay([plan, plan], Cpu(), settings, ReplayOptions(switch_at_s=0.1), say=hear)
    values = to_json(recording)

    assert [(f["plan"], f["reason"]) for f in values["failures"]] == [(1, "ValueError: no abacus here")]
    assert values["switch"]["began_s"] >= 0.1
    assert (values["switch"]["switched_s"], values["switch"]["workloads"]) == (None, [])
    assert set(recording.requests["slot"]) == {0}
    assert values["workloads"][0]["unfinished"] == 0


def test_a_replay_without_its_load_generator_fails(serving_plan: Make, children: list[Child]) -> None:
    def hear(text: str) -> None:
        if text.startswith("serving"):
            children[0].process.kill()

    with pytest.raises(ReplayFailedError, match="the load generator died of SIGKILL"):
        replay([serving_plan(("w1",))], Cpu(), ReplaySettings(seconds=30.0), say=hear)


def test_a_switch_needs_the_same_workloads_and_a_time(serving_plan: Make) -> None:
    first, second = serving_plan(("w1",)), serving_plan(("w2",))

    with pytest.raises(InputError, match="then: its instance has other workloads"):
        replay([first, second], Cpu(), ReplaySettings(seconds=1.0), ReplayOptions(switch_at_s=0.5))
    for at_s in (None, 1.0, -1.0):
        with pytest.raises(InputError, match="switch_at_s: expected a time from 0 to 1 s"):
            replay([first, first], Cpu(), ReplaySettings(seconds=1.0), ReplayOptions(switch_at_s=at_s))


def test_a_plan_that_does_not_fit_the_memory_is_refused(serving_plan: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bench.replay.backends.memory_mib", lambda: {"MemAvailable": 1000.0})

    with pytest.raises(InputError, match="the host has 1,000 MiB of free memory; the plan needs 1,200 MiB"):
        replay([serving_plan()], Cpu(), ReplaySettings(seconds=1.0))


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [
        pytest.param("starting", signal.SIGTERM, 128 + signal.SIGTERM, marks=pytest.mark.soak),
        ("starting", signal.SIGINT, 130),
        ("serving", signal.SIGTERM, 128 + signal.SIGTERM),
        pytest.param("serving", signal.SIGKILL, -signal.SIGKILL, marks=pytest.mark.soak),
    ],
)
def test_no_process_or_file_is_left_after_a_signal(
    moment: str, number: signal.Signals, code: int, tmp_path: Path
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    file = write_plan(tmp_path, plan_data(("w1",)))
    process = subprocess.Popen(
        [*REPLAY, str(file), "--backend", "cpu", "--seconds", "60"],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "1"},
    )
    assert process.stderr is not None
    with process.stderr:
        while moment not in process.stderr.readline():
            assert process.poll() is None
        children_file = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        assert until(lambda: len(children_file.read_text().split()) == 2)
        started = map(int, children_file.read_text().split())

        process.send_signal(number)

        assert process.wait(30) == code
    assert not survivors(started)
    assert list(temporary.iterdir()) == []
