"""Options in place of field names: the one translation of errors and notes for the command line."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from typer.core import TyperCommand

_RUNNING: ContextVar[Mapping[str, str] | None] = ContextVar("options of the running command", default=None)


class OptionCommand(TyperCommand):
    """Command whose errors name its options in place of the fields that these options set."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        names = option_names(self)
        running = _RUNNING.set(names)
        try:
            return super().invoke(ctx)
        except ValueError as error:
            from instances.errors import InputError  # loads NumPy, which `bench --help` does not need

            if not isinstance(error, InputError):
                raise
            raise InputError(_place(error.where, names), in_options(error.problem)) from None
        finally:
            _RUNNING.reset(running)


def option_names(command: Any) -> dict[str, str]:
    """Return the options of a command by the names of its parameters."""
    return {parameter.name: parameter.opts[0] for parameter in command.params if parameter.param_type_name == "option"}


def in_options(text: str) -> str:
    """Return a text with the options of the running command in place of names of fields in backticks."""
    names = _RUNNING.get() or {}
    return re.sub(r"`(\w+)`", lambda name: names.get(name[1], name[0]), text)


def _place(where: str, names: Mapping[str, str]) -> str:
    from instances.errors import FieldName

    if isinstance(where, FieldName) and where.field in names:
        return names[where.field] + where.suffix
    return where
