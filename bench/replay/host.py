"""Properties of the host of a replay: its GPUs, their free memory, its programs, and its own free memory."""

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

MPS_CONTROL = "nvidia-cuda-mps-control"

CUDA_DRIVER = "libcuda.so.1"

_MEMORY = Path("/proc/meminfo")
_FIELDS = ("uuid", "name", "memory.free", "mig.mode.current", "driver_version")
_PATIENCE_S = 30.0


@dataclass(frozen=True, slots=True)
class HostGpu:
    """A GPU of this host: UUID, product, free memory, whether it is in MIG mode, and driver version."""

    uuid: str
    product: str
    free_mib: float
    mig: bool
    driver: str


def host_gpus() -> list[HostGpu]:
    """Return the GPUs that the driver lists; none if there is no driver."""
    found = query(["nvidia-smi", f"--query-gpu={','.join(_FIELDS)}", "--format=csv,noheader,nounits"])
    gpus = []
    for line in (found or "").splitlines():
        uuid, product, free_mib, mig, driver = (field.strip() for field in line.split(","))
        gpus.append(HostGpu(uuid, product, float(free_mib), mig == "Enabled", driver))
    return gpus


def query(command: list[str]) -> str | None:
    """Return the output of a program, or ``None`` if the program does not exist or fails."""
    if shutil.which(command[0]) is None:
        return None
    try:
        done = subprocess.run(  # noqa: S603 - a program of the driver, found on the path
            command, capture_output=True, text=True, timeout=_PATIENCE_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def free_memory_mib() -> float | None:
    """Return the host's free memory, or ``None`` if the system does not report it."""
    try:
        lines = _MEMORY.read_text(encoding="ascii").splitlines()
        return next(float(line.split()[1]) / 1024.0 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):
        return None


def has_green_contexts() -> bool:
    """Return whether the driver has green contexts with streams (version 555 or later)."""
    try:
        return hasattr(ctypes.CDLL(CUDA_DRIVER), "cuGreenCtxStreamCreate")
    except OSError:
        return False
