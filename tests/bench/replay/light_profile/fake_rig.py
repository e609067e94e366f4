"""Fake GPU with known coefficients, and requests to profile it."""

import tomllib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from bench.cli.app import main
from bench.replay.light_profile.journal import Device, ModelFacts, Reading, Times
from bench.replay.light_profile.points import KERNEL_CHAIN, Grid, Point, Tenant
from bench.replay.light_profile.run import ProfileRequest
from bench.replay.light_profile.writing import CatalogueFacts
from bench.replay.nets import CHAIN_LENGTH
from bench.replay.process import ChildError
from instances import GpuType
from instances.catalogue import gpu_type_from_toml
from tests.instances import reference
from tests.instances.reference import TOY

PER_KERNEL_MS = 0.002
"""Scheduling time of a kernel that runs alone."""

# L2 demands without a constant term: proportional to the served rate, like counted bytes.
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
KNOWN_GPU = replace(
    TOY, name="known", hardware=replace(TOY.hardware, max_power_w=260.0), models={"vgg19": VGG19, "alexnet": ALEXNET}
)
MODELS = ("vgg19", "alexnet")
ENTRY = CatalogueFacts("measured-here", 2.5)


@dataclass
class FakeRig:
    """GPU with exactly the coefficients of ``truth``.

    Points with the tenant ``fails`` cannot be measured; after ``stop_after`` points comes a Ctrl-C. Without ``counts``
    it has no counters of traffic, and without ``power`` no power sensor.
    """

    truth: GpuType = KNOWN_GPU
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
        model_truth = self.truth.models[model]
        return ModelFacts(model_truth.kernels, model_truth.input_bytes, model_truth.output_bytes)

    def traffic(self, model: str, batch: int) -> tuple[float, float] | None:
        l2 = self.truth.models[model].l2[0] * 1000.0 * batch
        return (l2, 0.5 * l2) if self.counts else None

    def measure(self, point: Point, seconds: float) -> Reading:
        if self.stop_after is not None and len(self.measured) >= self.stop_after:
            raise KeyboardInterrupt
        if self.fails in point:
            raise ChildError("OutOfMemoryError: CUDA out of memory")
        self.measured.append(point)
        return self._reading(point)

    def _reading(self, point: Point) -> Reading:
        hardware, models = self.truth.hardware, self.truth.models
        residents = [t for t in point if t.model != KERNEL_CHAIN]
        watts = sum(reference.power_w(models[t.model], t.batch, t.share_pct) for t in residents)
        mhz = reference.frequency_mhz(hardware, watts)
        slowdown = hardware.max_frequency_mhz / mhz
        delay_ms = reference.delay_per_kernel_ms(hardware, len(point))
        times = []
        for i, t in enumerate(point):
            if t.model == KERNEL_CHAIN:
                times.append(Times(0.0, CHAIN_LENGTH * (PER_KERNEL_MS + delay_ms) * slowdown, 0.0, 0.0, 100, 1.0))
                continue
            model = models[t.model]
            others = [o for j, o in enumerate(point) if j != i and o in residents]
            l2 = sum(reference.l2_pct(models[o.model], o.batch, o.share_pct) for o in others)
            active_ms = reference.active_ms(model, t.batch, t.share_pct) * (1.0 + model.alpha_cache * l2)
            gpu_ms = (model.scheduling_alone_ms + model.kernels * delay_ms + active_ms) * slowdown
            transfers = reference.transfers_ms(self.truth, model, t.batch)
            times.append(Times(transfers[0], gpu_ms, transfers[1], 0.01, 100, model.memory_mib(t.batch)))
        drawn_w = min(hardware.idle_power_w + watts, hardware.max_power_w)
        return Reading(tuple(times), drawn_w if self.power else None, mhz if self.power else None)


def profile_request(folder: Path, grid: Grid | None = None, **changes: Any) -> ProfileRequest:
    return replace(ProfileRequest(folder, MODELS, grid or Grid.full(), 1.0, ENTRY), **changes)


def fit_catalogue_entry(folder: Path, capsys: pytest.CaptureFixture[str]) -> GpuType:
    code = main(["profile", "fit", str(folder), "-o", str(folder / "out.toml")])
    assert code == 0, capsys.readouterr().err
    return gpu_type_from_toml(tomllib.loads((folder / "out.toml").read_text()), "out.toml")
