"""An installation without extras: solving and simulating work; commands that need an extra say how to install it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.extras import how_to_install

BLOCKED = ("torch", "gymnasium", "distributed", "pyarrow")


@pytest.fixture
def without_extras(tmp_path: Path) -> dict[str, str]:
    """Environment in which importing a module of an extra fails, in every process."""
    for module in BLOCKED:
        (tmp_path / f"{module}.py").write_text(f"raise ModuleNotFoundError('blocked', name='{module}')\n")
    return os.environ | {"PYTHONPATH": str(tmp_path)}


def called(*arguments: str, env: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "import sys; from bench.cli import main; sys.exit(main(sys.argv[1:]))", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd, check=False)


def test_solving_and_simulating_need_no_extra(without_extras: dict[str, str], tmp_path: Path) -> None:
    done = called("run", "--instances", "igniter-3", "--schedulers", "igniter,colgen", env=without_extras, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "optimal" in done.stdout


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("train ts --suite 4gpu --seed 0 -o out", 2, 'needs torch: pip install "gpushare-bench[rl]"'),
        ("run --instances 4gpu --schedulers ts", 1, 'needs torch: pip install "gpushare-bench[rl]"'),
        ("run --instances igniter-3 --cluster tcp://127.0.0.1:1", 2, 'pip install "gpushare-bench[cluster]"'),
    ],
)
def test_the_error_of_a_missing_extra_says_how_to_install_it(
    line: str, code: int, message: str, without_extras: dict[str, str], tmp_path: Path
) -> None:
    done = called(*line.split(), env=without_extras, cwd=tmp_path)
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert done.returncode == code


def test_a_module_of_no_extra_has_no_hint() -> None:
    assert how_to_install(ModuleNotFoundError("nothing", name="nothing")) is None
