"""Agreement of the documents with the code: commands and Python run, files can be read, and links have targets."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from bench.cli.app import app, main
from bench.cli.experiment import FILES, read_experiment
from instances.files import instance_from_json, plan_from_json
from instances.generate import FAMILIES
from instances.pool_mix import POOL_MIX
from tests.documents import (
    DOCUMENTS,
    NOT_RUN,
    ROOT,
    SHORTER,
    Block,
    blocks,
    exit_code,
    lines,
    shorter,
    steps,
)

EXECUTED = [
    ROOT / "docs" / f"{name}.md"
    for name in ("user-guide", "scheduler-authors", "formats", "metrics", "design", "python")
]
"""Documents whose Python is run and whose JSON and TOML are read."""

WITH_COMMANDS = sorted(
    {block.document for document in DOCUMENTS for block in blocks(document) if block.language == "sh"}
)

RUN_OPTIONS = [
    name[2:]
    for option in typer.main.get_command(app).commands["run"].params  # type: ignore[attr-defined]
    for name in option.opts
    if name.startswith("--")
]


BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]


def commands(block: Block) -> list[list[str]]:
    """Return the arguments of the calls of ``bench`` in a block, with any redirection of their output."""
    calls = [shlex.split(line, comments=True) for line in lines(block)]
    return [call[1:] for call in calls if call and Path(call[0]).name == "bench"]


def blocks_in(language: str, documents: list[Path] = DOCUMENTS) -> list[Block]:
    return [block for block in BLOCKS if block.language == language and block.document in documents]


def test_commands_are_parsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("experiment.toml").touch()
    for arguments in (arguments for block in blocks_in("sh") for arguments in commands(block)):
        command: Any = typer.main.get_command(app)
        remaining = arguments[: arguments.index(">")] if ">" in arguments else arguments
        remaining = [part for part in remaining if part != "examples/experiment.toml"]
        while hasattr(command, "commands") and remaining and not remaining[0].startswith("-"):
            command = command.commands[remaining.pop(0)]
        command.make_context("bench", remaining)


def in_shell(line: str, folder: Path, *packages: Path) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder as a user does who has activated the environment."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    if packages:
        environment["PYTHONPATH"] = os.pathsep.join(map(str, packages))
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def call_here(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Run a command of a document in this process if it is one of ``bench`` without patterns of a shell.

    Return its exit code and what it printed as an error.
    """
    program, *arguments = shlex.split(line, comments=True)
    has_pattern = any("*" in word and word[0] != "'" for word in shlex.split(line, comments=True, posix=False))
    if program != "bench" or has_pattern:
        done = in_shell(line, Path.cwd())
        return done.returncode, done.stderr
    redirection = arguments.index(">") if ">" in arguments else len(arguments)
    capsys.readouterr()
    code = main(arguments[:redirection])
    printed = capsys.readouterr()
    if redirection < len(arguments):
        Path(arguments[redirection + 1]).write_text(printed.out)
    return code, printed.err


class ReadmePlan(NamedTuple):
    """Calls of README's commands from services to files, and the folder with their files."""

    folder: Path
    calls: tuple[subprocess.CompletedProcess[str], ...]


PLANNED = "gpus.csv -o plan.json"
"""End of the command that README and other documents have."""


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> ReadmePlan:
    folder = tmp_path_factory.mktemp("planned")
    (block,) = (block for block in blocks_in("sh", [ROOT / "README.md"]) if PLANNED in block.text)
    return ReadmePlan(folder, tuple(in_shell(line, folder) for line in lines(block)))


def test_readme_goes_from_services_to_files(planned: ReadmePlan) -> None:
    assert [call.returncode for call in planned.calls] == [0, 0, 0]
    _, plan, written = planned.calls
    numbers = [line[0] for line in plan.stdout.splitlines() if line[:1].isdigit() and " a100 " not in line[:8]]
    assert numbers == ["1", "2", "3", "4", "5"]
    assert plan.stdout.startswith("1 saves ")
    assert "margins on times beside others cover 95 % of the catalogue's 1,837 measured latencies" in plan.stderr
    assert re.search(r"  the margin costs (nothing|up to \$\d+\.\d\d/h): without the margin \d GPU", plan.stdout)
    assert "interference was measured between 2" in plan.stdout
    undropped = r"  the same plan on servers that drop no requests: \d+\.\d % of all requests are in time, "
    assert re.search(undropped, plan.stdout)
    assert "read back and judged: every constraint holds" in written.stdout
    assert (planned.folder / "out" / "compose.yaml").exists()


