"""Workers of ``bench profile run``: MPS clients with their shares on a fake host, and threads on the CPU."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bench.replay import mps
from bench.replay import process as processes
from bench.replay.gpus import HostGpu
from bench.replay.light_profile import machine as machines
from bench.replay.light_profile.journal import JOURNAL, Device, Journal, ModelFacts
from bench.replay.light_profile.machine import WORKER, HostRig, RigSettings
from bench.replay.light_profile.points import Grid, Tenant
from bench.replay.light_profile.run import carry_out
from bench.replay.process import ChildError
from instances import InputError
from instances.measurements import read_solo
from tests.bench.processes import survivors
from tests.bench.replay.light_profile.fake_rig import fit_catalogue_entry, profile_request
from tests.bench.replay.serving_plans import REPLAY

PROFILE = (*REPLAY[:-1], "profile", "run")


@pytest.fixture
def told() -> list[str]:
    return []


class FakeChild:
    """Fake worker that answers at once, and records its order, environment and messages."""

    started: list["FakeChild"] = []  # noqa: RUF012 - emptied by the fixture

    def __init__(self, module: str, order: dict[str, Any], descriptors: Any, environment: dict[str, str]) -> None:
        self.order, self.environment, self.ended = order, environment, False
        self.asked: list[dict[str, Any]] = []
        self.channel = SimpleNamespace(say=self._hear, read=self._read, socket=SimpleNamespace(settimeout=self._wait))
        self.started.append(self)

    def _hear(self, **message: Any) -> None:
        self.asked.append(message)

    def _read(self) -> list[dict[str, Any]] | None:
        last = self.asked[-1]
        tenants = next((m["tenants"] for m in reversed(self.asked) if "tenants" in m), [])
        if "turn" in last:
            begin_s, end_s, leave_s = last["turn"]
            assert end_s - begin_s >= 0.0
            assert leave_s > end_s
            one = {"upload_ms": 0.1, "gpu_ms": 1.0, "feedback_ms": 0.2, "std_ms": 0.0, "batches": 9}
            return [{"times": [one] * len(tenants)}]
        if "tenants" in last:
            model = tenants[0][0]
            if model == "vgg16":
                return [{"failed": "OutOfMemoryError: CUDA out of memory"}]
            if model == "lenet":
                raise TimeoutError
            if model == "bert":
                return None
            return [{"ready": [{"batch_ms": 1e-3, "memory_mib": 700.0}] * len(tenants)}]
        return [{"name": "Fake", "software": "s", "share_units": 66, "memory_mib": 1.0, "pcie_bytes_per_ms": 1.0}]

    def _wait(self, seconds: float) -> None:
        assert seconds > 0.0

    def log_tail(self) -> str:
        return "CUDA error: no kernel image"

    def close_channel(self) -> None: ...

    def end(self, patience_s: float) -> int:
        self.ended = True
        return 0


@pytest.fixture
def gpu_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """Return a function that prepares a host with one GPU; its MPS daemon starts only with ``answers``.

    The function returns the log of the daemon's commands.
    """
    monkeypatch.setattr(processes, "Child", FakeChild)
    monkeypatch.setattr(machines, "required_gpus", lambda where, remedy: [HostGpu("GPU-1", "Fake", "580", 8e4)])
    monkeypatch.setattr(machines, "WARM_UP_S", 0.0)
    monkeypatch.setattr(machines, "IDLE_S", 0.0)
    monkeypatch.setattr(machines.GpuSensor, "open", lambda index: None)
    monkeypatch.delenv(mps.PIPES, raising=False)
    FakeChild.started.clear()
    log = tmp_path / "mps.log"

    def prepare(answers: bool) -> Path:
        program = tmp_path / "bin" / "nvidia-cuda-mps-control"
        program.parent.mkdir()
        running = f'[ -e "{tmp_path}/up" ] || {{ echo "Cannot find MPS control daemon process"; exit 1; }}'
        start = f'touch "{tmp_path}/up"' if answers else "echo cannot start >&2; exit 1"
        body = (
            f'if [ "$1" = -d ]; then echo start >> "{log}"; {start}; else {running}; read c; echo "$c" >> "{log}"; fi'
        )
        program.write_text(f"#!/bin/sh\n{body}\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        return log

    yield prepare
    assert all(child.ended for child in FakeChild.started)


def test_every_tenant_is_an_mps_client_with_its_share(gpu_host: Callable[..., Path]) -> None:
    log = gpu_host(answers=True)
    a, b = Tenant("vgg19", 16, 20.0), Tenant("alexnet", 16, 80.0)

    with HostRig(RigSettings()) as machine:
        assert machine.device.partition == "mps"
        (whole_gpu_worker,) = (child for child in FakeChild.started if not child.ended)
        assert mps.PIPES not in whole_gpu_worker.environment  # not a client, since tools see less of MPS clients
        reading = machine.measure((a, b), 0.01)
        first = [child for child in FakeChild.started if not child.ended]
        machine.measure((a,), 0.01)
        second = [child for child in FakeChild.started if not child.ended]

    assert whole_gpu_worker.ended
    assert [child.environment[mps.PERCENTAGE] for child in first] == ["20", "80"]
    assert all(child.environment["CUDA_VISIBLE_DEVICES"] == "GPU-1" for child in first)
    assert len({child.environment[mps.PIPES] for child in first}) == 1
    assert first[0].asked[0] == {"tenants": [("vgg19", 16, 20.0)]}
    assert second == first[:1]  # alexnet's worker is ended, since it could disturb the measurement
    assert reading.times[1].latency_ms == pytest.approx(1.3)
    assert (reading.power_w, reading.frequency_mhz) == (None, None)
    commands = log.read_text().split("\n")
    assert commands[0] == "start"
    assert commands[-2] == "quit"  # the daemon that was started is ended


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("vgg16", "OutOfMemoryError: CUDA out of memory"),
        ("lenet", "a worker did not answer within 300 s"),
        ("bert", "a worker died: CUDA error: no kernel image"),
    ],
)
def test_all_workers_are_ended_after_a_failed_point(gpu_host: Callable[..., Path], model: str, problem: str) -> None:
    gpu_host(answers=True)

    with HostRig(RigSettings()) as machine:
        with pytest.raises(ChildError, match=problem):
            machine.measure((Tenant("alexnet", 1, 50.0), Tenant(model, 1, 50.0)), 0.01)
        assert all(child.ended for child in FakeChild.started)
        assert len(machine.measure((Tenant("alexnet", 1, 50.0),), 0.01).times) == 1


def test_without_mps_tenants_are_green_contexts_of_one_process(
    gpu_host: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_host(answers=False)
    monkeypatch.setattr(machines, "has_green_contexts", lambda: True)

    with HostRig(RigSettings()) as machine:
        assert machine.device.partition == "green"
        machine.measure((Tenant("vgg19", 16, 20.0), Tenant("alexnet", 16, 80.0)), 0.01)
        (worker,) = (child for child in FakeChild.started if not child.ended)

    assert worker.order["device"] == "green"
    assert worker.asked[0] == {"tenants": [("vgg19", 16, 20.0), ("alexnet", 16, 80.0)]}
    with pytest.raises(InputError, match=r"partition mps: MPS does not work on this host: .*cannot start"):
        HostRig(RigSettings(partition="mps")).__enter__()
    monkeypatch.setattr(machines, "has_green_contexts", lambda: False)
    with pytest.raises(InputError, match=r"partition auto: MPS does not work on this host: .*cannot start"):
        HostRig(RigSettings()).__enter__()
    with pytest.raises(InputError, match=r"partition green: needs a driver with green contexts \(555 or later\)"):
        HostRig(RigSettings(partition="green")).__enter__()


def test_two_tenants_run_on_the_cpu_at_the_same_time() -> None:
    with HostRig(RigSettings(device="cpu")) as machine:
        reading = machine.measure((Tenant("tiny-cnn", 1, 10.0), Tenant("lenet", 4, 50.0)), 0.05)
        processes = [child.process for _, child in machine._workers]
        assert len(processes) == 2
        assert all(process.poll() is None for process in processes)

    assert all(process.poll() is not None for process in processes)
    assert all(times.batches >= 1 and times.gpu_ms > 0.0 and times.memory_mib > 10.0 for times in reading.times)


def test_after_sigterm_measured_points_are_stored_and_no_worker_is_left(tmp_path: Path) -> None:
    command = [*PROFILE, "--device", "cpu", "--models", "tiny-cnn", "--quick"]
    command += ["--seconds", "0.05"]
    with subprocess.Popen([*command, "-o", str(tmp_path)], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        assert run.stderr.readline().startswith("[1/")  # the second point is being measured
        workers = [pid for pid in children_of(run.pid) if WORKER in Path(f"/proc/{pid}/cmdline").read_text()]
        assert workers
        run.terminate()
        output = run.stderr.read()

    assert run.returncode == 130
    assert " kept; the same command continues from there" in output
    assert read_solo(tmp_path / "solo.csv")[0].latency_ms > 0.0
    device = json.loads((tmp_path / JOURNAL).read_text().splitlines()[0])["device"]
    assert (device["kind"], device["partition"], device["max_power_w"]) == ("cpu", "threads", None)
    assert Journal(tmp_path, Device(**device)).facts == {"tiny-cnn": ModelFacts(6, 12_288, 40)}
    assert survivors(workers) == []


def children_of(parent: int) -> list[int]:
    children = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                children.append(int(process.name))
    return children


@pytest.mark.soak
def test_a_cpu_is_profiled_and_fitted_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shares_pct = (10.0, 20.0, 50.0)  # together at most one core of two, so that threads do not compete
    grid = Grid((1, 4, 8), shares_pct, (1, 4, 8), shares_pct, (4,), ((20.0, 20.0),), ())

    request = profile_request(tmp_path, grid, models=("lenet",), seconds=0.05)
    assert carry_out(RigSettings(device="cpu"), request, lambda line: None) == 0

    gpu = fit_catalogue_entry(tmp_path, capsys)
    assert json.loads((tmp_path / "gpu.json").read_text())["device"] == "cpu"
    assert gpu.models["lenet"].max_batch == 8
