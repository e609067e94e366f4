"""Green contexts, which divide the multiprocessors of a GPU; no two contexts of a process share a multiprocessor.

``torch.cuda.green_contexts`` splits the whole device anew for each context, so two contexts may get the same
multiprocessors. This module calls the driver directly and splits only the multiprocessors that are still free.
"""

import ctypes
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

CUDA_DRIVER = "libcuda.so.1"
"""Library with the functions of CUDA's driver."""

MULTIPROCESSORS = 1
"""``CU_DEV_RESOURCE_TYPE_SM``."""

IN_PAIRS = 1
"""``CU_DEV_SM_RESOURCE_SPLIT_IGNORE_SM_COSCHEDULING``: parts of two multiprocessors, which cannot run clusters."""

TOGETHER = 0
"""Flag of the default division: multiprocessors of a part can run the blocks of a cluster together."""

MAJOR = 75
"""``CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR``."""

CLUSTERS_SINCE, CLUSTER_STEP = 9, 8
"""First compute capability with clusters of thread blocks (Hopper), and smallest part of such a GPU in multiprocessors.

Kernels with clusters fail in smaller parts: cuDNN's kernels failed on an H100, in CUDA graphs.
"""

WITH_DEFAULT_STREAM = 1
"""``CU_GREEN_CTX_DEFAULT_STREAM``."""

NON_BLOCKING = 1
"""``CU_STREAM_NON_BLOCKING``."""

_RESOURCE_BYTES = 512
"""Buffer size for a ``CUdevResource``; more than the size in any version of the driver."""

_COUNT_AT = 96
"""Byte offset of the number of multiprocessors in a ``CUdevResource``."""


Resource = ctypes.c_byte * _RESOURCE_BYTES
"""Type of a ``CUdevResource``: some multiprocessors."""

_Resource = ctypes.Array[ctypes.c_byte]
"""``Resource`` in type annotations."""


def _count(resource: _Resource) -> int:
    """Return the number of multiprocessors in a resource."""
    return ctypes.c_uint.from_buffer(resource, _COUNT_AT).value


class Multiprocessors:
    """Multiprocessors that no context uses yet, of the first GPU that this process sees.

    Parameters
    ----------
    driver
        Library with the functions of CUDA's driver; the device must be in use already.

    Raises
    ------
    OSError
        If a function of the driver fails.
    """

    def __init__(self, driver: Any) -> None:
        self._driver = driver
        self._lock = threading.Lock()
        self._device = ctypes.c_int()
        self._call("cuDeviceGet", ctypes.byref(self._device), ctypes.c_int(0))
        self._free = Resource()
        major = ctypes.c_int()
        self._call("cuDeviceGetAttribute", ctypes.byref(major), ctypes.c_int(MAJOR), self._device)
        clusters = major.value >= CLUSTERS_SINCE
        self._step, self._flags = (CLUSTER_STEP, TOGETHER) if clusters else (2, IN_PAIRS)
        self._call("cuDeviceGetDevResource", self._device, self._free, ctypes.c_int(MULTIPROCESSORS))
        self._total = _count(self._free)
        self._returned: dict[int, list[int]] = {}  # handles of unused streams, by number of multiprocessors

    @contextmanager
    def stream(self, share_pct: float) -> Iterator[int]:
        """Yield the handle of a stream with its own share of the multiprocessors, which no other stream uses.

        The share is rounded down to whole steps, with a minimum of one step: two multiprocessors, or eight on GPUs with
        clusters of thread blocks. Shares of at least one step that sum to 100 percent always fit. Streams are reused
        and never destroyed: freeing pinned memory queries the stream that used the memory.

        Raises
        ------
        OSError
            If too few multiprocessors are left.
        """
        step = self._step
        count = max(step, int(self._total * share_pct / 100.0 + 1e-9) // step * step)
        with self._lock:
            returned = self._returned.setdefault(count, [])
            handle = returned.pop() if returned else self._stream(self._split_off(count))
        try:
            yield handle
        finally:
            with self._lock:
                returned.append(handle)

    def _split_off(self, count: int) -> _Resource:
        """Split ``count`` multiprocessors off the free multiprocessors."""
        if count > _count(self._free) - self._step:  # the remainder would be smaller than a step
            if count > _count(self._free):
                raise OSError(f"{count} multiprocessors are needed, {_count(self._free)} of {self._total} are left")
            part, self._free = self._free, Resource()
            return part
        part, remainder, groups = Resource(), Resource(), ctypes.c_uint(1)
        self._call(
            "cuDevSmResourceSplitByCount",
            part,
            ctypes.byref(groups),
            self._free,
            remainder,
            ctypes.c_uint(self._flags),
            ctypes.c_uint(count),
        )
        # The driver can split a remainder again only as the resource of a context.
        self._call("cuGreenCtxGetDevResource", self._context(remainder), remainder, ctypes.c_int(MULTIPROCESSORS))
        self._free = remainder
        return part

    def _stream(self, part: _Resource) -> int:
        stream, flags = ctypes.c_void_p(), ctypes.c_uint(NON_BLOCKING)
        self._call("cuGreenCtxStreamCreate", ctypes.byref(stream), self._context(part), flags, ctypes.c_int(0))
        return int(stream.value or 0)

    def _context(self, part: _Resource) -> ctypes.c_void_p:
        description, context = ctypes.c_void_p(), ctypes.c_void_p()
        self._call("cuDevResourceGenerateDesc", ctypes.byref(description), part, ctypes.c_uint(1))
        flags = ctypes.c_uint(WITH_DEFAULT_STREAM)
        self._call("cuGreenCtxCreate", ctypes.byref(context), description, self._device, flags)
        return context

    def _call(self, function: str, *arguments: Any) -> None:
        code = getattr(self._driver, function)(*arguments)
        if code != 0:
            raise OSError(f"{function} of {CUDA_DRIVER} failed with code {code}")


def has_green_contexts() -> bool:
    """Return whether the driver has green contexts with streams (version 555 or later)."""
    try:
        return hasattr(ctypes.CDLL(CUDA_DRIVER), "cuGreenCtxStreamCreate")
    except OSError:
        return False


@cache
def multiprocessors() -> Multiprocessors:
    """Return the multiprocessors of the first GPU that this process sees; every call returns the same object.

    Raises
    ------
    OSError
        If there is no driver or the driver has no green contexts.
    """
    try:
        return Multiprocessors(ctypes.CDLL(CUDA_DRIVER))
    except AttributeError as error:
        raise OSError(f"{CUDA_DRIVER} has no green contexts: {error}") from None
