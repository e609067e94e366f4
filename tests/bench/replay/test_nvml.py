"""Tests of reading NVML, against a library made of Python; no setting is ever changed."""

import ctypes
import math
import re
import time
from pathlib import Path
from typing import Any

from bench.replay import nvml
from bench.replay.nvml import LIBRARY, Nvml, Sampler


class FakeLibrary:
    """A GPU of 80 GiB at 250 W; functions named in ``broken`` fail."""

    def __init__(self, *broken: str) -> None:
        self.broken = broken
        self.called: list[str] = []
        self.open = 0

    def __getattr__(self, name: str) -> Any:
        answer = getattr(self, f"_{name}")

        def function(*arguments: Any) -> int:
            self.called.append(name)
            if name in self.broken:
                return 3  # NVML_ERROR_NOT_SUPPORTED
            answer(*(getattr(argument, "_obj", argument) for argument in arguments))
            return 0

        return function

    def _nvmlInit_v2(self) -> None:  # noqa: N802
        self.open += 1

    def _nvmlShutdown(self) -> None:  # noqa: N802
        self.open -= 1

    def _nvmlDeviceGetHandleByIndex_v2(self, index: Any, device: Any) -> None:  # noqa: N802
        device.value = 1000 + index.value

    def _nvmlDeviceGetName(self, device: Any, text: Any, length: Any) -> None:  # noqa: N802
        assert device.value == 1002
        text.value = b"NVIDIA Test 80GB"

    def _nvmlDeviceGetMemoryInfo(self, device: Any, memory: Any) -> None:  # noqa: N802
        memory.total, memory.free = 80 * 2**30, 70 * 2**30

    def _nvmlDeviceGetEnforcedPowerLimit(self, device: Any, value: Any) -> None:  # noqa: N802
        value.value = 700_000

    def _nvmlDeviceGetClockInfo(self, device: Any, kind: Any, value: Any) -> None:  # noqa: N802
        value.value = {1: 1755}[kind.value]

    def _nvmlDeviceGetUtilizationRates(self, device: Any, used: Any) -> None:  # noqa: N802
        used.gpu, used.memory = 42, 7

    def _nvmlDeviceGetPowerUsage(self, device: Any, value: Any) -> None:  # noqa: N802
        value.value = 240_000

    def _nvmlDeviceGetFieldValues(self, device: Any, count: Any, field: Any) -> None:  # noqa: N802
        assert (count.value, field.id) == (1, 186)
        field.kind, field.status, field.value.uint = 1, 0, 250_500


def test_everything_is_read_in_its_unit() -> None:
    library = FakeLibrary()

    with Nvml(library, 2) as gpu:
        assert gpu.name() == "NVIDIA Test 80GB"
        assert gpu.memory_mib() == (70 * 1024, 80 * 1024)
        assert gpu.power_limit_w() == 700.0
        before_s = time.monotonic()
        state = gpu.state()
        assert before_s <= state.at_s <= time.monotonic()
        assert (state.power_w, state.frequency_mhz, state.utilisation_pct) == (250.5, 1755.0, 42.0)
    assert library.open == 0


def test_power_falls_back_to_the_mean_of_a_second() -> None:
    assert Nvml(FakeLibrary("nvmlDeviceGetFieldValues"), 2).state().power_w == 240.0


def test_what_a_gpu_does_not_tell_is_nan() -> None:
    broken = "nvmlDeviceGetFieldValues", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetClockInfo"
    state = Nvml(FakeLibrary(*broken, "nvmlDeviceGetUtilizationRates"), 2).state()

    assert all(map(math.isnan, (state.power_w, state.frequency_mhz, state.utilisation_pct)))


def test_no_library_and_no_such_gpu_are_none() -> None:
    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    assert Nvml.open(load=missing) is None
    library = FakeLibrary("nvmlDeviceGetHandleByIndex_v2")
    assert Nvml.open(9, load={LIBRARY: library}.__getitem__) is None
    assert library.open == 0
    assert Nvml.open(load={LIBRARY: FakeLibrary("nvmlInit_v2")}.__getitem__) is None


def test_the_sampler_asks_from_entering_to_leaving() -> None:
    library = FakeLibrary()
    with Nvml(library, 2) as gpu, Sampler(gpu, period_s=0.001) as sampler:
        while len(sampler.states) < 3:
            time.sleep(0.001)
    taken = len(sampler.states)
    assert [state.power_w for state in sampler.states] == [250.5] * taken
    second, third = sampler.states[1].at_s, sampler.states[2].at_s
    assert sampler.between(second, third) == sampler.states[1:3]
    assert library.called[-1] == "nvmlShutdown"  # and nobody asks afterwards


def test_nothing_is_ever_set() -> None:
    functions = set(re.findall(r"nvml[A-Z]\w*", Path(nvml.__file__).read_text(encoding="utf-8")))

    assert len(functions) >= 10
    assert {re.sub(r"(_v\d)?$", "", name) for name in functions if "Get" not in name} == {"nvmlInit", "nvmlShutdown"}
    assert not any(re.search("Set|Reset|Clear", name) for name in functions)


def test_the_structures_are_those_of_the_header() -> None:
    assert ctypes.sizeof(nvml._Memory) == 24
    assert ctypes.sizeof(nvml._Field) == 40
    assert nvml._Field.value.offset == 32
