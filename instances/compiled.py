"""Compilation of kernels, and the files that keep their compiled code.

Numba keeps compiled code until the file of its function changes; a change in another file, such as that of a called
kernel, goes unnoticed. The kernels of this project are therefore kept under their fingerprints: after an edit, those
that it concerns are compiled again, and what was compiled before the edit is found again when the edit is undone.
The files lie where Numba would put them: in ``__pycache__``, in ``NUMBA_CACHE_DIR``, or in the user's cache folder if
the package cannot be written.
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

_NOTED_S = 86400.0
"""Time within which a second use is not noted, because notes are writes."""

_DIGITS = 16
_OURS = re.compile(rf"(.+-[0-9a-f]{{{_DIGITS}}}\.kernel)\.(nbi|[0-9a-f]+\.nbc)(\.tmp\.[0-9a-f]+)?")
"""Names of files written here, also of unfinished ones; the group is the same for all files of a fingerprint."""


class _KernelFiles(IndexDataCacheFile):
    """Files of one fingerprint: an index of signatures, and a file of compiled code for each."""

    def load(self, key: Any) -> Any:
        """Load the compiled code of a signature, if there is any, and note the use."""
        with suppress(OSError):  # there is no file, or it belongs to another user
            if time.time() - Path(self._index_path).stat().st_mtime > _NOTED_S:
                os.utime(self._index_path)
        return super().load(key)

    def save(self, key: Any, data: Any) -> None:
        """Save the compiled code of a signature, and remove what nobody has used for long."""
        with suppress(FileNotFoundError):  # another process has removed the folder; a later one saves the code
            super().save(key, data)
        remove_unused(self._cache_path)

    def _load_index(self) -> Any:
        try:
            return super()._load_index()
        except (AttributeError, ImportError):  # since it was saved, the type of an argument has been removed
            return {}

    def _data_name(self, number: int) -> str:
        # Processes that compile two signatures at the same time must not choose the same file, as they do with numbers.
        return self._data_name_pattern.format(number=0).replace(".0.nbc", f".{uuid4().hex}.nbc")


class KernelCache(FunctionCache):
    """Compiled code of one kernel. Files are looked for when the kernel is first called."""

    def __init__(self, kernel: Dispatcher) -> None:
        self._kernel = kernel
        self.enable()

    @cached_property
    def _found(self) -> bool:
        """Whether the kernel can be kept; the other attributes are set after this one."""
        try:
            made_from = fingerprint(self._kernel)
            super().__init__(self._kernel.py_func)  # a RuntimeError if no folder can be written
        except (UnseenChangeError, RuntimeError) as error:
            warnings.warn(f"compiled code is not kept: {error}", NumbaWarning, stacklevel=2)
            return False
        name = self._impl.filename_base.rpartition("-")[0]  # what follows is the line
        self._cache_file = _KernelFiles(self._cache_path, f"{name}-{made_from[:_DIGITS]}.kernel", made_from)
        return True

    @property
    def cache_path(self) -> str | None:
        """Folder of the files."""
        return self._cache_path if self._found else None

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the compiled code of a signature, or return ``None``."""
        return super().load_overload(sig, target_context) if self._found else None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled code of a signature."""
        if self._found:
            super().save_overload(sig, data)

    def flush(self) -> None:
        """Forget the compiled code of all signatures."""
        if self._found:
            super().flush()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # The type of a named tuple is the same to Numba after its fields are exchanged.
        return (*super()._index_key(sig, codegen), _fields(sig))


def _fields(part: Any) -> tuple[tuple[str, ...], ...]:
    """Return the names of the fields of all named tuples in types of arguments, nested ones included."""
    if isinstance(part, types.Type):
        return _fields_of_type(part)
    return sum(map(_fields, part), ()) if isinstance(part, tuple) else ()


@cache
def _fields_of_type(one: Any) -> tuple[tuple[str, ...], ...]:
    own = (tuple(one.fields),) if isinstance(one, types.NamedTuple | types.NamedUniTuple) else ()
    return own + _fields(tuple(vars(one).values()))


@cache
def remove_unused(folder: str) -> None:
    """Remove the compiled code in ``folder`` that no process has used for ``UNUSED_S``; once per process.

    Other processes may do the same, or use a file that is about to go: they compile again what they do not find.
    """
    files: dict[str, list[Path]] = defaultdict(list)
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            ours = _OURS.fullmatch(entry.name)
            if ours is not None and entry.is_file(follow_symlinks=False):
                files[ours[1]].append(Path(entry.path))
    for paths in files.values():
        with suppress(OSError):  # another process has removed one of them
            if time.time() - max(path.stat().st_mtime for path in paths) > UNUSED_S:
                for path in paths:
                    path.unlink(missing_ok=True)


def compiled_with(**options: Any) -> Callable[[Function], "Dispatcher[Function]"]:
    """Return a decorator that compiles kernels with options of ``numba.njit`` and keeps their compiled code."""

    def decorate(function: Function) -> "Dispatcher[Function]":
        made: Any = njit(**options)(function)
        if made is not function:  # the same under NUMBA_DISABLE_JIT
            made._cache = KernelCache(made)
        return made

    return decorate


compiled = compiled_with()

# Numba counts references to every array that a function touches, which in small loops takes several times as long as
# the loop itself. Functions that only read and write their callers' arrays do not need the counts.
kernel: Any = compiled_with(_nrt=False)
inlined: Any = compiled_with(_nrt=False, inline="always")
