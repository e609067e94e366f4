"""Compilation of kernels, and the files that keep their compiled code.

Numba keeps compiled code until the file of the function changes; it does not notice a change in another file, such as
the file of a called kernel. This module therefore keeps compiled code under the fingerprint of its kernel. After an
edit, the kernels that the edit concerns are compiled again; if the edit is undone, the earlier code is used again. The
files are where Numba would put them: in ``__pycache__``, in ``NUMBA_CACHE_DIR``, or in the user's cache folder if the
package's folder is read-only.
"""

import os
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cache, cached_property
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from numba import njit, types
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaWarning

from instances.kernel_fingerprint import UnseenChangeError, fingerprint

Function = TypeVar("Function", bound=Callable[..., Any])

UNUSED_S = 30 * 86400.0
"""Time after which the files of a fingerprint that no process has used are removed."""

_USE_RECORD_S = 86400.0
"""Least time between two records of the use of a file; a record is a write."""

_FINGERPRINT_DIGITS = 16
_FILE_NAME = re.compile(rf"(.+-[0-9a-f]{{{_FINGERPRINT_DIGITS}}}\.kernel)\.(nbi|[0-9a-f]+\.nbc)(\.tmp\.[0-9a-f]+)?")
"""Pattern of the files that this module writes, unfinished ones included; group 1 identifies the fingerprint."""


class _KernelFiles(IndexDataCacheFile):
    """Files of one fingerprint: an index of signatures, and a file of compiled code for each."""

    def load(self, key: Any) -> Any:
        """Load the compiled code of a signature, if there is any, and record the use."""
        with suppress(OSError):  # there is no file, or it belongs to another user
            if time.time() - Path(self._index_path).stat().st_mtime > _USE_RECORD_S:
                os.utime(self._index_path)
        return super().load(key)

    def save(self, key: Any, data: Any) -> None:
        """Save the compiled code of a signature, and remove code that no process has used for long."""
        with suppress(FileNotFoundError):  # another process has removed the folder; a later one saves the code
            super().save(key, data)
        remove_unused(self._cache_path)

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (AttributeError, ImportError):  # since it was saved, the type of an argument has been removed
            return {}

    def _data_name(self, number: int) -> str:
        # Two processes that compile different signatures at the same time would choose the same number.
        return self._data_name_pattern.format(number=0).replace(".0.nbc", f".{uuid4().hex}.nbc")


class KernelCache(FunctionCache):
    """Compiled code of one kernel; its files are searched when the kernel is first called."""

    def __init__(self, kernel: Dispatcher) -> None:
        self._kernel = kernel
        self.enable()

    @cached_property
    def _can_be_kept(self) -> bool:
        """Whether compiled code of the kernel can be kept; sets the other attributes."""
        try:
            kernel_fingerprint = fingerprint(self._kernel)
            super().__init__(self._kernel.py_func)  # a RuntimeError if no folder can be written
        except (UnseenChangeError, RuntimeError) as error:
            warnings.warn(f"compiled code is not kept: {error}", NumbaWarning, stacklevel=2)
            return False
        name = self._impl.filename_base.rpartition("-")[0]  # without the line number
        self._cache_file = _KernelFiles(
            self._cache_path, f"{name}-{kernel_fingerprint[:_FINGERPRINT_DIGITS]}.kernel", kernel_fingerprint
        )
        return True

    @property
    def cache_path(self) -> str | None:
        """Folder of the files."""
        return self._cache_path if self._can_be_kept else None

    @property
    def is_kept(self) -> bool:
        """Whether an earlier call, maybe in another process, has kept compiled code of the kernel as it is now."""
        return self._can_be_kept and Path(self._cache_file._index_path).is_file()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the compiled code of a signature, or return ``None``."""
        return super().load_overload(sig, target_context) if self._can_be_kept else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled code of a signature."""
        if self._can_be_kept:
            super().save_overload(sig, data)

    def flush(self) -> None:
        """Forget the compiled code of all signatures."""
        if self._can_be_kept:
            super().flush()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # To Numba, the type of a named tuple is the same after two of its fields are exchanged.
        return (*super()._index_key(sig, codegen), _fields(sig))


def _fields(signature: Any) -> tuple[tuple[str, ...], ...]:
    """Return the names of the fields of all named tuples in types of arguments, nested ones included."""
    if isinstance(signature, types.Type):
        return _fields_of_type(signature)
    return sum(map(_fields, signature), ()) if isinstance(signature, tuple) else ()


@cache
def _fields_of_type(numba_type: Any) -> tuple[tuple[str, ...], ...]:
    field_names = (tuple(numba_type.fields),) if isinstance(numba_type, types.NamedTuple | types.NamedUniTuple) else ()
    return field_names + _fields(tuple(vars(numba_type).values()))


@cache
def remove_unused(folder: str) -> None:
    """Remove the compiled code in ``folder`` that no process has used for ``UNUSED_S``, once per process.

    Other processes may remove files at the same time. A process that does not find a file compiles the kernel again.
    """
    files: dict[str, list[Path]] = defaultdict(list)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            match = _FILE_NAME.fullmatch(entry.name)
            if match is not None and entry.is_file(follow_symlinks=False):
                files[match[1]].append(Path(entry.path))
    for paths in files.values():
        with suppress(OSError):  # another process has removed one of them
            if time.time() - max(path.stat().st_mtime for path in paths) > UNUSED_S:
                for path in paths:
                    path.unlink(missing_ok=True)


def is_compiled(kernel: Any) -> bool:
    """Return whether compiled code of a kernel is on disk, or none is needed (``NUMBA_DISABLE_JIT``)."""
    kernel_cache = getattr(kernel, "_cache", None)
    return not isinstance(kernel_cache, KernelCache) or kernel_cache.is_kept


def compiled_with(**options: Any) -> Callable[[Function], "Dispatcher[Function]"]:
    """Return a decorator that compiles kernels with options of ``numba.njit`` and keeps their compiled code."""

    def decorate(function: Function) -> "Dispatcher[Function]":
        dispatcher: Any = njit(**options)(function)
        if dispatcher is not function:  # under NUMBA_DISABLE_JIT, njit returns the function
            dispatcher._cache = KernelCache(dispatcher)
        return dispatcher

    return decorate


compiled = compiled_with()

# Numba counts references to every array that a function touches, which in small loops takes several times as long as
# the loop itself. Functions that only read and write their callers' arrays do not need the counts.
kernel: Any = compiled_with(_nrt=False)
inlined: Any = compiled_with(_nrt=False, inline="always")
