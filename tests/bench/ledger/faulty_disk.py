"""Faulty disk for SQLite: I/O errors, short writes, a full disk or locks at a chosen call.

SQLite reaches files through a table of functions (its VFS). This module replaces some functions of the default table in
this process by ones that fail on demand and otherwise call the original ones.
"""

import _sqlite3
import ctypes
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

IO_ERROR, FULL, BUSY, KILL = 10, 13, 5, -9
"""Result codes SQLITE_IOERR, SQLITE_FULL and SQLITE_BUSY; ``KILL`` instead kills this process at the call."""

_OK = 0
_UNLOCK = 1
"""Flag SQLITE_SHM_UNLOCK; calls with this flag never fail."""

Pointer = ctypes.c_void_p


class _Vfs(ctypes.Structure):
    """First fields of the C structure ``sqlite3_vfs``."""

    _fields_ = (
        ("iVersion", ctypes.c_int),
        ("szOsFile", ctypes.c_int),
        ("mxPathname", ctypes.c_int),
        ("pNext", Pointer),
        ("zName", ctypes.c_char_p),
        ("pAppData", Pointer),
        ("xOpen", Pointer),
    )


_TRANSFER = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, Pointer, ctypes.c_int, ctypes.c_int64)
_FLAG = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, ctypes.c_int)
_SIZE = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, ctypes.c_int64)
_RANGE = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, ctypes.c_int, ctypes.c_int, ctypes.c_int)
_OPEN = ctypes.CFUNCTYPE(ctypes.c_int, Pointer, Pointer, Pointer, ctypes.c_int, Pointer)

_METHODS = {
    "xClose": None,
    "xRead": _TRANSFER,
    "xWrite": _TRANSFER,
    "xTruncate": _SIZE,
    "xSync": _FLAG,
    "xFileSize": None,
    "xLock": _FLAG,
    "xUnlock": None,
    "xCheckReservedLock": None,
    "xFileControl": None,
    "xSectorSize": None,
    "xDeviceCharacteristics": None,
    "xShmMap": None,
    "xShmLock": _RANGE,
    "xShmBarrier": None,
    "xShmUnmap": None,
    "xFetch": None,
    "xUnfetch": None,
}
"""Functions of ``sqlite3_io_methods`` in version 3, in order, with types for those that can fail here."""

_FAILING_CALLS = {
    IO_ERROR: frozenset({"xRead", "xWrite", "xTruncate", "xSync", "xLock"}),
    FULL: frozenset({"xWrite"}),
    BUSY: frozenset({"xLock", "xShmLock"}),
    KILL: frozenset({"xRead", "xWrite", "xTruncate", "xSync", "xLock", "xShmLock"}),
}
"""Functions that can fail with each code."""


class _Methods(ctypes.Structure):
    """C structure ``sqlite3_io_methods``."""

    _fields_ = (("iVersion", ctypes.c_int), *((name, Pointer) for name in _METHODS))


@dataclass
class Faults:
    """Plan of one fault, and the calls counted so far.

    Attributes
    ----------
    at
        Number of the call that fails, counted from 0 over all calls that can fail with ``code``; -1 for none.
    code
        Result of the failing call. A write that fails with ``IO_ERROR`` or ``KILL`` writes half of its bytes first.
    lasting
        Whether all later calls of the same function fail as well.
    beginning
        Beginning of the paths of the files that can fail.
    """

    at: int = -1
    code: int = IO_ERROR
    lasting: bool = False
    beginning: str = ""
    counted: int = 0
    failed: list[str] = field(default_factory=list)

    def strikes(self, call: str) -> bool:
        """Count a call and return whether it fails."""
        if call not in _FAILING_CALLS[self.code]:
            return False
        number, self.counted = self.counted, self.counted + 1
        fails = number == self.at or (self.lasting and bool(self.failed) and call == self.failed[0])
        if fails:
            self.failed.append(call)
        return fails


_CALLBACKS_IN_USE: list[Any] = []
"""Callbacks of ended ``with`` blocks. Connections that are still open call them, so they must not be collected."""


@contextmanager
def faulty_disk(faults: Faults) -> Iterator[Faults]:
    """Open every SQLite file inside the ``with`` block with the faults of ``faults``."""
    library = ctypes.CDLL(_sqlite3.__file__)
    library.sqlite3_vfs_find.restype = ctypes.POINTER(_Vfs)
    vfs = library.sqlite3_vfs_find(None).contents
    original = vfs.xOpen
    open_file = _OPEN(original)
    callbacks: list[Any] = []  # references, so that callbacks and tables are not collected

    def open_with_faults(this: int, name: int, file: int, flags: int, out: int) -> int:
        code = open_file(this, name, file, flags, out)
        slot = ctypes.cast(file, ctypes.POINTER(ctypes.POINTER(_Methods)))
        path = os.fsdecode(ctypes.string_at(name)) if name else ""
        if code == _OK and slot[0] and path.startswith(faults.beginning):
            methods = _Methods.from_buffer_copy(slot[0].contents)
            for call, kind in _METHODS.items():
                if kind is not None:
                    wrapped = kind(_wrapped(call, kind(getattr(methods, call)), faults))
                    callbacks.append(wrapped)
                    setattr(methods, call, ctypes.cast(wrapped, Pointer).value)
            callbacks.append(methods)
            slot[0] = ctypes.pointer(methods)
        return int(code)

    open_callback = _OPEN(open_with_faults)
    vfs.xOpen = ctypes.cast(open_callback, Pointer).value
    try:
        yield faults
    finally:
        vfs.xOpen = original
        _CALLBACKS_IN_USE.append((callbacks, open_callback))


def _wrapped(call: str, function: Callable[..., int], faults: Faults) -> Callable[..., int]:
    def method(file: int, *arguments: int) -> int:
        if call == "xShmLock" and arguments[2] & _UNLOCK:
            return function(file, *arguments)
        if not faults.strikes(call):
            return function(file, *arguments)
        if call == "xWrite" and faults.code in (IO_ERROR, KILL):
            data, count, offset = arguments
            function(file, data, count // 2, offset)
        if faults.code == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        return faults.code

    return method
