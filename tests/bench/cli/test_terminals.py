"""Output to terminals, closed pipes and full disks."""

import json
import os
import pty
import re
import sys
from pathlib import Path

import pytest

from bench.cli.app import main
from tests.bench.cli.conftest import Start

pytestmark = pytest.mark.usefixtures("plugin")


def test_a_terminal_gets_progress_and_a_pipe_the_rows_alone(start: Start) -> None:
    reader, terminal = pty.openpty()
    line = "run --instances igniter-3,smoke-cost --schedulers igniter,waits --time-limit 1 --format json"
    running = start(line, stderr=terminal)
    os.close(terminal)
    output = b""
    try:
        while chunk := os.read(reader, 65536):
            output += chunk
    except OSError:  # on Linux, reading fails once the command has closed the terminal
        pass
    out, _ = running.communicate()
    os.close(reader)
    screen = output.decode()
    assert running.returncode == 0
    assert len(json.loads(out)) == 4
    assert "4/4 runs" in screen
    assert re.search(r"smoke-cost, waits, seed 0 +\d s of 1 s +15\.30 \$/h", screen)
    assert "[4/4] " in screen


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a full device")
def test_a_full_disk_is_an_error_in_one_line(start: Start) -> None:
    with open("/dev/full", "w") as full:  # noqa: PTH123
        for line in ("schema plan", "list suites"):
            running = start(line, stdout=full)
            _, err = running.communicate()
            assert running.returncode == 2
            assert err == "error: standard output: cannot be written: No space left on device\n"


def test_a_reader_that_stops_early_is_no_error(start: Start) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    for line in ("schema plan", "list suites", "list gpus --format json"):
        running = start(line, stdout=writer)
        _, err = running.communicate()
        assert (running.returncode, err) == (0, "")
    os.close(writer)


@pytest.mark.parametrize("line", ["show igniter-3 --format json", "show igniter-3", "--version", "show nobody"])
def test_streams_that_are_closed_are_no_error(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    code = main(line.split())
    for name in ("stdin", "stdout", "stderr"):
        getattr(sys, name).close()
    assert code == (2 if line == "show nobody" else 0)


def test_a_working_folder_that_is_gone_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    assert main(["run", "--instances", "igniter-3", "--schedulers", "igniter"]) == 2
    assert capsys.readouterr().err == "error: the working folder no longer exists; change to an existing folder\n"


def test_a_terminal_without_unicode_gets_ascii(tmp_path: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    running = start("show igniter-12 -o i.json")
    running.communicate()
    (tmp_path / "i.json").write_text((tmp_path / "i.json").read_text().replace('"igniter-12"', '"igniter-é"'))
    running = start("show i.json")
    out, err = running.communicate()
    assert (running.returncode, err) == (0, "")
    assert out.isascii()
    assert r"igniter-\xe9: cost" in out
