"""Compilation of kernels, and the files that keep their compiled code.

Numba keeps compiled code until the file of the function changes; it does not notice a change in another file, such as
the file of a called kernel. This module therefore keeps compiled code under the fingerprint of its kernel. An edit
changes the fingerprints of the kernels that it concerns, and these are compiled again. If the edit is undone, the
earlier code is used again. The files are where Numba would put them: in ``__pycache__``, in ``NUMBA_CACHE_DIR``, or in
the user's cache folder if the package's folder is read-only.
"""

import fcntl
import os
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from numba import njit, types
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaError, NumbaWarning

from instances.kernel_compiler import CalledKernelCompiler, KernelCompiler
from instances.kernel_fingerprint import UnseenChangeError, fingerprint

Function = TypeVar("Function", bound=Callable[..., Any])

UNUSED_S = 30 * 86400.0
"""Time after which the files of a fingerprint that no process has used are removed."""

_USE_RECORD_S = 86400.0
"""Least time between two records of the use of a file; a record is a write."""

_LONGEST_WAIT_S, _WAIT_S = 60.0, 0.05
"""Longest time for which a process waits until another one has compiled a kernel, and time between two tries."""

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


class _CompilationLock:
    """File lock: only one of several processes compiles a kernel while the others wait for its code.

    Calls between kernels form no cycle, so two processes never wait for each other. A process that ends frees its
    locks. A process whose compilation fails may keep its lock, so no process waits longer than ``_LONGEST_WAIT_S``.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None

    @property
    def is_held(self) -> bool:
        return self._file is not None

    def acquire(self) -> None:
        """Take the lock, or wait for it; return without it after the longest wait."""
        try:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:  # the folder does not exist or cannot be written: each process compiles
            return
        deadline = time.monotonic() + _LONGEST_WAIT_S
        while not self.is_held and time.monotonic() < deadline:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._file = file
            except BlockingIOError:
                time.sleep(_WAIT_S)
            except OSError:  # a file system without locks
                break
        if not self.is_held:
            os.close(file)

    def release(self) -> None:
        """Free the lock, if it is held, and remove its file."""
        if self._file is not None:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._file)
            self._file = None


class KernelCache(FunctionCache):
    """Compiled code of one kernel; its files are searched when the kernel is first called."""

    def __init__(self, kernel: Dispatcher) -> None:
        self._kernel = kernel
        self.enable()

    @cached_property
    def _can_be_kept(self) -> bool:
        """Whether compiled code of the kernel can be kept; the first access sets the other attributes."""
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
        self._lock = _CompilationLock(Path(f"{self._cache_file._index_path}.lock"))
        return True

    @property
    def cache_path(self) -> str | None:
        """Folder of the files."""
        return self._cache_path if self._can_be_kept else None

    @property
    def is_kept(self) -> bool:
        """Whether there is compiled code of the kernel as it is now, maybe from another process."""
        return self._can_be_kept and Path(self._cache_file._index_path).is_file()

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load the compiled code of a signature; return ``None`` if this process must compile and save it."""
        if not self._can_be_kept:
            return None
        overload = super().load_overload(sig, target_context)
        if overload is None and not self._lock.is_held:
            self._lock.acquire()
            overload = super().load_overload(sig, target_context)
            if overload is not None:
                self._lock.release()
        return overload

    def save_overload(self, sig: Any, data: Any) -> None:
        """Save the compiled code of a signature."""
        if self._can_be_kept:
            try:
                super().save_overload(sig, data)
            finally:
                self._lock.release()

    def flush(self) -> None:
        """Forget the compiled code of all signatures."""
        if self._can_be_kept:
            super().flush()

    def _index_key(self, sig: Any, codegen: Any) -> Any:
        # Numba's key ends with hashes of code and closure. With a closure they are left out: the fingerprint covers
        # both, and the hash of a closure that holds a kernel differs from process to process. Names of fields are
        # added: to Numba, the type of a named tuple does not change when two of its fields are exchanged.
        key = super()._index_key(sig, codegen)[:2] if self._py_func.__closure__ else super()._index_key(sig, codegen)
        return (*key, _fields(sig))


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


class CompilationTime(event.TimingListener):
    """Time that this process spends on compiling kernels, while the listener is installed."""

    @property
    def seconds(self) -> float:
        """Seconds of the compilations that have ended."""
        return float(self.duration) if self.done else 0.0


@contextmanager
def compilation_time() -> Iterator[CompilationTime]:
    """Yield the time that this process spends on compiling kernels in the context."""
    time_spent = CompilationTime()
    with event.install_listener("numba:compile", time_spent):
        yield time_spent


def is_compiled(kernel: Any) -> bool:
    """Return whether compiled code of a kernel is on disk, or none is needed (``NUMBA_DISABLE_JIT``)."""
    kernel_cache = getattr(kernel, "_cache", None)
    return not isinstance(kernel_cache, KernelCache) or kernel_cache.is_kept


def _without_constants(call_template: Callable[..., Any], args: Iterable[Any], kws: Mapping[str, Any]) -> Any:
    """Resolve a call in a kernel by the types of its arguments.

    To Numba, each constant argument has a type of its own: a kernel called with 0 and with -1 would be compiled twice.
    If the types do not suffice, the call is resolved with the constants, as Numba does it.
    """
    args = tuple(args)
    try:
        return call_template(tuple(map(types.unliteral, args)), {name: types.unliteral(kws[name]) for name in kws})
    except NumbaError:
        return call_template(args, kws)


def compiled_with(**options: Any) -> Callable[[Function], "Dispatcher[Function]"]:
    """Return a decorator that compiles kernels with options of ``numba.njit`` and keeps their compiled code."""

    def decorate(function: Function) -> "Dispatcher[Function]":
        dispatcher: Any = njit(pipeline_class=KernelCompiler, **options)(function)
        if dispatcher is not function:  # under NUMBA_DISABLE_JIT, njit returns the function
            # Kernels that call this one contain its code, so only what Python calls is kept.
            called: Any = njit(pipeline_class=CalledKernelCompiler, **options)(function)
            dispatcher._cache = KernelCache(dispatcher)
            dispatcher.get_call_template = partial(_without_constants, called.get_call_template)
            dispatcher.get_overload = called.get_overload
            dispatcher.called = called
        return dispatcher

    return decorate


compiled = compiled_with()  # for functions that create arrays

# Numba counts references to every array that a function touches. In small loops, the counting takes several times as
# long as the loop itself. Functions that only read and write their callers' arrays do not need the counts.
kernel: Any = compiled_with(_nrt=False)
inlined: Any = compiled_with(_nrt=False, inline="always")