@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda document: document.name)
def test_commands_run_with_shorter_limits(
    document: Path,
    tmp_path: Path,
    planned: ReadmePlan,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for folder in ("examples", "instances/measured"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    shutil.copytree(ROOT / "instances/library/entries", tmp_path / "entries")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [entry for entry in sys.path if entry])  # the copied folders are no packages
    for block, line in steps(document, tmp_path):
        if line.endswith(PLANNED):
            shutil.copy(planned.folder / "plan.json", tmp_path)
            continue
        code, errors = call_here(shorter(line), capsys)
        assert code == exit_code(line), (str(block), shorter(line), errors)


@pytest.mark.soak
@pytest.mark.parametrize("document", WITH_COMMANDS, ids=lambda document: document.name)
def test_commands_run_in_a_clone_as_they_are(document: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True)
    for block, line in steps(document, clone):
        done = in_shell(line, clone, clone)
        assert done.returncode == exit_code(line), (str(block), line, done.stderr[-2000:])


def test_every_exception_is_a_line_of_a_document() -> None:
    every_line = [line for document in WITH_COMMANDS for block in blocks_in("sh", [document]) for line in lines(block)]
    assert [part for part in NOT_RUN if not any(part in line for line in every_line)] == []
    unused = dict(SHORTER)
    for line in every_line:
        for pattern, replacement in SHORTER.items():
            shortened = re.sub(pattern, replacement, line)
            if shortened != line:
                unused.pop(pattern, None)
            line = shortened
    assert unused == {}


def test_a_sweep_prints_the_names_that_the_guide_states(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    guide = (ROOT / "docs/user-guide.md").read_text(encoding="utf-8")
    calls = (call for block in blocks_in("sh", EXECUTED[:1]) for call in commands(block))
    (sweep,) = (call for call in calls if any(",100" in part for part in call))
    assert main(sweep) == 0
    printed = capsys.readouterr().out
    stated_names = re.findall(r"`([\w-]+\[\w+=\w+\])`", guide)
    assert len(stated_names) == 4
    assert all(name in printed for name in stated_names)


@pytest.mark.parametrize("block", blocks_in("json", EXECUTED), ids=str)
def test_json_is_read_by_its_reader(block: Block) -> None:
    data = json.loads(block.text)
    if "objective" in data:
        instance_from_json(data)
    else:
        plan_from_json(data)


@pytest.mark.parametrize("block", blocks_in("toml", EXECUTED), ids=str)
def test_toml_is_read_by_its_reader(block: Block, tmp_path: Path) -> None:
    if "project" in tomllib.loads(block.text):
        return
    (tmp_path / "experiment.toml").write_text(block.text)
    assert read_experiment(tmp_path / "experiment.toml", RUN_OPTIONS, [*FILES[:1], "param"])


@pytest.mark.parametrize("document", EXECUTED, ids=lambda document: document.name)
def test_python_runs(document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {"__name__": "document"}
    for block in blocks_in("python", [document]):
        exec(compile(block.text, str(block), "exec"), names)


def test_links_to_files_have_targets() -> None:
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
        assert [(document.name, link) for link in links if link and not (document.parent / link).exists()] == []


def test_every_family_is_documented(capsys: pytest.CaptureFixture[str]) -> None:
    guide = (ROOT / "docs/user-guide.md").read_text(encoding="utf-8")
    families = [*FAMILIES, POOL_MIX]
    assert [name for name in families if f"| `{name}` |" not in guide] == []
    assert main(["generate", "--help"]) == 0
    shown = capsys.readouterr().out
    assert [name for name in families if f"`{name}`" not in shown] == []


def test_every_option_that_the_guide_names_exists() -> None:
    guide = (ROOT / "docs/user-guide.md").read_text(encoding="utf-8")
    of_run = re.search(r"^## Running$(.*?)^## ", guide, re.MULTILINE | re.DOTALL)
    assert of_run is not None
    assert set(re.findall(r"--([a-z][a-z-]*)", of_run[1])) - {"format"} <= set(RUN_OPTIONS)
