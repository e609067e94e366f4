"""Pipes, devices and sockets in place of files: commands refuse them at once and do not wait for them."""

import os
import socket
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from conftest import Call

KIND_OF_FILE = {"pipe": "pipe", "device": "device", "endless": "device", "socket": "socket"}

COMMANDS = (
    "run --instances ./{}",
    "run --instances igniter-3 --schedulers igniter --ledger {}",
    "run --instances igniter-3 --schedulers igniter --arrivals ./{}",
    "show --ledger {}",
    "show igniter-3 -o {}",
    "export {}",
    "export {} -o x.csv",
    "report {} -o site",
    "compare ./{} ./{}",
    "verify {}",
    "simulate {}",
    "online --instances igniter-3 --scheduler igniter --trace ./{}",
    "profile fit {} -o gpu.toml",
    "generate igniter-mix --size 3 -o {}",
)
"""Commands with a file whose name stands for ``{}``."""


@pytest.fixture
def special(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make a pipe without a writer, two devices and a socket in the working folder."""
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    Path("device").symlink_to("/dev/null")
    Path("endless").symlink_to("/dev/zero")
    with socket.socket(socket.AF_UNIX) as end:
        end.bind("socket")
        yield


@pytest.mark.usefixtures("special")
def test_pipes_and_devices_are_refused_at_once(call: Call, subtests: pytest.Subtests) -> None:
    for line, name in product(COMMANDS, KIND_OF_FILE):
        with subtests.test(line, name=name):
            before = os.lstat(name)
            done = call(line.replace("{}", name))
            assert (done.code, done.out) == (2, "")
            assert done.err.endswith(f"{name}: is a {KIND_OF_FILE[name]}; expected a regular file\n")
            assert done.err.count("\n") == 1
            assert os.lstat(name).st_ino == before.st_ino
