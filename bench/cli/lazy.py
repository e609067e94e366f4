"""Group of subcommands that imports the module of a subcommand on its first use."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from bench.cli.options import examples


@dataclass(frozen=True, slots=True)
class Subcommand:
    """Location of a subcommand's code, and its line in the help.

    Attributes
    ----------
    module
        Module with the function and its ``EXAMPLES``, relative to ``bench.cli.commands``.
    function
        Name of the function, or of a ``typer.Typer`` with its own subcommands.
    short_help
        Line about the subcommand in the help of its group.
    """

    module: str
    function: str
    short_help: str

    def load(self, name: str) -> Any:
        """Import the module and return the command."""
        module = import_module(f"bench.cli.commands.{self.module}")
        function = getattr(module, self.function)
        if isinstance(function, typer.Typer):
            return get_command(function)
        alone = typer.Typer(rich_markup_mode=None, add_completion=False)
        alone.command(name, epilog=examples(module.EXAMPLES))(function)
        return get_command(alone)


class _Loaded(Mapping[str, Any]):
    """Commands by name, each imported on first access."""

    def __init__(self, subcommands: Mapping[str, Subcommand]) -> None:
        self._subcommands = subcommands

    def __getitem__(self, name: str) -> Any:
        return self._subcommands[name].load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._subcommands)

    def __len__(self) -> int:
        return len(self._subcommands)


def lazy_group(subcommands: Mapping[str, Subcommand]) -> type[TyperGroup]:
    """Return the class of a group with these subcommands, for ``typer.Typer(cls=...)``."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = _Loaded(subcommands)  # type: ignore[assignment]  # the group never adds a command

        def format_commands(self, _context: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, subcommand.short_help) for name, subcommand in subcommands.items()])

    return LazyGroup
