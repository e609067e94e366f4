"""Fake of ``pynvml`` with one GPU per line of ``$FAKE/gpus``, and without functions that change settings."""

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

NVML_SUCCESS, NVML_DEVICE_MIG_ENABLE, NVML_CLOCK_SM, NVML_TEMPERATURE_GPU = 0, 1, 1, 0
NVML_COMPUTEMODE_DEFAULT, NVML_COMPUTEMODE_PROHIBITED, NVML_FI_DEV_POWER_INSTANT = 0, 2, 186

broken: set[str] = set()
"""Names of functions that fail, as on a GPU that does not support them."""

opened = 0


class NVMLError(Exception): ...


class NVMLError_LibraryNotFound(NVMLError): ...  # noqa: N801, N818


def _lines() -> list[list[str]]:
    return [line.split(", ") for line in Path(os.environ["FAKE"], "gpus").read_text().splitlines()]


def nvmlInit() -> None:  # noqa: N802
    global opened
    if not Path(os.environ["FAKE"], "gpus").exists():
        raise NVMLError_LibraryNotFound("NVML Shared Library Not Found")
    if "nvmlInit" in broken:
        raise NVMLError("Driver Not Loaded")
    opened += 1


def nvmlShutdown() -> None:  # noqa: N802
    global opened
    opened -= 1


def nvmlDeviceGetHandleByIndex(index: int) -> int:  # noqa: N802
    if index >= len(_lines()):
        raise NVMLError("Invalid Argument")
    return index


def _reading(name: str, answer: Any) -> Any:
    def function(gpu: int, *arguments: object) -> Any:
        assert opened > 0
        if name in broken:
            raise NVMLError("Not Supported")
        return answer(_lines()[gpu])

    return function


READINGS = {
    "UUID": lambda line: line[0],
    "Name": lambda line: line[1],
    "MemoryInfo": lambda line: SimpleNamespace(free=int(float(line[2]) * 2**20)),
    "MigMode": lambda line: [int(line[3] == "Enabled"), 0],
    "ComputeMode": lambda line: {"Default": 0, "Prohibited": 2}.get(line[4], 3) if len(line) > 4 else 0,
    "Temperature": lambda line: 40,
    "EnforcedPowerLimit": lambda line: 700_000,
    "ClockInfo": lambda line: 1755,
    "UtilizationRates": lambda line: SimpleNamespace(gpu=42, memory=7),
    "PowerUsage": lambda line: 240_000,
    "FieldValues": lambda line: [SimpleNamespace(nvmlReturn=0, valueType=1, value=SimpleNamespace(uiVal=250_500))],
}
for _name, _answer in READINGS.items():
    globals()[f"nvmlDeviceGet{_name}"] = _reading(f"nvmlDeviceGet{_name}", _answer)


def nvmlSystemGetDriverVersion() -> str:  # noqa: N802
    return "550.1"


def nvmlDeviceGetCount() -> int:  # noqa: N802
    return len(_lines())
