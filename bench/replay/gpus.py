"""GPUs of this host, read through NVIDIA's management library (NVML) without a change of any setting.

``pynvml`` belongs to the extra "replay": functions import it, so that a replay on CPU cores works without it.
"""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from math import nan
from typing import Any, Self

from instances import InputError

UNSIGNED_FIELDS = {1: "uiVal", 2: "ulVal", 3: "ullVal"}
"""Member of a field's value by its type: ``NVML_VALUE_TYPE_UNSIGNED_INT`` and the two longer unsigned types."""


@contextmanager
def _nvml() -> Iterator[Any]:
    """Yield the initialised library; turn its errors into ``OSError``."""
    import pynvml

    try:
        pynvml.nvmlInit()
        try:
            yield pynvml
        finally:
            pynvml.nvmlShutdown()
    except pynvml.NVMLError_LibraryNotFound as error:
        raise FileNotFoundError(str(error)) from None
    except pynvml.NVMLError as error:
        raise OSError(str(error)) from None


@dataclass(frozen=True, slots=True)
class HostGpu:
    """A GPU of this host.

    Attributes
    ----------
    product, driver
        Name of the product, and version of the driver.
    mig
        Whether the GPU is in MIG mode.
    compute_mode
        ``default``, ``prohibited`` or ``exclusive``; programs cannot use a GPU in the mode ``prohibited``.
    temperature_c
        Temperature, or ``nan`` if unknown.
    """

    uuid: str
    product: str
    driver: str
    free_mib: float
    mig: bool = False
    compute_mode: str = "default"
    temperature_c: float = nan


def host_gpus() -> list[HostGpu]:
    """Return the GPUs of this host; an empty list if it has no driver.

    Raises
    ------
    OSError
        If the driver fails.
    ModuleNotFoundError
        If ``pynvml`` is not installed.
    """
    try:
        with _nvml() as nvml:
            driver = nvml.nvmlSystemGetDriverVersion()
            handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]
            return [_host_gpu(nvml, handle, driver) for handle in handles]
    except FileNotFoundError:
        return []


def _host_gpu(nvml: Any, handle: Any, driver: str) -> HostGpu:
    modes = {nvml.NVML_COMPUTEMODE_DEFAULT: "default", nvml.NVML_COMPUTEMODE_PROHIBITED: "prohibited"}
    mig, mode, temperature_c = False, "default", nan
    with suppress(nvml.NVMLError):
        mig = nvml.nvmlDeviceGetMigMode(handle)[0] == nvml.NVML_DEVICE_MIG_ENABLE
    with suppress(nvml.NVMLError):
        mode = modes.get(nvml.nvmlDeviceGetComputeMode(handle), "exclusive")
    with suppress(nvml.NVMLError):
        temperature_c = float(nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU))
    free_mib = nvml.nvmlDeviceGetMemoryInfo(handle).free / 2**20
    uuid, product = nvml.nvmlDeviceGetUUID(handle), nvml.nvmlDeviceGetName(handle)
    return HostGpu(uuid, product, driver, free_mib, mig, mode, temperature_c)


def required_gpus(where: str, remedy: str) -> list[HostGpu]:
    """Return the GPUs of this host.

    Raises
    ------
    InputError
        If the host has no GPU; ``where`` and ``remedy`` are parts of the message.
    """
    try:
        gpus, reason = host_gpus(), "NVML lists none"
    except OSError as error:
        gpus, reason = [], f"NVML: {error}"
    if not gpus:
        raise InputError(where, f"finds no NVIDIA GPU ({reason}); {remedy}")
    return gpus


@dataclass(frozen=True, slots=True)
class GpuState:
    """State of a GPU at one moment; ``nan`` marks an unknown figure.

    Attributes
    ----------
    at_s
        Time on the monotonic clock, which all processes of a host share.
    frequency_mhz
        Clock of the multiprocessors.
    utilisation_pct
        Part of NVML's last sampling period in which a kernel ran.
    """

    at_s: float
    power_w: float
    frequency_mhz: float
    utilisation_pct: float


class GpuSensor:
    """Sensors of the GPU at ``index``, open until ``close``.

    Raises
    ------
    OSError
        If there is no driver or no such GPU.
    ModuleNotFoundError
        If ``pynvml`` is not installed.
    """

    def __init__(self, index: int) -> None:
        with ExitStack() as library:
            self._nvml = library.enter_context(_nvml())
            self._gpu = self._nvml.nvmlDeviceGetHandleByIndex(index)
            self._library = library.pop_all()

    @classmethod
    def open(cls, index: int) -> Self | None:
        """Return the sensors of the GPU at ``index``, or ``None`` if there is no ``pynvml``, driver or such GPU."""
        try:
            return cls(index)
        except (OSError, ModuleNotFoundError):
            return None

    def close(self) -> None:
        """Release the library."""
        self._library.close()

    def free_mib(self) -> float:
        """Return the free device memory, or ``nan`` if it is unknown."""
        return self._value_or_nan(lambda: self._nvml.nvmlDeviceGetMemoryInfo(self._gpu).free / 2**20)

    def power_limit_w(self) -> float:
        """Return the power limit that the GPU enforces by lowering its clock."""
        return self._value_or_nan(lambda: self._nvml.nvmlDeviceGetEnforcedPowerLimit(self._gpu) / 1000.0)

    def state(self) -> GpuState:
        """Return the current state of the GPU."""
        nvml, gpu = self._nvml, self._gpu
        return GpuState(
            time.monotonic(),
            self._power_w(),
            self._value_or_nan(lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM)),
            self._value_or_nan(lambda: nvml.nvmlDeviceGetUtilizationRates(gpu).gpu),
        )

    def _power_w(self) -> float:
        """Return the power at this moment, or the plain reading, which recent GPUs average over a second."""
        with suppress(self._nvml.NVMLError):
            (field,) = self._nvml.nvmlDeviceGetFieldValues(self._gpu, [self._nvml.NVML_FI_DEV_POWER_INSTANT])
            if field.nvmlReturn == self._nvml.NVML_SUCCESS and field.valueType in UNSIGNED_FIELDS:
                return float(getattr(field.value, UNSIGNED_FIELDS[field.valueType])) / 1000.0
        return self._value_or_nan(lambda: self._nvml.nvmlDeviceGetPowerUsage(self._gpu) / 1000.0)

    def _value_or_nan(self, read: Callable[[], float]) -> float:
        try:
            return float(read())
        except self._nvml.NVMLError:
            return nan


class Sampler:
    """Periodic sampler of a GPU's state; its own thread takes samples while the context is entered.

    Attributes
    ----------
    states
        The samples, in the order of time.
    """

    def __init__(self, sensor: GpuSensor, period_s: float = 0.02) -> None:
        self.states: list[GpuState] = []
        self._sensor, self._period_s = sensor, period_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="nvml", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def between(self, begin_s: float, end_s: float) -> list[GpuState]:
        """Return the samples taken from ``begin_s`` to ``end_s`` on the monotonic clock."""
        return [state for state in self.states if begin_s <= state.at_s <= end_s]

    def _sample(self) -> None:
        while not self._stop.is_set():
            self.states.append(self._sensor.state())
            self._stop.wait(self._period_s)
