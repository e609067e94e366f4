"""Fixtures of the command line's tests: a plugin with schedulers, and ``bench`` as a process."""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

Start = Callable[..., "subprocess.Popen[str]"]

PLUGIN = Path(__file__).with_name("command_line_plugin.py")

PLAN = {
    "version": 1,
    "instance": "igniter-3",
    "gpus": [
        {
            "type": "v100",
            "gpulets": [
                {"share_units": 4, "slots": [{"workload": "W1", "batch": 4, "rate_rps": 500}]},
                {"share_units": 12, "slots": [{"workload": "W2", "batch": 8, "rate_rps": 400}]},
                {"share_units": 15, "slots": [{"workload": "W3", "batch": 6, "rate_rps": 200}]},
            ],
        }
    ],
}
"""iGniter's own plan, Table 1."""

ENTRY_POINTS = """
[bench.schedulers]
bounds = command_line_plugin:Bounds
broken = command_line_plugin_that_is_not_there:Broken
fails = command_line_plugin:Fails
waits = command_line_plugin:Waits
"""


@pytest.fixture(scope="module")
def plugin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Install schedulers of another distribution, with entry points like any plugin."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copy(PLUGIN, folder)
    metadata = folder / "command_line_plugin-2.5.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: command-line-plugin\nVersion: 2.5\n")
    (metadata / "entry_points.txt").write_text(ENTRY_POINTS)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield folder


@pytest.fixture
def start(tmp_path: Path, plugin: Path) -> Start:
    """Start the installed command ``bench`` as a process in an empty folder."""

    def begin(line: str, **options: Any) -> "subprocess.Popen[str]":
        command = Path(sys.executable).parent / "bench"
        path = [str(plugin), *filter(None, [os.environ.get("PYTHONPATH")])]
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
        return subprocess.Popen([command, *line.split()], cwd=tmp_path, env=environment, text=True, **options)

    return begin
