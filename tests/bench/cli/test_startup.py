"""The command line before it does anything: what it loads, what its help says, and that its examples are right."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer

from bench.cli.app import EXAMPLES, app, main
from bench.cli.commands.check_plugin import EXAMPLES as CHECK_PLUGIN
from bench.cli.commands.compare import EXAMPLES as COMPARE
from bench.cli.commands.doctor import EXAMPLES as DOCTOR
from bench.cli.commands.export import EXAMPLES as EXPORT
from bench.cli.commands.figures import EXAMPLES as FIGURES
from bench.cli.commands.generate import EXAMPLES as GENERATE
from bench.cli.commands.listing import EXAMPLES as LISTING
from bench.cli.commands.max_rate import EXAMPLES as MAX_RATE
from bench.cli.commands.online import EXAMPLES as ONLINE
from bench.cli.commands.profile.fit import EXAMPLES as PROFILE
from bench.cli.commands.run import EXAMPLES as RUN
from bench.cli.commands.schema import EXAMPLES as SCHEMA
from bench.cli.commands.show import EXAMPLES as SHOW
from bench.cli.commands.simulate import EXAMPLES as SIMULATE
from bench.cli.commands.verify import EXAMPLES as VERIFY

LIBRARIES = ("torch", "ortools", "pyomo", "matplotlib", "pandas", "highspy")
HEAVY = (*LIBRARIES, "numpy", "numba", "scipy", "rich", "pydantic", "instances")
COMMANDS = (
    *("run", "list", "show", "verify", "simulate", "max-rate", "online"),
    *("generate", "figures", "compare", "check-plugin", "export", "schema", "doctor"),
)
ALL_EXAMPLES = (
    *(*EXAMPLES, *CHECK_PLUGIN, *COMPARE, *DOCTOR, *EXPORT, *FIGURES, *GENERATE, *LISTING, *MAX_RATE, *ONLINE),
    *(*PROFILE, *RUN, *SCHEMA, *SHOW, *SIMULATE, *VERIFY),
)


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
    assert all(f"\n  {command} " in shown for command in (*COMMANDS, "profile"))


@pytest.mark.parametrize("command", [*COMMANDS, "profile fit"])
def test_every_command_has_help_with_examples(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*command.split(), "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"Usage: bench {command}" in shown
    assert f"    bench {command}" in shown.partition("\n  Examples:\n")[2]


@pytest.mark.parametrize("example", ALL_EXAMPLES)
def test_examples_are_accepted_by_the_parser(example: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("experiment.toml").touch()
    name, *arguments = shlex.split(example.partition(" > ")[0], comments=True)
    assert name == "bench"
    command: Any = typer.main.get_command(app)
    while hasattr(command, "commands"):
        command = command.commands[arguments.pop(0)]
    command.make_context("bench", arguments)
