"""GPUs of the host, read through a fake of NVML; no setting is ever changed."""

import math
import re
import sys
import time
from contextlib import closing
from pathlib import Path

import pynvml
import pytest

from bench.replay import gpus
from bench.replay.gpus import GpuSensor, HostGpu, Sampler, host_gpus, required_gpus
from instances import InputError
from tests.bench.replay import fake_pynvml


def test_gpus_are_listed(nvml: Path) -> None:
    nvml.write_text("GPU-1, Tesla V100, 9000, Disabled, Prohibited\nGPU-2, NVIDIA A100, 70000, Enabled\n")

    assert host_gpus() == [
        HostGpu("GPU-1", "Tesla V100", "550.1", 9000.0, False, "prohibited", 40.0),
        HostGpu("GPU-2", "NVIDIA A100", "550.1", 70000.0, True, "default", 40.0),
    ]


def test_a_gpu_without_mig_is_a_whole_gpu(nvml: Path) -> None:
    fake_pynvml.broken |= {"nvmlDeviceGetMigMode", "nvmlDeviceGetComputeMode", "nvmlDeviceGetTemperature"}

    (gpu,) = host_gpus()

    assert (gpu.mig, gpu.compute_mode, math.isnan(gpu.temperature_c)) == (False, "default", True)


def test_a_host_without_gpus_is_one_line(nvml: Path) -> None:
    fake_pynvml.broken.add("nvmlInit")
    with pytest.raises(InputError, match=r"^--gpu 0: finds no NVIDIA GPU \(NVML: Driver Not Loaded\); buy one$"):
        required_gpus("--gpu 0", "buy one")
    nvml.unlink()
    with pytest.raises(InputError, match=r"^--gpu 0: finds no NVIDIA GPU \(NVML lists none\); buy one$"):
        required_gpus("--gpu 0", "buy one")


def test_readings_have_their_units(nvml: Path) -> None:
    with closing(GpuSensor(0)) as gpu:
        assert gpu.free_mib() == 10000.0
        assert gpu.power_limit_w() == 700.0
        before_s = time.monotonic()
        state = gpu.state()
        assert before_s <= state.at_s <= time.monotonic()
        assert (state.power_w, state.frequency_mhz, state.utilisation_pct) == (250.5, 1755.0, 42.0)


def test_without_instant_power_the_mean_over_a_second_is_read(nvml: Path) -> None:
    fake_pynvml.broken.add("nvmlDeviceGetFieldValues")
    with closing(GpuSensor(0)) as gpu:
        assert gpu.state().power_w == 240.0


def test_figures_that_a_gpu_does_not_support_are_nan(nvml: Path) -> None:
    parts = ("FieldValues", "PowerUsage", "ClockInfo", "UtilizationRates")
    fake_pynvml.broken |= {f"nvmlDeviceGet{part}" for part in parts}
    with closing(GpuSensor(0)) as gpu:
        state = gpu.state()
    assert all(map(math.isnan, (state.power_w, state.frequency_mhz, state.utilisation_pct)))


def test_without_the_library_or_the_gpu_there_is_no_sensor(nvml: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert GpuSensor.open(9) is None
    nvml.unlink()
    assert GpuSensor.open(0) is None
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert GpuSensor.open(0) is None


def test_the_sampler_reads_only_within_its_block(nvml: Path) -> None:
    with closing(GpuSensor(0)) as gpu:
        with Sampler(gpu, period_s=0.001) as sampler:
            while len(sampler.states) < 3:
                time.sleep(0.001)
        taken = len(sampler.states)
        assert [state.power_w for state in sampler.states] == [250.5] * taken
        second, third = sampler.states[1].at_s, sampler.states[2].at_s
        assert sampler.between(second, third) == sampler.states[1:3]


def test_only_existing_functions_that_read_are_used() -> None:
    source = Path(gpus.__file__).read_text(encoding="utf-8").replace(".nvmlReturn", "")
    names = set(re.findall(r"\b(?:nvml[A-Z]\w*|NVML_[A-Z_]\w*|NVMLError\w*)", source)) - {
        "NVML_VALUE_TYPE_UNSIGNED_INT"
    }
    functions = {name for name in names if name.startswith("nvml")}

    assert len(functions) >= 10
    assert {name for name in functions if "Get" not in name} == {"nvmlInit", "nvmlShutdown"}
    assert [name for name in names if not hasattr(pynvml, name)] == []
    assert gpus.UNSIGNED_FIELDS == {
        pynvml.NVML_VALUE_TYPE_UNSIGNED_INT: "uiVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG: "ulVal",
        pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG: "ullVal",
    }
    assert {name for name, _ in pynvml.c_nvmlValue_t._fields_} >= {"uiVal", "ulVal", "ullVal"}
