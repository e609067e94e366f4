"""Start of the command line: the modules that it loads, its help, and the examples in the help."""

import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer

from bench.cli.app import app, main

LIBRARIES = ("torch", "ortools", "pyomo", "matplotlib", "pandas", "highspy")
HEAVY = (*LIBRARIES, "numpy", "numba", "scipy", "rich", "pydantic", "instances")


def leaves(command: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every command below ``command``, with its full name."""
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, inner in command.commands.items():
        yield from leaves(inner, f"{name} {word}".lstrip())


APPLICATION: Any = typer.main.get_command(app)
COMMANDS = dict(leaves(APPLICATION))


def examples_of(command: Any) -> list[str]:
    return [line.strip() for line in str(command.epilog).splitlines() if line.startswith("  bench ")]


@pytest.mark.parametrize(
    ("arguments", "heavy"),
    [
        (["--help"], HEAVY),
        (["--version"], HEAVY),
        (["run", "--help"], LIBRARIES),  # a command's module imports what the command needs
        (["run", "--instnces"], LIBRARIES),
    ],
)
def test_help_and_usage_errors_load_nothing_heavy(arguments: list[str], heavy: tuple[str, ...]) -> None:
    program = (
        "import json, sys\n"
        "from bench.cli import main\n"
        f"main({arguments!r})\n"
        f"print(json.dumps([name for name in {heavy!r} if name in sys.modules]), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stderr.splitlines()[-1]) == []


def test_the_installed_command_answers() -> None:
    command = os.path.join(os.path.dirname(sys.executable), "bench")  # noqa: PTH118, PTH120 - no resolving of links
    done = subprocess.run([command, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("gpushare-bench ")


def test_without_arguments_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert "Usage: bench" in shown
    assert all(f"\n  {command} " in shown for command in APPLICATION.commands)


def test_every_command_has_help_with_examples(capsys: pytest.CaptureFixture[str], subtests: pytest.Subtests) -> None:
    for command in COMMANDS:
        with subtests.test(command):
            assert main([*command.split(), "--help"]) == 0
            shown = capsys.readouterr().out
            assert f"Usage: bench {command}" in shown
            assert f"    bench {command}" in shown.partition("\n  Examples:\n")[2]


def test_examples_are_accepted_by_the_parser(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("experiment.toml").touch()
    for example in (example for each in (APPLICATION, *COMMANDS.values()) for example in examples_of(each)):
        with subtests.test(example):
            name, *arguments = shlex.split(example.partition(" > ")[0], comments=True)
            assert name == "bench"
            command: Any = APPLICATION
            while hasattr(command, "commands"):
                command = command.commands[arguments.pop(0)]
            command.make_context("bench", arguments)
