"""Agreement of the documents with the code: commands and Python run, files can be read, and links have targets."""

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import typer

from bench.cli.app import app, main
from bench.cli.experiment import FILES, read_experiment
from instances.files import instance_from_json, plan_from_json
from instances.generate import FAMILIES
from instances.pool_mix import POOL_MIX

ROOT = Path(__file__).parents[1]
DOCUMENTS = sorted([*(ROOT / "docs").glob("*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"])
EXECUTED = [
    ROOT / "docs" / f"{name}.md"
    for name in ("user-guide", "scheduler-authors", "formats", "metrics", "design", "python")
]
"""Documents whose commands are run, in order, in one folder; the commands of other documents are only parsed."""

RUN_OPTIONS = [
    name[2:]
    for option in typer.main.get_command(app).commands["run"].params  # type: ignore[attr-defined]
    for name in option.opts
    if name.startswith("--")
]


class Block(NamedTuple):
    """A piece of code in a document."""

    document: Path
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document.relative_to(ROOT)}:{self.line}"


def blocks(document: Path) -> Iterator[Block]:
    text = document.read_text(encoding="utf-8")
    for fenced in re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        yield Block(document, text[: fenced.start()].count("\n") + 1, fenced[1], fenced[2])


BLOCKS = [block for document in DOCUMENTS for block in blocks(document)]


def commands(block: Block) -> list[list[str]]:
    """Return the arguments of the calls of ``bench`` in a block, with any redirection of their output."""
    lines = block.text.replace("\\\n", " ").splitlines()
    calls = [shlex.split(line, comments=True) for line in lines]
    return [call[1:] for call in calls if call and Path(call[0]).name == "bench"]


def blocks_in(language: str, documents: list[Path] = DOCUMENTS) -> list[Block]:
    return [block for block in BLOCKS if block.language == language and block.document in documents]


@pytest.mark.parametrize("block", blocks_in("sh"), ids=str)
def test_commands_are_parsed(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("experiment.toml").touch()
    for arguments in commands(block):
        command: Any = typer.main.get_command(app)
        remaining = arguments[: arguments.index(">")] if ">" in arguments else arguments
        remaining = [part for part in remaining if part != "examples/experiment.toml"]
        while hasattr(command, "commands") and remaining and not remaining[0].startswith("-"):
            command = command.commands[remaining.pop(0)]
        command.make_context("bench", remaining)


@pytest.mark.parametrize("document", EXECUTED, ids=lambda document: document.name)
def test_commands_run(
    document: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for block in blocks(document):
        if block.language == "toml":
            Path("experiment.toml").write_text(block.text)
        for arguments in commands(block) if block.language == "sh" else ():
            redirection = arguments.index(">") if ">" in arguments else len(arguments)
            assert main(arguments[:redirection]) == 0, (str(block), arguments, capsys.readouterr().err)
            printed = capsys.readouterr().out
            if redirection < len(arguments):
                Path(arguments[redirection + 1]).write_text(printed)


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


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_links_to_files_have_targets(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    links = [link.partition("#")[0] for link in re.findall(r"\]\(([^)]+)\)", text) if "://" not in link]
    assert [link for link in links if link and not (document.parent / link).exists()] == []


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
