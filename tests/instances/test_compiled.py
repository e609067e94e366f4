"""Cache of compiled kernels: edits that recompile them, edits that do not, and the removal of unused files."""

import importlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numba
import numpy as np
import pytest
from numba.core.dispatcher import Dispatcher
from numba.core.errors import NumbaWarning

from instances import compiled
from tests.instances.kernel_tree import TREE

Start = Callable[..., ModuleType]


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Return a function that imports the tree as a new process would, optionally after an edit of one module."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # edits within a second have equal file times
    compiled.remove_unused.cache_clear()

    def begin(module: str = "", old: str = "", new: str = "") -> ModuleType:
        for name, text in TREE.items():
            text = "\n".join(line.removeprefix("        ") for line in text.splitlines())
            if name == module:
                assert text.count(old) == 1
                text = text.replace(old, new)
            (tmp_path / f"{name}.py").write_text(text + "\n")
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module("top")

    yield begin
    for name in TREE:
        sys.modules.pop(name, None)


def misses(tree: ModuleType) -> list[str]:
    """Return the names of the tree's kernels that were called and not found on disk."""
    kernels = [kernel for kernel in vars(tree).values() if isinstance(kernel, Dispatcher)]
    return [kernel.__name__ for kernel in kernels if sum(kernel.stats.cache_misses.values())]


EDITS = {
    "a kernel called by a called kernel": ("of_callee", "inner", "0.1 * TENTHS * x", "0.2 * TENTHS * x", 7.0, 13.0),
    "a constant of a plain module": ("of_callee", "plain", "TENTHS = 20", "TENTHS = 10", 7.0, 4.0),
    "a constant of the callee's module": ("of_callee", "outer", "OWN = 1.0", "OWN = 2.0", 7.0, 8.0),
    "the kernel itself": ("of_tuple", "top", "LIMITS[1]", "LIMITS[0]", 5.0, 4.0),
    "an inlined kernel": ("of_inlined", "inner", "x + 1.0", "x + 2.0", 4.0, 5.0),
    "a default": ("of_default", "inner", "step=3.0", "step=4.0", 6.0, 7.0),
    "a tuple": ("of_tuple", "plain", "(1.0, 2.0)", "(1.0, 3.0)", 5.0, 6.0),
    "an array": ("of_array", "plain", "[4.0, 5.0]", "[4.0, 6.0]", 8.0, 9.0),
    "a member of an enumeration": ("of_enum", "plain", "FAST = 2", "FAST = 3", 6.0, 3.0),
    "fields of a named tuple made by a kernel": (
        *("of_made", "plain", "left: float\n    right", "right: float\n    left"),
        *(3.0, 6.0),
    ),
}


def test_a_kernel_is_compiled_once_for_all_constant_arguments(start: Start) -> None:
    top = start("top", "stepped(x)", "stepped(x, 4) + stepped(step=5, x=x)")

    assert top.of_default(3.0) == 15.0
    assert len(top.stepped.called.signatures) == 1
    assert top.stepped.signatures == []  # Python has not called it


@pytest.mark.parametrize("on_disk", [False, True])
def test_a_called_kernel_prints_and_raises(start: Start, on_disk: bool, capfd: pytest.CaptureFixture[str]) -> None:
    top = start()
    if on_disk:
        top.of_speaking(1.0)
        top = start()
        capfd.readouterr()

    assert top.of_speaking(2.0) == 2.0
    assert capfd.readouterr().out == "at most 2.0\n"
    with pytest.raises(ValueError, match="above") as error:
        top.of_speaking(4.0)
    assert error.value.args == ("above", 4.0)


def test_python_may_call_a_called_kernel_before_and_after(start: Start) -> None:
    top = start()
    sums = [top.stepped(1.0), top.of_default(3.0), top.stepped(1.0), start().stepped(1.0)]

    assert sums == [4.0, 6.0, 4.0, 4.0]


