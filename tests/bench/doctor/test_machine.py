"""``bench doctor`` on the files and programs of made-up machines."""

import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from bench import provenance
from bench.doctor import Finding, Level, machine
from bench.replay.gpus import HostGpu

Pretend = Callable[..., None]


@pytest.fixture
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pretend:
    """Write files below a temporary folder that stands for ``/``, with ``sys`` and ``proc``."""
    monkeypatch.setattr(machine, "SYSTEM", tmp_path / "sys")
    monkeypatch.setattr(machine, "PROCESSES", tmp_path / "proc")
    monkeypatch.setattr(provenance, "MEMORY", tmp_path / "proc" / "meminfo")
    monkeypatch.setattr(machine, "usable_cores", lambda: 4)

    def put(files: dict[str, str]) -> None:
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text)

    return put


def levels(findings: list[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


CGROUPS_V2 = {"proc/self/cgroup": "0::/user/x\n"}
CGROUPS_V1 = {"proc/self/cgroup": "4:memory:/box\n1:cpu:/box\n"}


def test_a_machine_without_these_files_has_no_warnings(pretend: Pretend) -> None:
    assert levels(machine.control_groups()) == [Level.OK]
    assert machine.frequency() == machine.swap() == []


@pytest.mark.parametrize(
    "files",
    [
        {**CGROUPS_V2, "sys/fs/cgroup/user/x/cpu.max": "150000 100000\n"},
        {
            **CGROUPS_V1,
            "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "150000",
            "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "100000",
        },
        {**CGROUPS_V2, "sys/fs/cgroup/cpu.max": "150000 100000"},  # as in a container
    ],
)
def test_a_cpu_quota_below_the_visible_cores_is_a_warning(files: dict[str, str], pretend: Pretend) -> None:
    pretend(files)
    (finding,) = machine.control_groups()
    assert (finding.level, finding.found) == (Level.WARNING, "a quota of 1.5 cores, although 4 are visible")
    assert finding.advice == "use --jobs 1, or raise the quota"


@pytest.mark.parametrize(
    "files",
    [
        {**CGROUPS_V2, "sys/fs/cgroup/user/x/cpu.max": "max 100000\n", "sys/fs/cgroup/user/x/memory.max": "max"},
        {**CGROUPS_V1, "sys/fs/cgroup/cpu/box/cpu.cfs_quota_us": "-1", "sys/fs/cgroup/cpu/box/cpu.cfs_period_us": "1"},
        {**CGROUPS_V1, "sys/fs/cgroup/memory/box/memory.limit_in_bytes": "9223372036854771712"},
    ],
)
def test_unlimited_control_groups_are_ok(files: dict[str, str], pretend: Pretend) -> None:
    pretend(files)
    (finding,) = machine.control_groups()
    assert (finding.level, finding.found) == (Level.OK, "no limits")


def test_a_memory_limit_and_throttling_are_reported(pretend: Pretend) -> None:
    group = "sys/fs/cgroup/user/x"
    pretend({**CGROUPS_V2, f"{group}/memory.max": str(2**28), f"{group}/cpu.stat": "nr_periods 9\nnr_throttled 7"})
    assert [finding.found for finding in machine.control_groups()] == [
        "throttled 7 times so far",
        "memory limited to 0.2 GB",
    ]


def test_a_powersaving_governor_and_thermal_throttling_are_warnings(pretend: Pretend) -> None:
    cpu = "sys/devices/system/cpu/cpu0"
    pretend({f"{cpu}/cpufreq/scaling_governor": "performance\n"})
    assert levels(machine.frequency()) == [Level.OK]
    pretend({f"{cpu}/cpufreq/scaling_governor": "powersave\n", f"{cpu}/thermal_throttle/package_throttle_count": "3\n"})
    assert levels(machine.frequency()) == [Level.WARNING, Level.WARNING]


@pytest.mark.parametrize(("free", "level"), [(1000, Level.OK), (960, Level.OK), (500, Level.WARNING)])
def test_used_swap_is_a_warning(free: int, level: Level, pretend: Pretend) -> None:
    pretend({"proc/meminfo": f"MemTotal: 5 kB\nSwapCached: 0 kB\nSwapTotal: 1000 kB\nSwapFree: {free} kB\n"})
    assert levels(machine.swap()) == [level]


# GPUs


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Return a function that makes a program in the only folder of ``PATH``."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))

    def make(name: str, script: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(stat.S_IRWXU)

    return make


V100 = HostGpu("GPU-1", "V100", "550.1", 16000.0, temperature_c=40.0)


def test_a_machine_without_gpus_is_ok(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "host_gpus", list)
    assert levels(machine.gpus()) == [Level.OK]


def test_a_gpu_in_compute_mode_prohibited_is_a_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "host_gpus", lambda: [V100, replace(V100, compute_mode="prohibited")])
    fine, prohibited, mps = machine.gpus()
    assert mps == machine.mps()
    assert (fine.level, fine.found) == (Level.OK, "V100, driver 550.1, compute mode default, 40 °C")
    assert (prohibited.level, prohibited.advice) == (Level.WARNING, "permit programs on it: nvidia-smi -c DEFAULT")


@pytest.mark.parametrize(
    ("error", "level", "found"),
    [
        (OSError("Driver Not Loaded"), Level.WARNING, "NVML fails: Driver Not Loaded"),
        (ModuleNotFoundError("pynvml"), Level.OK, 'not checked: nvidia-ml-py of the extra "replay" is not installed'),
    ],
)
def test_a_failing_driver_is_a_warning_and_a_missing_library_is_ok(
    error: Exception, level: Level, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[HostGpu]:
        raise error

    monkeypatch.setattr(machine, "host_gpus", fail)
    (finding,) = machine.gpus()
    assert (finding.level, finding.found) == (level, found)


def test_mps_is_a_warning_unless_it_is_installed(
    program: Callable[[str, str], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_MPS_PIPE_DIRECTORY", str(tmp_path))
    assert machine.mps().level is Level.WARNING
    program("nvidia-cuda-mps-control", "")
    assert machine.mps().found.startswith("installed")
    (tmp_path / "control").touch()
    assert machine.mps().found == "its daemon runs"
