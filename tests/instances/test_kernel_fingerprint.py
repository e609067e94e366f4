"""Fingerprints of the project's kernels: one for each, equal in every process, that covers all global names."""

import ast
import dis
import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import CodeType
from typing import Any

from numba.core.dispatcher import Dispatcher

from instances.kernel_fingerprint import fingerprint, used_globals

ROOT = Path(__file__).parents[2]
FOLDERS = ("instances", "bench", "formulations", "heuristics", "rl", "reports")
FILES = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]


def test_only_two_files_use_numbas_decorators() -> None:
    names = ("njit", "jit", "vectorize", "guvectorize", "stencil", "cfunc", "jit_module", "register_jitable")
    users = {
        path.relative_to(ROOT).as_posix()
        for path in FILES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (
            (isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "numba")
            and any(alias.name in names for alias in node.names)
        )
        or (isinstance(node, ast.Import) and any(alias.name == "numba" for alias in node.names))
    }
    assert users == {"instances/compiled.py", "instances/kernel_fingerprint.py"}


def project_kernels() -> dict[str, Dispatcher]:
    """Import every file with kernels, and return the kernels by name."""
    kernels: dict[str, Dispatcher] = {}
    for path in FILES:
        if "from instances.compiled import" not in path.read_text(encoding="utf-8"):
            continue
        name = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        for kernel in vars(importlib.import_module(name)).values():
            if isinstance(kernel, Dispatcher) and kernel.py_func.__module__ == name:
                kernels[f"{name}.{kernel.__name__}"] = kernel
    return kernels


def test_the_order_of_sets_is_not_in_a_fingerprint() -> None:
    program = (
        "from instances.compiled import compiled_with\n"
        "from instances.kernel_fingerprint import fingerprint\n"
        "def f(x):\n"
        "    return x\n"
        "print(fingerprint(compiled_with(fastmath={'nnan', 'ninf', 'contract', 'arcp', 'nsz'})(f)))\n"
    )
    printed = []
    for seed in range(3):
        environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-P", "-c", program]
        printed.append(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)
    assert printed == [printed[0]] * 3


def test_every_kernel_has_the_same_fingerprint_in_another_process() -> None:
    kernels = project_kernels()
    assert len(kernels) > 200
    program = (
        "import importlib, sys\n"
        "from instances.kernel_fingerprint import fingerprint\n"
        "for name in sys.argv[1:]:\n"
        "    module, _, kernel = name.rpartition('.')\n"
        "    print(fingerprint(getattr(importlib.import_module(module), kernel)))\n"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-P", "-c", program, *kernels]
    fingerprints = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.split()
    assert dict(zip(kernels, fingerprints, strict=True)) == {
        name: fingerprint(kernel) for name, kernel in kernels.items()
    }
    assert len(set(fingerprints)) == len(kernels)


def test_global_names_are_those_that_dis_finds() -> None:
    def names_of_dis(code: CodeType) -> set[str]:
        inside = [names_of_dis(item) for item in code.co_consts if isinstance(item, CodeType)]
        return {item.argval for item in dis.get_instructions(code) if item.opname == "LOAD_GLOBAL"}.union(*inside)

    source = "def f():\n    return [" + ", ".join(f"name_{i}" for i in range(300)) + ", lambda: inside]"
    namespace: dict[str, Any] = {}
    exec(source, namespace)
    codes = [item.py_func.__code__ for item in project_kernels().values()]
    for code in (*codes, namespace["f"].__code__):
        assert set(used_globals(code)) == names_of_dis(code)