def test_the_time_of_compilations_is_that_until_a_kernel_runs(start: Start) -> None:
    top = start()
    began = time.monotonic()
    with compiled.compilation_time() as first:
        top.of_tuple(1.0)
    elapsed_s = time.monotonic() - began
    with compiled.compilation_time() as second:
        top.of_tuple(1.0)

    assert elapsed_s / 2.0 < first.seconds < elapsed_s
    assert second.seconds == 0.0


def test_a_kernel_can_ask_for_the_value_of_a_constant() -> None:
    @compiled.compiled
    def plus(x: float, step: int) -> float:
        return x + numba.literally(step)

    @compiled.compiled
    def plus_four(x: float) -> float:
        return plus(x, 4)

    with pytest.warns(NumbaWarning, match="not kept"):
        assert plus_four(3.0) == 7.0


@compiled.compiled
def assigned(target: Any, source: Any) -> None:
    """Assign an array to a slice of another one."""
    target[1:] = source


def test_an_array_of_another_shape_is_not_assigned_to_a_slice() -> None:
    target = np.zeros(4)
    assigned(target, np.ones(3))
    assert target.tolist() == [0.0, 1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="an array of another shape is assigned to a slice"):
        assigned(target, np.ones(2))


def test_a_kernel_counts_as_compiled_once_its_code_is_on_disk(start: Start) -> None:
    first = start()
    before = compiled.is_compiled(first.of_tuple)
    first.of_tuple(1.0)

    assert not before
    assert compiled.is_compiled(start().of_tuple)
    assert not compiled.is_compiled(start("plain", "LIMITS = (1.0, 2.0)", "LIMITS = (1.0, 3.0)").of_tuple)
    assert compiled.is_compiled(first.of_argument)  # a plain function


def test_a_kernel_in_a_closure_is_found_on_disk(start: Start) -> None:
    assert start().of_closure(3.0) == 7.0

    restarted = start()
    assert restarted.of_closure(3.0) == 7.0
    assert misses(restarted) == []
    edited = start("outer", "OWN = 1.0", "OWN = 2.0")
    assert edited.of_closure(3.0) == 8.0
    assert "of_closure" in misses(edited)


@pytest.mark.parametrize(("asked", "module", "old", "new", "before", "after"), EDITS.values(), ids=EDITS)
def test_an_edit_takes_effect_and_undoing_it_finds_the_old_code(
    start: Start, asked: str, module: str, old: str, new: str, before: float, after: float
) -> None:
    assert getattr(start(), asked)(3.0) == before
    edited = start(module, old, new)
    assert getattr(edited, asked)(3.0) == after
    assert asked in misses(edited)
    undone = start()
    assert getattr(undone, asked)(3.0) == before
    assert misses(undone) == []


@pytest.mark.parametrize("asked", ["of_argument", "of_nested"])
def test_fields_of_an_argument_are_the_current_ones(start: Start, asked: str) -> None:
    assert getattr(start(), asked)(3.0) == 3.0
    edited = start("plain", "left: float\n    right", "right: float\n    left")
    assert getattr(edited, asked)(3.0) == 3.0
    undone = start()
    assert getattr(undone, asked)(3.0) == 3.0
    assert misses(undone) == []


def test_code_for_a_removed_type_is_recompiled(start: Start) -> None:
    assert start().of_argument(3.0) == 3.0
    fields = "(NamedTuple):\n    left: float\n    right: float"
    renamed = start("plain", f"class Pair{fields}", f"class Couple{fields}\n\nPair = Couple")
    del sys.modules["plain"].Pair
    assert renamed.of_argument(3.0) == 3.0
    assert misses(renamed) == ["left_of"]


