"""Fingerprint of a kernel: a hash of everything that its compiled code depends on.

The compiled code of a kernel contains the kernels that it calls and the values of the global names that it uses. The
fingerprint covers the kernel, all kernels that it calls directly or indirectly, and these values. An edit changes the
fingerprints of exactly those kernels whose compiled code it can change. If the edit is undone, the old fingerprints
return.
"""

import sys
from collections.abc import Iterator
from enum import Enum
from functools import cache
from hashlib import sha256
from opcode import opmap
from types import CodeType, EllipsisType, ModuleType
from typing import Any

import llvmlite
import numba
import numpy as np
from numba.core.dispatcher import Dispatcher

VERSIONS = (numba.__version__, llvmlite.__version__, np.__version__, sys.implementation.cache_tag, sys.hexversion)
"""Versions of the compiler, of NumPy and of Python."""

_VERSIONED = ("builtins", "cmath", "math", "numpy")
"""Modules whose functions and classes change only if ``VERSIONS`` changes."""

_PLAIN = (type(None), bool, int, float, complex, str, bytes, EllipsisType)
"""Types whose ``repr`` describes the value completely."""

_LOAD_GLOBAL, _EXTENDED_ARG = opmap["LOAD_GLOBAL"], opmap["EXTENDED_ARG"]
"""Numbers of two bytecode instructions."""


class UnseenChangeError(Exception):
    """Error of a kernel that uses a value of a type that the fingerprint cannot cover."""


def fingerprint(kernel: Dispatcher) -> str:
    """Return the SHA-256 of everything that the compiled code of ``kernel`` depends on.

    Raises
    ------
    UnseenChangeError
        If the kernel, or a kernel that it calls, uses a value that cannot be described.
    """
    reached, numbers = [kernel], {kernel: 0}
    digest = sha256(repr(VERSIONS).encode())
    for current in reached:  # the list grows during the iteration
        description, called = _described_kernel(current)
        for callee in called:
            if callee not in numbers:
                numbers[callee] = len(reached)
                reached.append(callee)
        digest.update(f"{description} calls {[numbers[callee] for callee in called]}".encode())
    return digest.hexdigest()


def used_globals(code: CodeType) -> Iterator[str]:
    """Yield the global names that a function and the functions inside it read.

    ``co_names`` also has the names of attributes, and the module ``dis`` takes thirty times as long.
    """
    extended, instructions = 0, code.co_code
    for operation, argument in zip(instructions[::2], instructions[1::2], strict=True):
        extended |= argument
        if operation == _LOAD_GLOBAL:
            yield code.co_names[extended >> 1]  # the lowest bit says whether the name is called
        extended = extended << 8 if operation == _EXTENDED_ARG else 0  # it gives the next argument's higher bits
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from used_globals(constant)


@cache
def _described_kernel(kernel: Dispatcher) -> tuple[str, tuple[Dispatcher, ...]]:
    """Return a hash of one kernel without the kernels that it calls, and these kernels in a fixed order."""
    function = kernel.py_func
    called: list[Dispatcher] = []
    names = dict.fromkeys(used_globals(function.__code__))
    values = {name: function.__globals__[name] for name in names if name in function.__globals__}
    cells = (cell.cell_contents for cell in function.__closure__ or ())
    closure = dict(zip(function.__code__.co_freevars, cells, strict=True))
    parts = {
        "name": f"{function.__module__}.{function.__qualname__}",
        "code": _described_code(function.__code__, called, function.__doc__),
        "options": _described(tuple(sorted(kernel.targetoptions.items())), called),
        "defaults": _described((function.__defaults__, *sorted((function.__kwdefaults__ or {}).items())), called),
    }
    for name, value in (*values.items(), *closure.items()):
        try:
            parts[f"value of {name}"] = _described(value, called)
        except UnseenChangeError as error:
            place = f"{function.__module__}.{function.__qualname__}"
            raise UnseenChangeError(f"{place} uses {name}, {error}") from None
    return sha256(repr(parts).encode()).hexdigest(), tuple(called)


def _described_code(code: CodeType, called: list[Dispatcher], docstring: str | None = None) -> str:
    """Describe the code of a function without docstring and line numbers, which do not change its results."""
    constants = code.co_consts[1:] if docstring is not None and code.co_consts[:1] == (docstring,) else code.co_consts
    counts = (code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags)
    names = (code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
    described_constants = [_described(constant, called) for constant in constants]
    return repr((code.co_code.hex(), code.co_exceptiontable.hex(), counts, names, described_constants))


def _described(value: Any, called: list[Dispatcher]) -> str:
    """Describe a value in the same way in every process; append a kernel to ``called`` instead of describing it."""
    if isinstance(value, Dispatcher):
        called.append(value)
        return "kernel"
    if type(value) in _PLAIN:
        return f"{type(value).__name__} {value!r}"
    if isinstance(value, CodeType):
        return _described_code(value, called)
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        content = sha256(array.tobytes()).hexdigest()
        return f"{type(value).__name__} {array.dtype.descr} {array.shape} {array.strides} {content}"
    if isinstance(value, Enum):
        return f"{_described(type(value), called)}.{value.name}"
    if isinstance(value, tuple):
        return f"{_described(type(value), called)} {[_described(element, called) for element in value]}"
    if isinstance(value, set | frozenset):
        return f"set {sorted(_described(element, called) for element in value)}"
    if isinstance(value, type) and issubclass(value, Enum):
        return (
            f"{_name(value)} {[(name, _described(member.value, called)) for name, member in value.__members__.items()]}"
        )
    if is_named_tuple(value):
        return f"{_name(value)} {value._fields} {_described(tuple(value._field_defaults.items()), called)}"
    if isinstance(value, ModuleType):
        if value.__name__.partition(".")[0] in _VERSIONED:
            return value.__name__
    elif hasattr(value, "__qualname__") and str(value.__module__).partition(".")[0] in _VERSIONED:
        return _name(value)
    raise UnseenChangeError(f"a {type(value).__name__}, whose changes would not be noticed")


def is_named_tuple(value: Any) -> bool:
    """Return whether ``value`` is a class of named tuples, whose fields Numba compiles to positions."""
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def _name(value: Any) -> str:
    return f"{value.__module__}.{value.__qualname__}"
