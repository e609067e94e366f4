"""Option names of the command line occur only in ``bench/cli``; errors elsewhere name fields.

``python -P tests/test_option_names.py`` prints every option name in a string outside ``bench/cli``.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import typer

from bench.cli.app import app
from bench.cli.option_names import OptionCommand

ROOT = Path(__file__).parents[1]
FOLDERS = ("instances", "bench", "formulations", "heuristics", "rl", "reports")

ALLOWED = {
    ("bench/ledger/export_table.py", "--columns"): "text of docs/columns.md",
    ("bench/ledger/export_table.py", "--spreadsheet"): "text of docs/columns.md",
    ("bench/ledger/export_table.py", "--format"): "text of docs/columns.md",
    ("bench/replay/loop.py", "--gpus"): "an option of docker",
}
"""Option names that are permitted outside ``bench/cli``, by file, with the reason."""

MOST = 10
"""Largest number of permitted mentions."""


class Mention(NamedTuple):
    """An option name in a string, and whether the string is a docstring."""

    file: str
    line: int
    option: str
    in_docstring: bool


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the full name of every command without subcommands, and the command."""
    for name in list(group.commands):
        command = group.commands[name]
        full = f"{prefix} {name}".strip()
        if hasattr(command, "commands"):
            yield from commands(command, full)
        else:
            yield full, command


COMMANDS = dict(commands(typer.main.get_command(app)))
OPTIONS = {
    option
    for command in COMMANDS.values()
    for parameter in command.params
    for option in (*parameter.opts, *parameter.secondary_opts)
    if option.startswith("--")
}


def mentions(file: Path) -> Iterator[Mention]:
    """Yield the option names of the bench in the strings of a file."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    bodies = [node.body for node in ast.walk(tree) if isinstance(getattr(node, "body", None), list)]
    docstrings = {id(line.value) for body in bodies for line in body if isinstance(line, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", node.value):
                if option in OPTIONS:
                    yield Mention(str(file.relative_to(ROOT)), node.lineno, option, id(node) in docstrings)


def all_mentions() -> list[Mention]:
    """Return the option names in strings outside ``bench/cli``."""
    files = sorted(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py"))
    return [mention for path in files if ROOT / "bench" / "cli" not in path.parents for mention in mentions(path)]


def test_strings_outside_the_command_line_name_no_options() -> None:
    outside = [mention for mention in all_mentions() if not mention.in_docstring]
    assert [mention for mention in outside if (mention.file, mention.option) not in ALLOWED] == []
    assert len(outside) <= MOST
    assert {(mention.file, mention.option) for mention in outside} == set(ALLOWED)


def test_every_command_names_its_options_in_errors() -> None:
    assert [name for name, command in COMMANDS.items() if not isinstance(command, OptionCommand)] == []


def command_texts(file: Path) -> Iterator[tuple[str, str | None, list[str]]]:
    """Yield the calls of ``bench.command_text`` in a file: file and line, the command, and the options."""
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
            continue
        place, first = f"{file.relative_to(ROOT)}:{node.lineno}", node.args[0] if node.args else None
        text = first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None
        if node.func.id == "command_line":
            yield place, text, [keyword.arg for keyword in node.keywords if keyword.arg]
        elif node.func.id == "option" and text is not None:
            yield place, None, [text]


def test_commands_in_texts_exist() -> None:
    wrong = []
    for path in (path for folder in ("bench", "reports") for path in (ROOT / folder).rglob("*.py")):
        if "command_text" not in path.read_text(encoding="utf-8"):
            continue
        for place, command, names in command_texts(path):
            params = [] if command is None else COMMANDS[command].params
            permitted = {option for param in params for option in (*param.opts, *param.secondary_opts)} or OPTIONS
            options = [f"{'-' if len(name) == 1 else '--'}{name.replace('_', '-')}" for name in names]
            wrong += [f"{place}: {option}" for option in options if option not in permitted]
    assert wrong == []


if __name__ == "__main__":
    for mention in all_mentions():
        print(f"{mention.file}:{mention.line}: {mention.option}{' (docstring)' * mention.in_docstring}")