def test_options_of_a_called_kernel_take_effect(start: Start) -> None:
    assert str(start().of_options(3.0)) == "inf"
    with pytest.raises(ZeroDivisionError):
        start("inner", 'error_model="numpy"', 'error_model="python"').of_options(3.0)
    assert str(start().of_options(3.0)) == "inf"


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("outer", "more than", "less than"),
        ("outer", "\ndef unrelated", "# a comment, and lines that move\n\n\ndef unrelated"),
        ("outer", "return 7", "return 8"),
        ("inner", "x + 1.0", "x + 2.0"),
        ("plain", "(1.0, 2.0)", "(1.0, 3.0)"),
        ("plain", "SLOW = 1", "SLOW = 0"),
    ],
)
def test_an_edit_that_a_kernel_does_not_use_recompiles_nothing(start: Start, module: str, old: str, new: str) -> None:
    assert start().of_callee(3.0) == 7.0
    edited = start(module, old, new)
    assert edited.of_callee(3.0) == 7.0
    assert misses(edited) == []


@pytest.mark.parametrize("package", ["numba", "numpy"])
def test_another_version_of_a_library_recompiles(start: Start, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert start().of_tuple(3.0) == 5.0
    versions = importlib.import_module("instances.kernel_fingerprint").VERSIONS
    assert importlib.import_module(package).__version__ in versions
    monkeypatch.setattr("instances.kernel_fingerprint.VERSIONS", ("another", *versions))
    restarted = start()
    assert restarted.of_tuple(3.0) == 5.0
    assert misses(restarted) == ["of_tuple"]


def cache_files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*.nb[ic]*"))


def set_age(folder: Path, days: float) -> None:
    for path in folder.rglob("*.nb[ic]*"):
        os.utime(path, (time.time() - days * 86400.0,) * 2)


def test_code_unused_for_thirty_days_is_removed_when_new_code_is_saved(start: Start, tmp_path: Path) -> None:
    edit = ("plain", "(1.0, 2.0)", "(1.0, 3.0)")
    start().of_tuple(3.0)
    old_files = cache_files(tmp_path)
    assert len(old_files) == 2
    set_age(tmp_path, 29.0)
    start(*edit).of_tuple(3.0)
    assert set(old_files) < set(cache_files(tmp_path))

    set_age(tmp_path, 31.0)
    unfinished = tmp_path / "__pycache__" / f"{old_files[0]}.tmp.00ff"
    unfinished.touch()
    os.utime(unfinished, (0.0, 0.0))
    compiled.remove_unused.cache_clear()
    start("plain", "(1.0, 2.0)", "(1.0, 4.0)").of_tuple(3.0)
    assert len(cache_files(tmp_path)) == 2
    assert not set(old_files) & set(cache_files(tmp_path))


def test_recently_used_code_is_not_removed(start: Start, tmp_path: Path) -> None:
    start().of_tuple(3.0)
    used = cache_files(tmp_path)
    set_age(tmp_path, 31.0)
    start().of_tuple(3.0)  # a hit, which records the use
    compiled.remove_unused.cache_clear()
    start("plain", "(1.0, 2.0)", "(1.0, 3.0)").of_tuple(3.0)
    assert set(used) < set(cache_files(tmp_path))


def test_only_our_cache_files_are_removed(tmp_path: Path) -> None:
    ours = "inner.f-0123456789abcdef.kernel.nbi"
    others = (
        "inner.f-12.py311.nbi",
        "inner.f-12.py311.1.nbc",
        "inner.cpython-311.pyc",
        f"{ours}x",
        f"copy of {ours}.bak",
    )
    for name in (ours, *others):
        (tmp_path / name).touch()
        os.utime(tmp_path / name, (0.0, 0.0))
    folder, link = tmp_path / "g-0123456789abcdef.kernel.nbi", tmp_path / "h-0123456789abcdef.kernel.nbi"
    folder.mkdir()
    link.symlink_to(tmp_path / others[0])
    compiled.remove_unused(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted((*others, folder.name, link.name))


def test_the_users_cache_folder_replaces_an_unwritable_one(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "__pycache__").touch()  # blocks the folder; permissions would not stop root
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "of the user"))
    assert start().of_callee(3.0) == 7.0
    assert len(cache_files(tmp_path / "of the user")) == 2  # an index, and code with that of the called kernels
    restarted = start()
    assert restarted.of_callee(3.0) == 7.0
    assert misses(restarted) == []


