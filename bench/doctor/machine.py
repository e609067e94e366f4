"""Checks of the machine by ``bench doctor``: conditions that slow runs or disturb their times, and GPUs."""

import os
import shutil
from pathlib import Path

from bench.command_text import option
from bench.doctor import Finding, Level, rated
from bench.provenance import memory_mib, usable_cores
from bench.replay.gpus import host_gpus
from bench.replay.mps import CONTROL

SYSTEM = Path("/sys")
PROCESSES = Path("/proc")

SWAP_FRACTION = 0.05
"""If more than this fraction of the swap space is in use, memory was short."""


def control_groups() -> list[Finding]:
    """Check the limits that a container or service manager sets for this process."""
    findings = []
    quota = cpu_quota()
    cores = usable_cores()
    if quota is not None and quota < cores:
        jobs = max(1, int(quota))
        observation = f"a quota of {quota:.1f} cores, although {cores} are visible"
        findings.append(
            Finding("control group", Level.WARNING, observation, f"use {option('jobs', jobs)}, or raise the quota")
        )
    if throttled := _throttled():
        advice = "raise the CPU quota before you measure times"
        findings.append(Finding("control group", Level.WARNING, f"throttled {throttled} times so far", advice))
    limit_mib = memory_limit_mib()
    if limit_mib is not None:
        observation = f"memory limited to {limit_mib / 1024:.1f} GB"
        findings.append(
            Finding(
                "control group", Level.OK, observation, f"keep {option('jobs')} times {option('memory_limit')} below it"
            )
        )
    return findings or [Finding("control group", Level.OK, "no limits")]


def cpu_quota() -> float | None:
    """Return the CPU quota of the control group in cores, or ``None`` without a quota."""
    for text in _group_file_texts("cpu.max"):  # version 2
        quota, _, period = text.partition(" ")
        if quota != "max" and period:
            return float(quota) / float(period)
    quotas, periods = _group_file_texts("cpu.cfs_quota_us"), _group_file_texts("cpu.cfs_period_us")  # version 1
    for quota, period in zip(quotas, periods, strict=False):
        if float(quota) > 0.0:
            return float(quota) / float(period)
    return None


def memory_limit_mib() -> float | None:
    """Return the memory limit of the control group in MiB, or ``None`` if it is not below the machine's memory."""
    texts = [*_group_file_texts("memory.max"), *_group_file_texts("memory.limit_in_bytes")]
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limits = [limit for text in texts if text != "max" and 0 < (limit := int(text)) < total]
    return min(limits) / 2**20 if limits else None


def _throttled() -> int:
    lines = [line.split() for text in _group_file_texts("cpu.stat") for line in text.splitlines()]
    return sum(int(line[1]) for line in lines if line[:1] == ["nr_throttled"])


def _group_file_texts(name: str) -> list[str]:
    """Return the contents of the files called ``name`` in the control groups of this process, of either version."""
    texts = []
    for line in _text(PROCESSES / "self/cgroup").splitlines():
        _, controllers, path = line.split(":", 2)
        mount = SYSTEM / "fs/cgroup" / controllers.removeprefix("name=")
        for group in (mount / path.lstrip("/"), mount):  # inside a container the group is the mount itself
            if text := _text(group / name):
                texts.append(text)
                break
    return texts


def frequency() -> list[Finding]:
    """Check that the cores can run at full speed."""
    cpus = SYSTEM / "devices/system/cpu"
    powersave = any(_text(file) == "powersave" for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor"))
    heat_throttles = sum(
        int(_text(file) or 0) for file in cpus.glob("cpu[0-9]*/thermal_throttle/package_throttle_count")
    )
    findings = []
    if powersave:
        advice = "cpupower frequency-set -g performance, if you compare times"
        findings.append(Finding("frequency", Level.WARNING, "the governor is powersave", advice))
    if heat_throttles:
        advice = f"improve the cooling, or use fewer {option('jobs')}"
        findings.append(
            Finding("frequency", Level.WARNING, f"throttled {heat_throttles} times by heat since the boot", advice)
        )
    if not findings and any(cpus.glob("cpu[0-9]*/cpufreq")):
        findings.append(Finding("frequency", Level.OK, "not throttled"))
    return findings


def swap() -> list[Finding]:
    """Check the use of swap space, which shows that memory was short."""
    memory = memory_mib()
    total_mib = memory.get("SwapTotal", 0.0)
    if total_mib == 0.0:
        return []
    used_mib = total_mib - memory.get("SwapFree", total_mib)
    observation = f"{used_mib / 1024.0:.1f} of {total_mib / 1024.0:.1f} GB in use"
    return [
        rated(
            "swap",
            observation,
            used_mib <= SWAP_FRACTION * total_mib,
            "stop other programs; runs with swapped memory are slow",
        )
    ]


def gpus() -> list[Finding]:
    """Check the GPUs and MPS; only replays and profiling need them."""
    try:
        gpus_of_host = host_gpus()
    except ModuleNotFoundError:
        return [Finding("GPU", Level.OK, 'not checked: nvidia-ml-py of the extra "replay" is not installed')]
    except OSError as error:
        return [Finding("GPU", Level.WARNING, f"NVML fails: {error}", "check the driver: nvidia-smi")]
    if not gpus_of_host:
        return [Finding("GPU", Level.OK, "none; only `bench replay` and `bench profile run` need one")]
    findings = []
    for gpu in gpus_of_host:
        observation = f"{gpu.product}, driver {gpu.driver}, compute mode {gpu.compute_mode}, {gpu.temperature_c:.0f} °C"
        permitted = gpu.compute_mode != "prohibited"
        findings.append(rated("GPU", observation, permitted, "permit programs on it: nvidia-smi -c DEFAULT"))
    return [*findings, mps()]


def mps() -> Finding:
    """Check MPS, the service that lets processes share a GPU."""
    if shutil.which(CONTROL) is None:
        advice = f"install NVIDIA's MPS, or replay with {option('backend', 'stream')}"
        return Finding("MPS", Level.WARNING, "is not installed", advice)
    pipes = os.environ.get("CUDA_MPS_PIPE_DIRECTORY", "/tmp/nvidia-mps")  # noqa: S108 - default folder of the daemon
    running = Path(pipes, "control").exists()
    return Finding("MPS", Level.OK, "its daemon runs" if running else "installed; `bench replay` starts its daemon")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return ""
