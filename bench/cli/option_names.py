"""Translation of field names to options, in errors and notes of the command line."""

import re
from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

from typer.core import TyperCommand

_OPTIONS_OF_COMMAND: ContextVar[Mapping[str, str] | None] = ContextVar("options of the running command", default=None)


class OptionCommand(TyperCommand):
    """Command whose errors name an option in place of the field that the option sets."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        names = option_names(self)
        token = _OPTIONS_OF_COMMAND.set(names)
        try:
            return super().invoke(ctx)
        except ValueError as error:
            from instances.errors import InputError  # loads NumPy, which `bench --help` does not need

            if not isinstance(error, InputError):
                raise
            raise InputError(_place(error.where, names), in_options(error.problem)) from None
        finally:
            _OPTIONS_OF_COMMAND.reset(token)


def option_names(command: Any) -> dict[str, str]:
    """Return the options of a command by the names of its parameters."""
    return {parameter.name: parameter.opts[0] for parameter in command.params if parameter.param_type_name == "option"}


def in_options(text: str) -> str:
    """Return a text in which options of the running command replace the field names in backticks."""
    names = _OPTIONS_OF_COMMAND.get() or {}
    return re.sub(r"`(\w+)`", lambda match: names.get(match[1], match[0]), text)


def _place(where: str, names: Mapping[str, str]) -> str:
    """Return the place of an error, in which an option replaces the field that it sets."""
    from instances.errors import FieldName

    if isinstance(where, FieldName) and where.field in names:
        return names[where.field] + where.suffix
    return where
