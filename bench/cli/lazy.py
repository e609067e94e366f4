"""Group of subcommands that imports the module of a subcommand on its first use."""

from collections import UserDict
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from bench.cli.option_names import OptionCommand
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
        application = typer.Typer(rich_markup_mode=None, add_completion=False)
        application.command(name, cls=OptionCommand, epilog=examples(module.EXAMPLES))(function)
        return get_command(application)


class _CommandsOnDemand(UserDict[str, Any]):
    """Subcommands by name; a look-up imports the module of the subcommand and returns its command."""

    def __getitem__(self, name: str) -> Any:
        return self.data[name].load(name)


def lazy_group(subcommands: Mapping[str, Subcommand]) -> type[TyperGroup]:
    """Return the class of a group with these subcommands, for ``typer.Typer(cls=...)``."""

    class LazyGroup(TyperGroup):
        def __init__(self, **attributes: Any) -> None:
            super().__init__(**attributes)
            self.commands = _CommandsOnDemand(subcommands)

        def format_commands(self, _context: Any, formatter: Any) -> None:
            with formatter.section("Commands"):
                formatter.write_dl([(name, subcommand.short_help) for name, subcommand in subcommands.items()])

    return LazyGroup
