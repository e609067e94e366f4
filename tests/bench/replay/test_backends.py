"""Backends of replays on GPUs, with a fake driver: checks, the MPS daemon, and environments of workers."""

import math
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import bench.replay.serving as serving
from bench.replay import mps
from bench.replay import process as processes
from bench.replay.backends import BACKENDS, Green, Mps, StreamBackend, TimeSlicingBackend
from bench.replay.backends import backend as backend_called
from bench.replay.gpus import GpuState
from bench.replay.nets import NETS
from bench.replay.process import Child
from bench.replay.result import to_json
from bench.replay.serving import replay
from bench.replay.serving_plan import ServingPlan
from bench.replay.settings import ReplaySettings
from instances import InputError
from tests.bench.processes import until
from tests.bench.replay.serving_plans import REPLAY, gpulet_data, plan_data, serving_plan_of, write_plan

HERE = Path(__file__).parent

# Fake control program of MPS: it logs each command with its pipe directory to "asked". A daemon is the file "daemon"
CONTROL = """#!/bin/sh
pipes=${CUDA_MPS_PIPE_DIRECTORY:-$FAKE/default}
if [ "$1" = -d ]; then
    [ -e "$FAKE/broken" ] && { echo "Failed to start" >&2; exit 1; }
    said=start; touch "$pipes/daemon"
    while [ -e "$pipes/daemon" ]; do sleep 0.05; done &
else
    read said
    [ -e "$pipes/daemon" ] || { echo "Cannot find MPS control daemon process" >&2; exit 1; }
    [ "$said" = quit ] && [ -e "$FAKE/stuck" ] && sleep 300
    [ "$said" = quit ] && rm "$pipes/daemon"
fi
echo "$said $pipes $CUDA_MPS_LOG_DIRECTORY" >> "$FAKE/asked"
"""


