"""``bench profile run`` without a GPU: points, resuming, the files and the fit to them, workers and MPS made up."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench.cli.app import main
from bench.replay import mps
from bench.replay.host import HostGpu
from bench.replay.light_profile import machine as machines
from bench.replay.light_profile import traffic
from bench.replay.light_profile.demand import rank_one_pressure
from bench.replay.light_profile.journal import JOURNAL, Journal
from bench.replay.light_profile.machine import WORKER, Machine, Setup
from bench.replay.light_profile.points import CHAINED, KERNEL_CHAIN, Grid, Point, Tenant
from bench.replay.light_profile.rig import Device, MeasuringError, ModelFacts, Reading, Times
from bench.replay.light_profile.run import Order, carry_out, profile
from bench.replay.light_profile.writing import Entry
from instances import GpuType, InputError
from instances.catalogue import gpu_type_from_toml
from instances.measurements import read_pairs, read_solo
from tests.bench.processes import survivors
from tests.instances import reference
from tests.instances.reference import TOY

PER_KERNEL_MS = 0.002
"""Of a kernel that runs alone."""

# Demands in proportion to what is served, as bytes are that a batch moves.
ALEXNET = replace(
    TOY.models["small"],
    name="alexnet",
    k=(0.004, 8.7, 23.7, 0.05, 0.35),
    power=(0.03, 37.0),
    l2=(0.008, 0.0),
    scheduling_alone_ms=10 * PER_KERNEL_MS,
)
VGG19 = replace(
    TOY.models["large"],
    name="vgg19",
    k=(0.001, 158.0, 44.0, 0.2, 0.9),
    power=(0.5, 20.0),
    l2=(0.04, 0.0),
    scheduling_alone_ms=20 * PER_KERNEL_MS,
)
KNOWN = replace(
    TOY, name="known", hardware=replace(TOY.hardware, max_power_w=260.0), models={"vgg19": VGG19, "alexnet": ALEXNET}
)
MODELS = ("vgg19", "alexnet")
ENTRY = Entry("measured-here", 2.5)


@dataclass
class FakeRig:
    """A GPU with exactly the coefficients of ``truth``; ``fails`` cannot be measured, ``stop_after`` is a Ctrl-C."""

    truth: GpuType = KNOWN
    counts: bool = True
    power: bool = True
    fails: Tenant | None = None
    stop_after: int | None = None
    name: str = "Known 1000"
    measured: list[Point] = field(default_factory=list)

    @property
    def device(self) -> Device:
        hardware = self.truth.hardware
        watts = (hardware.idle_power_w, hardware.max_power_w) if self.power else (None, None)
        units, memory_mib = self.truth.share_units, self.truth.memory_mib
        return Device(
            "cuda", self.name, "driver 1", "mps", False, True, units, memory_mib, hardware.pcie_bytes_per_ms, *watts
        )

    def facts(self, model: str) -> ModelFacts:
        known = self.truth.models[model]
        return ModelFacts(known.kernels, known.input_bytes, known.output_bytes)

    def traffic(self, model: str, batch: int) -> tuple[float, float] | None:
        l2 = self.truth.models[model].l2[0] * 1000.0 * batch
        return (l2, 0.5 * l2) if self.counts else None

    def measure(self, point: Point, seconds: float) -> Reading:
        if self.stop_after is not None and len(self.measured) >= self.stop_after:
            raise KeyboardInterrupt
        if self.fails in point:
            raise MeasuringError("OutOfMemoryError: CUDA out of memory")
        self.measured.append(point)
        return self._reading(point)

    def _reading(self, point: Point) -> Reading:
        hardware, known = self.truth.hardware, self.truth.models
        residents = [t for t in point if t.model != KERNEL_CHAIN]
        watts = sum(reference.power_w(known[t.model], t.batch, t.share_pct) for t in residents)
        mhz = reference.frequency_mhz(hardware, watts)
        slower = hardware.max_frequency_mhz / mhz
        delay_ms = reference.delay_per_kernel_ms(hardware, len(point))
        times = []
        for i, t in enumerate(point):
            if t.model == KERNEL_CHAIN:
                times.append(Times(0.0, CHAINED * (PER_KERNEL_MS + delay_ms) * slower, 0.0, 0.0, 100, 1.0))
                continue
            model = known[t.model]
            others = [o for j, o in enumerate(point) if j != i and o in residents]
            l2 = sum(reference.l2_pct(known[o.model], o.batch, o.share_pct) for o in others)
            active_ms = reference.active_ms(model, t.batch, t.share_pct) * (1.0 + model.alpha_cache * l2)
            gpu_ms = (model.scheduling_alone_ms + model.kernels * delay_ms + active_ms) * slower
            transfers = reference.transfers_ms(self.truth, model, t.batch)
            times.append(Times(transfers[0], gpu_ms, transfers[1], 0.01, 100, model.memory_mib(t.batch)))
        drawn_w = min(hardware.idle_power_w + watts, hardware.max_power_w)
        return Reading(tuple(times), drawn_w if self.power else None, mhz if self.power else None)


def order(folder: Path, grid: Grid | None = None, **changes: Any) -> Order:
    return replace(Order(folder, MODELS, grid or Grid.full(), 1.0, ENTRY), **changes)


@pytest.fixture
def told() -> list[str]:
    return []


def fitted(folder: Path, capsys: pytest.CaptureFixture[str]) -> GpuType:
    code = main(["profile", "fit", str(folder), "-o", str(folder / "out.toml")])
    assert code == 0, capsys.readouterr().err
    return gpu_type_from_toml(tomllib.loads((folder / "out.toml").read_text()), "out.toml")


# --- What is measured ---


def test_the_full_grid_holds_the_light_profile_and_company() -> None:
    points = list(dict.fromkeys(Grid.full().all(MODELS)))

    alone = {point[0] for point in points if len(point) == 1}
    assert alone >= {Tenant(m, b, s) for m, b, s in product(MODELS, (1, 16, 32), (10.0, 50.0, 100.0))}
    assert {len(point) for point in points} == {1, 2, 3, 4, 5}
    for n in range(2, 6):
        assert (Tenant("vgg19", 16, 20.0),) * n in points
        assert (*(Tenant("vgg19", 16, 20.0),) * (n - 1), Tenant(KERNEL_CHAIN, 1, 20.0)) in points
    for model in MODELS:
        assert (Tenant(model, 16, 50.0),) * 2 in points
    assert all(sum(tenant.share_pct for tenant in point) <= 100.0 for point in points)


def test_the_quick_grid_is_eleven_configurations_per_model_and_the_copies() -> None:
    grid = Grid.quick()

    assert len(grid.solo(MODELS)) == 9 * len(MODELS)
    assert [point for point in grid.pairs(MODELS) if point[0].model == point[1].model] == [
        (Tenant(model, 4, 50.0),) * 2 for model in MODELS
    ]
    assert len(grid.crowd("vgg19")) == 10


# --- From measuring to the catalogue ---


def test_known_coefficients_come_back_through_the_files(
    tmp_path: Path, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    rig = FakeRig()

    assert profile(rig, order(tmp_path), told.append) == 0

    gpu = fitted(tmp_path, capsys)
    assert (gpu.name, gpu.provenance.kind, gpu.share_units) == ("measured-here", "measured-here", 10)
    assert {model.provenance.kind for model in gpu.models.values()} == {"measured-here"}
    assert gpu.provenance.source.startswith("bench profile run: Known 1000, driver 1, mps, single precision")
    assert (gpu.memory_mib, gpu.price_per_hour) == (4000.0, 2.5)
    hardware, known = gpu.hardware, KNOWN.hardware
    assert hardware.alpha_f == pytest.approx(known.alpha_f, rel=1e-6)
    assert (hardware.alpha_sch, hardware.beta_sch) == pytest.approx((known.alpha_sch, known.beta_sch), rel=1e-6)
    assert (hardware.max_power_w, hardware.idle_power_w) == (known.max_power_w, known.idle_power_w)
    assert (hardware.max_frequency_mhz, hardware.pcie_bytes_per_ms) == (1000.0, known.pcie_bytes_per_ms)
    for name, truth in KNOWN.models.items():
        model = gpu.models[name]
        for batch, share in product((1, 8, 32), (10, 30, 100)):
            at = reference.active_ms(truth, batch, share)
            assert reference.active_ms(model, batch, share) == pytest.approx(at, rel=1e-3)
        assert model.power == pytest.approx(truth.power, rel=1e-3)
        # Utilisation is per time on the GPU, of which the model's ability leaves the scheduling out.
        assert model.l2[0] == pytest.approx(truth.l2[0], rel=0.05)
        assert model.alpha_cache == pytest.approx(truth.alpha_cache, rel=0.05)
        assert model.scheduling_alone_ms == pytest.approx(truth.scheduling_alone_ms)
        assert (model.kernels, model.input_bytes) == (truth.kernels, truth.input_bytes)
        assert (model.memory_base_mib, model.memory_per_item_mib) == pytest.approx((500.0, 100.0))
        assert model.solo is not None
        assert model.solo.dram[0] == pytest.approx(0.5 * model.solo.l2[0], rel=0.01)
        assert model.company is not None


def test_the_files_hold_every_point(tmp_path: Path, told: list[str]) -> None:
    rig = FakeRig()
    profile(rig, order(tmp_path), told.append)

    solo = {
        (s.configuration.model, s.configuration.batch, s.configuration.share_pct): s
        for s in read_solo(tmp_path / "solo.csv")
    }
    assert set(solo) == {(m, b, s) for m, b, s in product(MODELS, Grid.full().batches, Grid.full().shares_pct)}
    expected = rig._reading((Tenant("vgg19", 8, 40.0),)).times[0]
    assert solo["vgg19", 8, 40.0].latency_ms == pytest.approx(expected.latency_ms)
    pairs = read_pairs(tmp_path / "pairs.csv")
    assert len(pairs) == 2 * len(Grid.full().pairs(MODELS)) + 2  # and two copies on a fifth each
    for sample in pairs:
        point = tuple(Tenant(at.model, at.batch, at.share_pct) for at in (sample.own, sample.other))
        assert sample.latency_ms == pytest.approx(rig._reading(point).times[0].latency_ms)
    rows = (tmp_path / "copies.csv").read_text().splitlines()
    assert len(rows) == 1 + 9 + len({p for p in Grid.full().pairs(MODELS) if p[0] == p[1]})


# Kernels that do not wait and a cap that nobody reaches: all growth comes from the cache.
CALM = replace(KNOWN, hardware=replace(KNOWN.hardware, max_power_w=900.0, alpha_sch=0.0, beta_sch=0.0))


@pytest.mark.parametrize("known", [KNOWN, CALM], ids=["throttled", "calm"])
def test_uncounted_demands_are_told_by_slowdowns(
    known: GpuType, tmp_path: Path, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert profile(FakeRig(known, counts=False), order(tmp_path), told.append) == 0

    gpu = fitted(tmp_path, capsys)
    assert "in percent of the model that slows others most" in gpu.provenance.source
    assert gpu.hardware.alpha_f == pytest.approx(0.0 if known is CALM else known.hardware.alpha_f)
    for name, truth in known.models.items():
        # The unit of a demand is free; what it does to a model is not.
        ours, theirs = (m.alpha_cache * reference.l2_pct(m, 16, 50) for m in (gpu.models[name], truth))
        assert ours == pytest.approx(theirs, rel=0.05)
    vgg, alexnet = (reference.l2_pct(gpu.models[name], 16, 50) for name in MODELS)
    expected = [reference.l2_pct(known.models[name], 16, 50) for name in MODELS]
    assert alexnet / vgg == pytest.approx(expected[1] / expected[0], rel=0.05)


def test_without_power_the_csv_files_still_give_an_entry(
    tmp_path: Path, told: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    fast = replace(KNOWN, hardware=replace(KNOWN.hardware, pcie_bytes_per_ms=1e9))
    assert profile(FakeRig(fast, power=False), order(tmp_path, Grid.quick()), told.append) == 0

    assert not (tmp_path / "profile.json").exists()
    assert "no profile.json: a point or the power is missing" in told[-1]
    gpu = fitted(tmp_path, capsys)
    assert (gpu.name, gpu.hardware.idle_power_w) == ("measured-here", 0.0)
    assert set(gpu.models) == set(MODELS)


def test_pressure_is_found_from_products() -> None:
    sensitivity, pressure = np.array([0.1, 0.4, 0.2]), np.array([30.0, 10.0, 0.0])

    found = rank_one_pressure(np.outer(sensitivity, pressure))

    assert found == pytest.approx([100.0, 100.0 / 3.0, 1.0])
    assert rank_one_pressure(np.full((2, 2), -0.1)) == pytest.approx([100.0, 1.0])


# --- Going on ---


def test_ctrl_c_keeps_what_was_measured_and_the_next_run_goes_on(tmp_path: Path, told: list[str]) -> None:
    total = len(set(Grid.quick().all(MODELS)))
    first = FakeRig(stop_after=7)

    assert profile(first, order(tmp_path, Grid.quick()), told.append) == 130

    assert "interrupted; 7 measured points kept" in told[-2]
    assert len(read_solo(tmp_path / "solo.csv")) == 7
    second = FakeRig()
    assert profile(second, order(tmp_path, Grid.quick()), told.append) == 0
    assert len(second.measured) == total - 7
    assert not set(first.measured) & set(second.measured)
    assert (tmp_path / "profile.json").exists()
    third = FakeRig()
    assert profile(third, order(tmp_path, Grid.quick()), told.append) == 0
    assert third.measured == []


def test_a_point_that_fails_is_told_left_out_and_tried_again(tmp_path: Path, told: list[str]) -> None:
    large = Tenant("vgg19", 16, 100.0)

    assert profile(FakeRig(fails=large), order(tmp_path, Grid.quick()), told.append) == 1

    assert any("vgg19 b16 100 %: OutOfMemoryError: CUDA out of memory" in line for line in told)
    again = FakeRig()
    assert profile(again, order(tmp_path, Grid.quick()), told.append) == 0
    assert again.measured == [(large,)]


def test_a_model_of_which_nothing_is_known_is_told(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def facts(rig: FakeRig, model: str) -> ModelFacts:
        raise MeasuringError(f"no {model}")

    monkeypatch.setattr(FakeRig, "facts", facts)

    assert profile(FakeRig(), order(tmp_path, Grid.quick()), told.append) == 1
    assert told[:2] == ["vgg19: no vgg19", "alexnet: no alexnet"]


def test_progress_counts_and_says_what_is_left(tmp_path: Path, told: list[str]) -> None:
    total = len(set(Grid.quick().all(MODELS)))
    profile(FakeRig(), order(tmp_path, Grid.quick()), told.append)

    assert told[0].startswith(f"[1/{total}] vgg19 b1 10 %: ")
    assert " W, about " in told[0]
    assert told[0].endswith(" left")
    assert told[total - 1].startswith(f"[{total}/{total}] ")
    assert not told[total - 1].endswith(" left")


def test_measurements_of_another_device_are_not_mixed_in(tmp_path: Path, told: list[str]) -> None:
    profile(FakeRig(stop_after=1), order(tmp_path, Grid.quick()), told.append)

    with pytest.raises(InputError, match=f'{JOURNAL}: is of "cuda Known 1000 .*expected another folder'):
        profile(FakeRig(name="Other 2000"), order(tmp_path, Grid.quick()), told.append)


def test_a_journal_cut_by_a_crash_is_mended_and_a_wrong_one_refused(tmp_path: Path, told: list[str]) -> None:
    profile(FakeRig(stop_after=3), order(tmp_path, Grid.quick()), told.append)
    file = tmp_path / JOURNAL
    whole = file.read_text()

    file.write_text(whole + '{"tenants": [{"mod')
    assert len(Journal(tmp_path, FakeRig().device).readings) == 3
    assert file.read_text() == whole

    file.write_text(whole + '{"tenants": 3}\n')
    line = whole.count("\n") + 1
    with pytest.raises(InputError, match=rf"{JOURNAL}: line {line}: is no measurement"):
        Journal(tmp_path, FakeRig().device)


WRONG = [
    ("--models vgg19,vgg", '--models: unknown model "vgg"; did you mean'),
    ("--models vgg19,vgg19", "--models: expected names of models, each once"),
    ("--seconds 0", "--seconds: 0; expected 0.05 to 600"),
    ("--price-per-hour -1", "--price-per-hour: -1; expected a finite number greater than 0"),
    ("--device cpu --partition mps", "--partition mps: divides GPUs; --device cpu takes none"),
    ("--gpu 0", "--gpu 0: finds no NVIDIA GPU (nvidia-smi lists none); expected a host with its driver"),
    ("--gpu -1", "--gpu: "),
    ("-o taken/folder", "-o taken/folder: cannot be made: "),
]


@pytest.mark.parametrize(("options", "expected"), WRONG)
def test_wrong_input_is_one_line_and_exit_code_2(
    options: str,
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "nowhere")
    Path("taken").touch()

    assert main(["profile", "run", *options.split()]) == 2

    printed = capsys.readouterr()
    assert printed.err.startswith(f"error: {expected}")
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("facts", "expected"),
    [("[]", "expected an object"), ('{"name": ""}', "name: expected a text"), ('{"memory_mib": 0}', "memory_mib: ")],
)
def test_a_wrong_gpu_file_is_refused(
    facts: str, expected: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "gpu.json").write_text(facts)

    assert main(["profile", "fit", str(tmp_path)]) == 2

    assert f"gpu.json: {expected}" in capsys.readouterr().err


BLOCKED = """
import runpy, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "scipy", "pydantic", "pandas", "typer", "click", "rich", "torchvision"):
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Missing())
sys.argv = ["light_profile", *sys.argv[1:]]
runpy.run_module("bench.replay.light_profile", run_name="__main__")
"""


def test_it_runs_where_only_numpy_and_pytorch_are_installed(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BLOCKED, "-o", str(tmp_path), "--gpu", "0"]
    environment = {**os.environ, "PATH": "nowhere"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)

    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "error: --gpu 0: finds no NVIDIA GPU" in done.stderr


# --- Workers ---


class FakeChild:
    """A worker that answers at once; remembers what it was started with and asked."""

    started: list["FakeChild"] = []  # noqa: RUF012 - emptied by the fixture

    def __init__(self, module: str, order: dict[str, Any], descriptors: Any, environment: dict[str, str]) -> None:
        self.order, self.environment, self.ended = order, environment, False
        self.asked: list[dict[str, Any]] = []
        self.channel = SimpleNamespace(say=self._hear, read=self._read, end=SimpleNamespace(settimeout=self._wait))
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

    def hang_up(self) -> None: ...

    def end(self, patience_s: float) -> int:
        self.ended = True
        return 0


@pytest.fixture
def gpu_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Path]]:
    """A host with one GPU and, if wanted, a control daemon that logs what it is told."""
    monkeypatch.setattr(machines, "Child", FakeChild)
    monkeypatch.setattr(machines, "host_gpus", lambda: [HostGpu("GPU-1", "Fake", 8e4, False, "580")])
    monkeypatch.setattr(machines, "WARM_UP_S", 0.0)
    monkeypatch.setattr(machines, "IDLE_S", 0.0)
    monkeypatch.setattr(machines.Nvml, "open", lambda index: None)
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


def test_every_tenant_is_a_client_of_mps_with_its_share(gpu_host: Callable[..., Path]) -> None:
    log = gpu_host(answers=True)
    a, b = Tenant("vgg19", 16, 20.0), Tenant("alexnet", 16, 80.0)

    with Machine(Setup()) as machine:
        assert machine.device.partition == "mps"
        (whole,) = (child for child in FakeChild.started if not child.ended)
        assert mps.PIPES not in whole.environment  # no client: tools see little of clients
        reading = machine.measure((a, b), 0.01)
        first = [child for child in FakeChild.started if not child.ended]
        machine.measure((a,), 0.01)
        second = [child for child in FakeChild.started if not child.ended]

    assert whole.ended
    assert [child.environment[mps.PERCENTAGE] for child in first] == ["20", "80"]
    assert all(child.environment["CUDA_VISIBLE_DEVICES"] == "GPU-1" for child in first)
    assert len({child.environment[mps.PIPES] for child in first}) == 1
    assert first[0].asked[0] == {"tenants": [("vgg19", 16, 20.0)]}
    assert second == first[:1]  # used again; the other would only be in the way
    assert reading.times[1].latency_ms == pytest.approx(1.3)
    assert (reading.power_w, reading.frequency_mhz) == (None, None)
    said = log.read_text().split("\n")
    assert said[0] == "start"
    assert said[-2] == "quit"  # the daemon that was started is ended


@pytest.mark.parametrize(
    ("model", "problem"),
    [
        ("vgg16", "OutOfMemoryError: CUDA out of memory"),
        ("lenet", "a worker did not answer within 300 s"),
        ("bert", "a worker died: CUDA error: no kernel image"),
    ],
)
def test_workers_end_after_a_point_that_failed(gpu_host: Callable[..., Path], model: str, problem: str) -> None:
    gpu_host(answers=True)

    with Machine(Setup()) as machine:
        with pytest.raises(MeasuringError, match=problem):
            machine.measure((Tenant("alexnet", 1, 50.0), Tenant(model, 1, 50.0)), 0.01)
        assert all(child.ended for child in FakeChild.started)
        assert len(machine.measure((Tenant("alexnet", 1, 50.0),), 0.01).times) == 1


def test_green_contexts_share_one_process_where_mps_does_not_start(
    gpu_host: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    gpu_host(answers=False)
    monkeypatch.setattr(machines, "has_green_contexts", lambda: True)

    with Machine(Setup()) as machine:
        assert machine.device.partition == "green"
        machine.measure((Tenant("vgg19", 16, 20.0), Tenant("alexnet", 16, 80.0)), 0.01)
        (worker,) = (child for child in FakeChild.started if not child.ended)

    assert worker.order["device"] == "green"
    assert worker.asked[0] == {"tenants": [("vgg19", 16, 20.0), ("alexnet", 16, 80.0)]}
    with pytest.raises(InputError, match=r"--partition mps: MPS does not work on this host: .*cannot start"):
        Machine(Setup(partition="mps")).__enter__()
    monkeypatch.setattr(machines, "has_green_contexts", lambda: False)
    with pytest.raises(InputError, match=r"--partition auto: MPS does not work on this host: .*cannot start"):
        Machine(Setup()).__enter__()
    with pytest.raises(InputError, match=r"--partition green: needs a driver with green contexts, 555 or later"):
        Machine(Setup(partition="green")).__enter__()


def test_two_tenants_run_on_the_cpu_at_the_same_time() -> None:
    with Machine(Setup(device="cpu")) as machine:
        reading = machine.measure((Tenant("tiny-cnn", 1, 10.0), Tenant("lenet", 4, 50.0)), 0.05)
        processes = [child.process for _, child in machine._workers]
        assert len(processes) == 2
        assert all(process.poll() is None for process in processes)

    assert all(process.poll() is not None for process in processes)
    assert all(times.batches >= 1 and times.gpu_ms > 0.0 and times.memory_mib > 10.0 for times in reading.times)


def test_sigterm_keeps_what_was_measured_and_leaves_no_worker(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "bench.replay.light_profile", "--device", "cpu", "--models", "tiny-cnn", "--quick"]
    command += ["--seconds", "0.05"]
    with subprocess.Popen([*command, "-o", str(tmp_path)], stderr=subprocess.PIPE, text=True) as run:
        assert run.stderr is not None
        assert run.stderr.readline().startswith("[1/")  # the second point is being measured
        workers = [pid for pid in children_of(run.pid) if WORKER in Path(f"/proc/{pid}/cmdline").read_text()]
        assert workers
        run.terminate()
        told = run.stderr.read()

    assert run.returncode == 130
    assert " kept, the same command continues from there" in told
    assert read_solo(tmp_path / "solo.csv")[0].latency_ms > 0.0
    device = json.loads((tmp_path / JOURNAL).read_text().splitlines()[0])["device"]
    assert (device["kind"], device["partition"], device["max_power_w"]) == ("cpu", "threads", None)
    assert Journal(tmp_path, Device(**device)).facts == {"tiny-cnn": ModelFacts(6, 12_288, 40)}
    assert survivors(workers) == []


def children_of(parent: int) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if int((process / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(process.name))
    return found


@pytest.mark.soak
def test_a_cpu_is_profiled_and_fitted_from_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    light = (10.0, 20.0, 50.0)  # of two cores never more than one, whose threads would fight
    grid = Grid((1, 4, 8), light, (1, 4, 8), light, (4,), ((20.0, 20.0),))

    assert (
        carry_out(Setup(device="cpu"), order(tmp_path, grid, models=("lenet",), seconds=0.05), lambda line: None) == 0
    )

    gpu = fitted(tmp_path, capsys)
    assert json.loads((tmp_path / "gpu.json").read_text())["device"] == "cpu"
    assert gpu.models["lenet"].max_batch == 8


# --- Counting ---

PRINTED = """==PROF== Connected to process 7
"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"
"0","7","conv","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","30.00"
"0","7","conv","gpu__time_duration.sum","us","2,000.00"
"0","7","conv","lts__t_sectors.avg.pct_of_peak_sustained_elapsed","%","50.00"
"1","7","relu","dram__throughput.avg.pct_of_peak_sustained_elapsed","%","10.00"
"1","7","relu","gpu__time_duration.sum","us","500.00"
"1","7","relu","lts__t_sectors.avg.pct_of_peak_sustained_elapsed","%","20.00"
"""


def test_traffic_is_summed_over_kernels() -> None:
    assert traffic.traffic_of(PRINTED) == pytest.approx((50.0 * 2.0 + 20.0 * 0.5, 30.0 * 2.0 + 10.0 * 0.5))
    uncounted = PRINTED + '"2","7","copy","gpu__time_duration.sum","us","n/a"\n==PROF== Disconnected from process 7\n'
    assert traffic.traffic_of(uncounted) == traffic.traffic_of(PRINTED)
    assert traffic.traffic_of("==ERROR== ERR_NVGPUCTRPERM\n") is None


@pytest.mark.parametrize(
    ("script", "expected"), [(None, None), ("exit 1", None), ("cat printed", (110.0, 65.0)), ("echo no", None)]
)
def test_whoever_may_not_count_gets_none(
    script: str | None, expected: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "printed").write_text(PRINTED)
    if script:
        program = tmp_path / traffic.NCU
        program.write_text(f"#!/bin/sh\n{script.replace('printed', str(tmp_path / 'printed'))}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}/bin{os.pathsep}/usr/bin")

    assert traffic.counted_traffic("lenet", 1, False, os.environ) == expected
