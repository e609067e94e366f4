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


def test_processes_stay_in_packages_of_their_own_while_they_can() -> None:
    waiting = ["tests/bench/a", "tests/formulations/b", "tests/rl/c", "tests/formulations/d", "tests/e", "tests/rl/f"]
    taken: list[str | None] = [None, None]
    begun = []
    for process in (0, 1, 1, 1, 1, 1):
        file = next_file(waiting, taken[process], [other for other in (taken[1 - process],) if other])
        waiting.remove(file)
        taken[process] = file
        begun.append(file.removeprefix("tests/"))
    assert begun == ["formulations/b", "rl/c", "rl/f", "bench/a", "e", "formulations/d"]


def test_files_of_a_process_that_dies_are_run_by_another(tmp_path: Path) -> None:
    """Its finished files are not given out again, and neither is the test that it died of."""
    folder = tmp_path / "tests" / "rl"
    folder.mkdir(parents=True)
    for name in "abcd":
        (folder / f"test_{name}.py").write_text("def test_one(): pass\ndef test_two(): pass\n")
    dying = "import os\ndef test_one(): pass\ndef test_two(): os._exit(1)\ndef test_three(): pass\n"
    (folder / "test_c.py").write_text(dying)
    (tmp_path / "plugin.py").write_text(PLUGIN)
    root = Path(__file__).parents[1]
    options = ["-p", "xdist", "-p", "plugin", "-p", "no:cacheprovider", "--numprocesses=1", "--dist=loadfile"]
    paths = {"PYTHONPATH": f"{tmp_path}:{root}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}

    ended = subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--rootdir", tmp_path, tmp_path],
        cwd=tmp_path,
        env=paths,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert "1 failed, 8 passed" in ended.stdout, ended.stdout