def test_without_a_writable_folder_kernels_are_compiled_each_time(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "__pycache__").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.warns(NumbaWarning, match="compiled code is not kept: .*no locator available"):
        assert start().of_tuple(3.0) == 5.0


def test_numbas_cache_folder_setting_is_obeyed(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "named"))
    assert start().of_tuple(3.0) == 5.0
    assert len(cache_files(tmp_path / "named")) == 2
    assert cache_files(tmp_path) == cache_files(tmp_path / "named")


def test_simultaneous_saves_never_mix_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = (compiled._KernelFiles(str(tmp_path), "f-0123456789abcdef.kernel", "stamp") for _ in range(2))
    save = first._save_data

    def save_after_the_other(name: str, data: object) -> None:
        other.save("signature of the other", "code of the other")
        save(name, data)

    monkeypatch.setattr(first, "_save_data", save_after_the_other)
    monkeypatch.setattr(other, "_load_index", dict)  # it read the index before there was one
    first.save("signature", "code")
    assert first.load("signature") in ("code", None)
    assert first.load("signature of the other") == "code of the other"


def test_a_process_waits_for_code_that_another_compiles(start: Start, tmp_path: Path) -> None:
    top = start()
    assert not compiled.is_compiled(top.of_callee)  # finds the files
    top.of_callee._cache._lock.acquire()
    script = "import top; print(top.of_callee(3.0), sum(top.of_callee.stats.cache_misses.values()))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])}
    command = [sys.executable, "-c", script]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as other:
        with pytest.raises(subprocess.TimeoutExpired):
            other.wait(timeout=3.0)
        assert top.of_callee(3.0) == 7.0
        assert other.communicate(timeout=60.0)[0].split() == ["7.0", "0"]
    assert list((tmp_path / "__pycache__").glob("*.lock")) == []


def test_a_lock_that_is_never_released_blocks_no_other_process(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled, "_LONGEST_WAIT_S", 0.2)
    first = start()
    assert not compiled.is_compiled(first.of_tuple)
    first.of_tuple._cache._lock.acquire()
    assert start().of_tuple(3.0) == 5.0
    first.of_tuple._cache._lock.release()


def test_a_cache_folder_removed_during_a_save_fails_no_run(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def remove_and_save(files: compiled._KernelFiles, name: str, data: object) -> None:
        shutil.rmtree(tmp_path / "__pycache__")
        save(files, name, data)

    save = compiled._KernelFiles._save_data
    monkeypatch.setattr(compiled._KernelFiles, "_save_data", remove_and_save)
    assert start().of_tuple(3.0) == 5.0
    monkeypatch.undo()
    monkeypatch.syspath_prepend(str(tmp_path))
    restarted = start()
    assert restarted.of_tuple(3.0) == 5.0
    assert misses(restarted) == ["of_tuple"]


def test_a_kernel_whose_changes_cannot_be_detected_is_not_cached(start: Start, tmp_path: Path) -> None:
    changed = start(
        "top",
        "@compiled\ndef of_tuple(x):\n    return x",
        "from numba.extending import register_jitable\n\n@register_jitable\ndef plain(x):\n    return x\n\n"
        "@compiled\ndef of_tuple(x):\n    return plain(x)",
    )
    with pytest.warns(NumbaWarning, match="not kept: top.of_tuple uses plain, a function, whose changes"):
        assert changed.of_tuple(3.0) == 5.0
    assert cache_files(tmp_path) == []
    assert changed.of_tuple.stats.cache_path is None


def test_with_numba_disabled_kernels_are_plain_functions(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    top: Any = start()
    assert top.of_callee(3.0) == 7.0
    assert not isinstance(top.of_callee, Dispatcher)
