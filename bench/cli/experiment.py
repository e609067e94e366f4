"""Experiment files of ``bench run``: their keys are default values of the options."""

import re
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from bench.experiment import SUFFIX, read_experiment
from bench.selection import anchored
from instances import InputError

FILES = ("instances", "arrivals")
"""Keys whose values may be input files; relative paths start at the folder of the experiment file."""

_FILE = "bench.experiment"
"""Key of the experiment file in the metadata of a typer context."""


def take_experiment(context: typer.Context, things: list[str] | None) -> list[str]:
    """Read the experiment file among ``things``, make its values the options' defaults, and return the other names.

    Raises
    ------
    InputError
        If there are several experiment files, or the file is wrong.
    """
    if not things:
        return []

    rest = [thing for thing in things if not thing.endswith(SUFFIX)]
    found = [thing for thing in things if thing.endswith(SUFFIX)]
    if len(found) > 1:
        raise InputError("EXPERIMENT", f"{' and '.join(found)}; expected one {SUFFIX} file")
    if not found:
        return rest
    (file,) = found
    options = {name[2:]: option for option in context.command.params for name in option.opts if name.startswith("--")}
    repeatable = [name for name, option in options.items() if getattr(option, "multiple", False)]
    values: dict[str, Any] = {}
    for key, value in read_experiment(Path(file), list(options), repeatable).items():
        folder = Path(file).parent
        if key in FILES:
            value = anchored(value, folder) if isinstance(value, str) else [anchored(text, folder) for text in value]
        option = options[key]
        try:
            option.process_value(context, value)
        except typer.BadParameter as error:
            raise InputError(f"{file}: {key}", error.message.removeprefix("Value error, ").strip()) from None
        values[str(option.name)] = value
    if rest:  # given on the command line, like --instances
        values.pop("instances", None)
    context.default_map = values
    context.meta[_FILE] = file
    return rest


def names_experiments(command: Callable[..., None]) -> Callable[..., None]:
    """Attribute an option's error to the experiment file if its value comes from there."""

    @wraps(command)
    def told(*, context: typer.Context, **options: Any) -> None:
        file, given = context.meta.get(_FILE), _given(context)
        if "param" in given and "schedulers" not in given and options["schedulers"] is not None:
            options["parameters"] = _of(options["schedulers"], options["parameters"])
        try:
            command(context=context, **options)
        except InputError as error:
            option = re.match(r"(?:--)?([a-z-]+)", error.where)
            if option is None or option[1] not in given:
                raise
            raise InputError(f"{file}: {error.where.removeprefix('--')}", error.problem) from None

    return told


def _of(schedulers: str, parameters: list[str]) -> list[str]:
    """Return the ``parameters`` of the ``schedulers`` on the command line; the file may set those of others."""
    chosen = [name.strip() for name in re.split("[,@]", schedulers)]
    return [text for text in parameters if text.partition("=")[0].rpartition(".")[0] in chosen]


def _given(context: typer.Context) -> set[str]:
    """Return the options whose values come from the experiment file."""
    return {
        name[2:]
        for option in context.command.params
        for name in option.opts
        if option.name in (context.default_map or {})
        and getattr(context.get_parameter_source(str(option.name)), "name", "") == "DEFAULT_MAP"
    }
