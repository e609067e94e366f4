"""Kernels (functions compiled by Numba) that are edited: the next start uses them, and reports their exceptions."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
KERNELS = "instances/interference.py"
RESULT = "_grown_ms(tables, model, batch, units, residents, growth, power_total_w)\n\n\n@kernel\ndef gpu_time_beside_ms"

PROBE = """
import json
import sys
import numba

@numba.njit
def compiled_before_ours(x):
    return x + 1

import numpy as np
from bench.runner.forkserver import start_forkserver, start_process
from bench.runner.worker_limits import leave_forkserver
from instances.catalogue import gpu_type
from instances.interference import gpu_times_ms
from instances.spare_shares import throughput_rps
from instances.tables import gpu_tables

def measured():
    tables = gpu_tables(gpu_type("v100"), "igniter")
    model, batch, units = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64), np.full(1, 8, dtype=np.int64)
    rate_rps, time_ms = throughput_rps(tables, model, batch, units), np.zeros(1)
    gpu_times_ms(tables, model, batch, units, 1, time_ms)
    compiled = sum(sum(one.stats.cache_misses.values()) for one in (throughput_rps, gpu_times_ms))
    return {"latency_ms": 1000.0 / rate_rps, "gpu_time_ms": time_ms[0], "compiled": compiled}

def answer(pipe):
    leave_forkserver()
    pipe.send(measured())

if __name__ == "__main__":
    compiled_before_ours(1)
    import probe
    start_forkserver()
    process, (pipe,) = start_process(probe.answer, "probe", reads=0, writes=1)
    worker = pipe.recv()
    process.join()
    print(json.dumps({"worker": worker, "here": measured()}))
"""


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Copy the packages that workers need, and their compiled code, which is found by content in any folder."""
    for folder in ("instances", "bench"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("*.pyc"))
    (tmp_path / "probe.py").write_text(PROBE)
    return tmp_path


def environment(tree: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1", "TMPDIR": str(tree)}


def edit(tree: Path, file: str, old: str, new: str) -> None:
    source = (tree / file).read_text()
    assert source.count(old) == 1
    (tree / file).write_text(source.replace(old, new))


def measured(tree: Path) -> tuple[dict[str, float], dict[str, float]]:
    """Return the measurements of a program that compiles a function of its own first, and those of its worker."""
    command = [sys.executable, str(tree / "probe.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment(tree))
    measurements = json.loads(done.stdout)
    return measurements["here"], measurements["worker"]


@pytest.mark.soak
def test_an_edited_kernel_also_changes_kernels_that_call_it(tree: Path) -> None:
    before = measured(tree)[0]
    edit(tree, KERNELS, RESULT, f"1.1 * {RESULT}")
    for edited in measured(tree):
        grown_ms = 0.1 * before["gpu_time_ms"]
        assert edited["gpu_time_ms"] == pytest.approx(before["gpu_time_ms"] + grown_ms)
        assert edited["latency_ms"] == pytest.approx(before["latency_ms"] + grown_ms)
    edit(tree, KERNELS, f"1.1 * {RESULT}", RESULT)
    for undone in measured(tree):
        assert undone == {**before, "compiled": 0}
    assert list(tree.glob("gpushare-bench*")) == []  # the forkserver wrote no log, since it had no error


ONE_GPU = "instances/one_gpu.py"


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        (KERNELS, RESULT, f"tables.nothing_such + {RESULT}", "TypingError: .*'nothing_such'.*"),
        (
            ONE_GPU,
            "    least_shares(tables, model, batch, budgets_ms, units)\n",
            "    1 / 0\n",
            "ZeroDivisionError: division .*",
        ),
        (ONE_GPU, "import numpy as np", "import nothing_such", "ModuleNotFoundError: No module named 'nothing_such'"),
        (ONE_GPU, "import NamedTuple\n", "import\n", r"SyntaxError: invalid syntax \(one_gpu.py, line 5\)"),
    ],
)
def test_an_exception_while_the_forkserver_loads_is_reported(
    tree: Path, file: str, old: str, new: str, reason: str
) -> None:
    edit(tree, file, old, new)
    command = [sys.executable, "-c", "import sys, bench.cli; sys.exit(bench.cli.main(['list', 'schedulers']))"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(tree))
    line = (
        rf"error: bench: the forkserver, which starts the workers, does not load: {reason}; traceback in (\S+\.log)\n"
    )
    error = re.fullmatch(line, done.stderr)
    assert error is not None, done.stderr
    assert done.returncode == 2
    log = Path(error[1]).read_text()
    assert "Traceback (most recent call last)" in log
    assert new.split(maxsplit=1)[0] in log
    assert [path.name for path in tree.glob("gpushare-bench*")] == [Path(error[1]).name]