@pytest.fixture
def fake(nvml: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder of a fake driver with one GPU and the fake control program of MPS."""
    folder = nvml.parent
    (folder / "default").mkdir()
    program = folder / "nvidia-cuda-mps-control"
    program.write_text(CONTROL, encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    for name in ("CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    return folder


@pytest.fixture
def quick_device(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "site").mkdir()
    shutil.copy(HERE / "quick_device.py", tmp_path / "site" / "sitecustomize.py")
    shutil.copy(HERE / "fake_pynvml.py", tmp_path / "site" / "pynvml.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "site"))


@pytest.fixture
def serving_plan(tmp_path: Path) -> Callable[..., ServingPlan]:
    return lambda *arguments: serving_plan_of(tmp_path, plan_data(*arguments))


class SteadyGpu:
    """Sensor of a GPU with constant power and frequency, and unknown utilisation."""

    @classmethod
    def open(cls, gpu: int) -> "SteadyGpu":
        return cls()

    def state(self) -> GpuState:
        return GpuState(time.monotonic(), 70.0, 1500.0, math.nan)

    def close(self) -> None:
        pass


def asked_of_daemon(fake: Path) -> list[list[str]]:
    file = fake / "asked"
    return [line.split() for line in file.read_text().splitlines()] if file.exists() else []


def test_a_replay_starts_a_daemon_of_its_own_and_ends_it_after_its_workers(
    fake: Path, quick_device: None, serving_plan: Callable[..., ServingPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[tuple[str, dict[str, str], dict[str, Any]]] = []
    commands_at_worker_ends: list[list[list[str]]] = []

    class Recorded(Child):
        def __init__(self, module: str, order: Any, descriptors: Any, environment: Any = None) -> None:
            started.append((module, dict(environment or {}), order))
            super().__init__(module, order, descriptors, environment)

        def end(self, patience_s: float) -> int:
            code = super().end(patience_s)
            commands_at_worker_ends.append(asked_of_daemon(fake))
            return code

    monkeypatch.setattr(processes, "Child", Recorded)
    monkeypatch.setattr(serving, "GpuSensor", SteadyGpu)
    recording = replay([serving_plan(("w1", "w2"))], Mps(), ReplaySettings(seconds=1.5, warmup_s=0.1))

    assert not recording.failures
    (gpu,) = to_json(recording)["gpus"]
    assert gpu["samples"] > 0
    assert (gpu["power_w"], gpu["frequency_mhz"], gpu["utilisation_pct"]) == (70.0, 1500.0, None)
    start, quit_ = asked_of_daemon(fake)
    pipes, logs = Path(start[1]), Path(start[2])
    assert (start[0], quit_) == ("start", ["quit", str(pipes), str(logs)])
    assert pipes.parent == logs.parent
    assert not pipes.parent.exists()
    assert all(
        commands == [start] for commands in commands_at_worker_ends
    )  # when each worker ended, the daemon had not been told to quit
    workers = [(environment, order) for module, environment, order in started if module == "bench.replay.worker"]
    assert [order["device"] for _, order in workers] == ["cuda", "cuda"]
    # The needs 733.1 + 4 * 4 and 597.5 + 4 * 38.2 MiB divide the 10,000 MiB.
    for (environment, _), memory_mib in zip(workers, (749.1, 750.3), strict=True):
        assert environment == {
            "CUDA_MPS_PIPE_DIRECTORY": str(pipes),
            "CUDA_MPS_LOG_DIRECTORY": str(logs),
            "CUDA_VISIBLE_DEVICES": "GPU-11",
            "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "30",
            "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT": f"0={int(10_000 * memory_mib / (749.1 + 750.3))}M",
        }


def test_shares_in_percent_may_have_fractions() -> None:
    assert mps.client(37.5, None) == {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": "37.5"}


def test_a_daemon_that_runs_already_is_used_and_left_alone(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipes = fake / "own"
    pipes.mkdir()
    (pipes / "daemon").touch()
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(pipes))

    with mps.daemon() as variables:
        assert variables == {"CUDA_MPS_PIPE_DIRECTORY": str(pipes)}

    assert [said for said, *_ in asked_of_daemon(fake)] == ["get_server_list"]
    assert (pipes / "daemon").exists()


def test_a_daemon_that_does_not_start_is_an_input_error(fake: Path) -> None:
    (fake / "broken").touch()

    with (
        pytest.raises(InputError, match="backend mps: nvidia-cuda-mps-control -d failed: Failed to start"),
        mps.daemon(),
    ):
        pass
    assert list((fake.parent / "temporary").iterdir()) == []


def test_a_daemon_that_does_not_quit_is_not_waited_for(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (fake / "stuck").touch()
    with mps.daemon() as variables:
        pipes = Path(variables[mps.PIPES])
        monkeypatch.setattr(mps, "_PATIENCE_S", 0.1)

    assert not pipes.parent.exists()


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_the_daemon_is_ended_when_the_replay_fails(fake: Path, error: type[BaseException]) -> None:
    with pytest.raises(error), mps.daemon():
        raise error
    assert [said for said, *_ in asked_of_daemon(fake)] == ["start", "quit"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_daemon_is_ended_when_the_replay_is_killed(
    number: signal.Signals, fake: Path, quick_device: None, tmp_path: Path
) -> None:
    file = write_plan(tmp_path, plan_data(("w1",)))
    command = [*REPLAY, str(file), "--backend", "mps", "--seconds", "60"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process.stderr:
        while "serving" not in process.stderr.readline():
            assert process.poll() is None
        process.send_signal(number)
        process.wait(30)

    assert until(lambda: [said for said, *_ in asked_of_daemon(fake)] == ["start", "quit"], 20.0)
    assert until(lambda: list((tmp_path / "temporary").iterdir()) == [], 20.0)


@pytest.mark.parametrize("kind", [Green, StreamBackend])
def test_executors_of_a_gpu_are_threads_of_one_process(
    kind: Any, fake: Path, serving_plan: Callable[..., ServingPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bench.replay.backends.has_green_contexts", lambda: True)
    plan = serving_plan(("w1", "w2"))
    backend = kind()
    backend.check([plan])

    (spec,) = backend.worker_specs(plan)

    assert spec.executors == (0, 1)
    assert spec.environment == {"CUDA_VISIBLE_DEVICES": "GPU-11"}


def test_processes_with_time_slices_do_not_use_mps(fake: Path, serving_plan: Callable[..., ServingPlan]) -> None:
    plan = serving_plan(("w1", "w2"))
    backend = TimeSlicingBackend()
    backend.check([plan])

    with backend.running() as variables:
        assert variables == {}
    specs = backend.worker_specs(plan)

    assert [spec.executors for spec in specs] == [(0,), (1,)]
    for spec in specs:
        assert spec.environment == {"CUDA_VISIBLE_DEVICES": "GPU-11", mps.PIPES: os.devnull}
    assert asked_of_daemon(fake) == []


@pytest.mark.parametrize("name", ["mps", "green", "time-slicing", "stream"])
@pytest.mark.parametrize(
    ("gpus", "problem"),
    [
        (None, "finds no NVIDIA GPU (NVML lists none); use `backend` cpu or sim"),
        ("GPU-1, T, 9000, Enabled\n", "GPU 0 is in MIG mode; a replay needs a whole GPU"),
        ("GPU-1, T, 700, Disabled\n", "GPU 0 has 700 MiB of free memory; the plan needs 749 MiB"),
    ],
)
def test_a_host_that_lacks_something_is_refused_before_a_daemon_starts(
    name: str, gpus: str | None, problem: str, fake: Path, serving_plan: Callable[..., ServingPlan]
) -> None:
    (fake / "gpus").unlink()
    if gpus is not None:
        (fake / "gpus").write_text(gpus, encoding="utf-8")

    with pytest.raises(InputError) as refused:
        replay([serving_plan(("w1",))], backend_called(name), ReplaySettings(seconds=1.0))

    assert str(refused.value).startswith(f"backend {name}: {problem}")
    assert asked_of_daemon(fake) == []


def test_an_unknown_model_is_refused_before_anything_starts(
    fake: Path, serving_plan: Callable[..., ServingPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(NETS, "alexnet")

    with pytest.raises(InputError, match='backend stream: unknown model "alexnet"'):
        StreamBackend().check([serving_plan(("w1",))])


def test_two_plans_at_once_need_memory_for_both(fake: Path, serving_plan: Callable[..., ServingPlan]) -> None:
    (fake / "gpus").write_text("GPU-1, T, 1400, Disabled\n", encoding="utf-8")
    plan = serving_plan(("w1",))
    StreamBackend().check([plan])

    with pytest.raises(InputError, match=r"GPU 0 has 1,400 MiB of free memory; the plan needs 1,498 MiB"):
        StreamBackend().check([plan, plan])


def test_a_plan_for_more_gpus_than_there_are_is_refused(
    fake: Path, tmp_path: Path, serving_plan: Callable[..., ServingPlan]
) -> None:
    data = plan_data(("w1",))
    data["gpus"] *= 2

    with pytest.raises(InputError, match="the plan uses 2 GPUs; this host has 1"):
        Green().check([serving_plan_of(tmp_path, data)])


def test_without_the_control_program_the_error_names_another_backend(
    fake: Path, serving_plan: Callable[..., ServingPlan], monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake / "nvidia-cuda-mps-control").unlink()
    monkeypatch.setenv("PATH", f"{fake}:/usr/bin:/bin")

    with pytest.raises(InputError, match=r"needs nvidia-cuda-mps-control, .* on the path.*use `backend` green"):
        Mps().check([serving_plan(("w1",), [gpulet_data(("w1", 1, 10.0))])])


def test_backends_are_found_by_name() -> None:
    assert [backend_called(name).name for name in BACKENDS] == ["cpu", "mps", "green", "time-slicing", "stream"]
    with pytest.raises(InputError, match=r'^backend: unknown backend "gren"; did you mean "green"\?'):
        backend_called("gren")
