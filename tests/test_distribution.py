"""Distribution of test files to processes."""

import subprocess
import sys
from pathlib import Path

from tests.distribution import next_file

PLUGIN = """
from tests.distribution import ByPackage

def pytest_xdist_make_scheduler(config, log):
    return ByPackage(config, log)
"""


def test_a_process_avoids_the_package_of_the_other_process_while_it_can() -> None:
    """Process 0 stays in its first file, in ``formulations``, while process 1 takes all other files."""
    waiting = ["tests/bench/a", "tests/formulations/b", "tests/rl/c", "tests/formulations/d", "tests/e", "tests/rl/f"]
    last_files: list[str | None] = [None, None]
    order = []
    for process in (0, 1, 1, 1, 1, 1):
        other_file = last_files[1 - process]
        file = next_file(waiting, last_files[process], [other_file] if other_file else [])
        waiting.remove(file)
        last_files[process] = file
        order.append(file.removeprefix("tests/"))
    assert order == ["formulations/b", "bench/a", "e", "rl/c", "rl/f", "formulations/d"]


def test_files_of_a_process_that_dies_are_run_by_another(tmp_path: Path) -> None:
    """The files that it has finished, and the test that killed it, are not run again."""
    folder = tmp_path / "tests" / "rl"
    folder.mkdir(parents=True)
    for name in "abcd":
        (folder / f"test_{name}.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    dying = "import os, time\ndef test_one(): pass\n"
    dying += "def test_two():\n    time.sleep(1.0)  # the next file is on its way to this process\n    os._exit(1)\n"
    dying += "def test_three(): pass\n"
    (folder / "test_c.py").write_text(dying)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    root = Path(__file__).parents[1]
    options = ["-p", "xdist", "-p", "plugin", "-p", "no:cacheprovider", "--numprocesses=1", "--dist=loadfile"]
    environment = {"PYTHONPATH": f"{tmp_path}:{root}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert "1 failed, 8 passed" in ended.stdout, ended.stdout
