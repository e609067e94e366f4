"""Read-only view of a GPU through NVIDIA's management library; it changes no setting.

Functions and constants are those of the NVML reference. ``Nvml.open`` returns ``None`` on a host without the library.
"""

import ctypes
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import nan
from typing import Any, Self

LIBRARY = "libnvidia-ml.so.1"

SM_CLOCK = 1
"""``NVML_CLOCK_SM``."""

INSTANT_POWER_FIELD = 186
"""``NVML_FI_DEV_POWER_INSTANT`` in mW; the plain reading is a mean over a second on recent GPUs."""

UNSIGNED_INT_VALUE, UNSIGNED_LONG_VALUES = 1, (2, 3)
"""Types of a field's value."""

NAME_LENGTH = 96
"""``NVML_DEVICE_NAME_V2_BUFFER_SIZE``."""


class _Memory(ctypes.Structure):
    _fields_ = (("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong))


class _Utilisation(ctypes.Structure):
    _fields_ = (("gpu", ctypes.c_uint), ("memory", ctypes.c_uint))


class _Value(ctypes.Union):
    _fields_ = (("double", ctypes.c_double), ("uint", ctypes.c_uint), ("ulonglong", ctypes.c_ulonglong))


class _Field(ctypes.Structure):
    _fields_ = (
        ("id", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("status", ctypes.c_uint),
        ("value", _Value),
    )


@dataclass(frozen=True, slots=True)
class GpuState:
    """State of a GPU at one moment; ``nan`` marks an unknown figure.

    Attributes
    ----------
    at_s
        Time on the monotonic clock, which all processes of a host share.
    power_w, frequency_mhz
        Power draw, and clock of the multiprocessors.
    utilisation_pct
        Part of the last sampling period in which a kernel ran.
    """

    at_s: float
    power_w: float
    frequency_mhz: float
    utilisation_pct: float


class Nvml:
    """A GPU, queried through the library.

    Parameters
    ----------
    library
        Library with NVML's functions.
    index
        Index of the GPU.

    Raises
    ------
    OSError
        If the library cannot be initialised or has no such GPU.
    """

    def __init__(self, library: Any, index: int = 0) -> None:
        self._library = library
        self._check(library.nvmlInit_v2(), "nvmlInit_v2")
        self._device = ctypes.c_void_p()
        try:
            found = library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(self._device))
            self._check(found, f"nvmlDeviceGetHandleByIndex_v2({index})")
        except OSError:
            library.nvmlShutdown()
            raise

    @classmethod
    def open(cls, index: int = 0, load: Callable[[str], Any] = ctypes.CDLL) -> Self | None:
        """Return the GPU at ``index``, or ``None`` if there is no library, driver or such GPU."""
        try:
            return cls(load(LIBRARY), index)
        except OSError:
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the library."""
        self._library.nvmlShutdown()

    def name(self) -> str:
        """Return the name of the product."""
        text = ctypes.create_string_buffer(NAME_LENGTH)
        self._check(
            self._library.nvmlDeviceGetName(self._device, text, ctypes.c_uint(NAME_LENGTH)), "nvmlDeviceGetName"
        )
        return text.value.decode()

    def memory_mib(self) -> tuple[float, float]:
        """Return free and total device memory."""
        memory = _Memory()
        asked = self._library.nvmlDeviceGetMemoryInfo(self._device, ctypes.byref(memory))
        self._check(asked, "nvmlDeviceGetMemoryInfo")
        return memory.free / 2**20, memory.total / 2**20

    def power_limit_w(self) -> float:
        """Return the power limit that the GPU enforces by lowering its clock."""
        return self._number("nvmlDeviceGetEnforcedPowerLimit") / 1000.0

    def state(self) -> GpuState:
        """Return the current state of the GPU."""
        used = _Utilisation()
        busy = self._library.nvmlDeviceGetUtilizationRates(self._device, ctypes.byref(used)) == 0
        return GpuState(
            time.monotonic(),
            self._power_w(),
            self._number("nvmlDeviceGetClockInfo", ctypes.c_uint(SM_CLOCK)),
            float(used.gpu) if busy else nan,
        )

    def _power_w(self) -> float:
        field = _Field(id=INSTANT_POWER_FIELD)
        asked = self._library.nvmlDeviceGetFieldValues(self._device, ctypes.c_int(1), ctypes.byref(field))
        if asked == 0 and field.status == 0:
            if field.kind == UNSIGNED_INT_VALUE:
                return float(field.value.uint) / 1000.0
            if field.kind in UNSIGNED_LONG_VALUES:
                return float(field.value.ulonglong) / 1000.0
        return self._number("nvmlDeviceGetPowerUsage") / 1000.0

    def _number(self, function: str, *arguments: Any) -> float:
        """Return the unsigned integer that a function writes into its last argument, or ``nan`` if it fails."""
        value = ctypes.c_uint()
        asked = getattr(self._library, function)(self._device, *arguments, ctypes.byref(value))
        return float(value.value) if asked == 0 else nan

    @staticmethod
    def _check(code: int, function: str) -> None:
        if code != 0:
            raise OSError(f"{function} of {LIBRARY} failed with code {code}")


class Sampler:
    """Periodic sampler of a GPU's state, in its own thread, from entering to leaving the context.

    Parameters
    ----------
    nvml
        The GPU.
    period_s
        Time between two samples.

    Attributes
    ----------
    states
        The samples, in the order of time.
    """

    def __init__(self, nvml: Nvml, period_s: float = 0.02) -> None:
        self.states: list[GpuState] = []
        self._nvml, self._period_s = nvml, period_s
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
            self.states.append(self._nvml.state())
            self._stop.wait(self._period_s)
