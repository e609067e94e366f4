"""Experiment files: the options of ``bench run`` as TOML, so that users can store and repeat a comparison.

The keys are the names of the options; lists replace commas. Parameters may be a table:

.. code-block:: toml

    instances = ["64gpu", "mine/*.json"]
    schedulers = ["igniter", "colgen"]
    time-limit = 60

    [param.colgen]
    plan_class = ["spatial", "split"]
"""

import re
from collections.abc import Callable, Collection, Mapping
from functools import wraps
from pathlib import Path
from typing import Any

import typer

from bench.selection import anchored
from instances import InputError
from instances.errors import FieldName, printable, unknown_name
from instances.files import read_toml

SUFFIX = ".toml"

PARAMETERS = "param"
"""Key that may be a table of schedulers with their parameters."""

FILES = ("instances", "arrivals")
"""Keys whose values may be input files."""

OUTPUTS = ("ledger", "plans")
"""Keys of output paths. The paths must lie in the folder of the experiment file: its author may be a stranger."""


def read_experiment(path: Path, options: Collection[str], repeatable: Collection[str]) -> dict[str, str | list[str]]:
    """Return the values of an experiment file by option, in the form of the command line.

    ``options`` are the known keys; the values of ``repeatable`` keys are lists. Paths are relative to the folder of
    the file. The command checks whether a value is valid for its option.

    Raises
    ------
    InputError
        If the file cannot be read, has an unknown key or a value of a wrong kind, or has an output path outside its
        folder.
    """
    where = printable(str(path))
    values: dict[str, str | list[str]] = {}
    for key, value in read_toml(path).items():
        if key not in options:
            raise unknown_name(where, "key", printable(key[:60]), list(options))
        place = f"{where}: {key}"
        texts = _parameters(value, place) if key == PARAMETERS and isinstance(value, Mapping) else _texts(value, place)
        if key in OUTPUTS:
            texts = [_output_in_folder(text, path.parent, place) for text in texts]
        elif key in FILES:
            texts = [anchored(text, path.parent) for text in texts]
        values[key] = texts if key in repeatable else ",".join(texts)
    return values


def _parameters(table: Mapping[str, object], where: str) -> list[str]:
    """Return a table of schedulers as ``name.parameter=value,value``."""
    texts = []
    for scheduler, values in table.items():
        place = printable(f"{where}.{scheduler[:60]}")
        if not isinstance(values, Mapping):
            raise InputError(place, "is not a table; expected parameters, such as [param.colgen] and plan_class = ...")
        for name, value in values.items():
            value_texts = _texts(value, printable(f"{place}.{name[:60]}"), true="true", false="false")
            texts.append(f"{scheduler}.{name}={','.join(value_texts)}")
    return texts


def _texts(value: object, where: str, true: str = "on", false: str = "off") -> list[str]:
    """Return a value, or the entries of a list, as texts; ``true`` and ``false`` are the texts of Booleans."""
    entries = value if isinstance(value, list) else [value]
    if not entries or not all(isinstance(entry, str | bool | int | float) for entry in entries):
        raise InputError(where, "expected text, a number, true or false, or a list of at least one of these")
    try:
        return [(true if entry else false) if isinstance(entry, bool) else str(entry) for entry in entries]
    except ValueError:  # Python does not convert whole numbers of thousands of digits
        raise InputError(where, "is a number of thousands of digits; expected a shorter one") from None


def _output_in_folder(text: str, folder: Path, where: str) -> str:
    """Return an output path; check that it lies in ``folder``."""
    path = folder / text
    try:
        contained = path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError):
        raise InputError(where, "is not a valid name of a file") from None
    if not contained:
        problem = f'"{printable(text[:60])}" lies outside the folder of the experiment file'
        raise InputError(where, f"{problem}; use --{where.rpartition(': ')[2]} for such a path")
    return str(path)


_FILE_KEY = "bench.cli.experiment"
"""Key of the experiment file in the metadata of a typer context."""


def read_experiment_argument(context: typer.Context, arguments: list[str] | None) -> list[str]:
    """Read the experiment file among ``arguments``, and return the other arguments.

    The values of the file become the defaults of the options.

    Raises
    ------
    InputError
        If there are several experiment files, or the file is wrong.
    """
    names = [argument for argument in arguments or () if not argument.endswith(SUFFIX)]
    files = [argument for argument in arguments or () if argument.endswith(SUFFIX)]
    if len(files) > 1:
        raise InputError("EXPERIMENT", f"{' and '.join(files)}; expected one {SUFFIX} file")
    if not files:
        return names
    (file,) = files
    options = {name[2:]: option for option in context.command.params for name in option.opts if name.startswith("--")}
    repeatable = [name for name, option in options.items() if getattr(option, "multiple", False)]
    values: dict[str, Any] = {}
    for key, value in read_experiment(Path(file), list(options), repeatable).items():
        option = options[key]
        try:
            option.process_value(context, value)
        except typer.BadParameter as error:
            raise InputError(f"{file}: {key}", error.message.removeprefix("Value error, ").strip()) from None
        values[str(option.name)] = value
    if names:  # names on the command line count as --instances
        values.pop("instances", None)
    context.default_map = values
    context.meta[_FILE_KEY] = file
    return names


def attributes_errors_to_file(command: Callable[..., None]) -> Callable[..., None]:
    """Return the command with errors that name the experiment file if the wrong value comes from the file."""

    @wraps(command)
    def wrapped(*, context: typer.Context, **options: Any) -> None:
        file, keys = context.meta.get(_FILE_KEY), _keys_in_effect(context)
        if PARAMETERS in keys.values() and "schedulers" not in keys and options["schedulers"] is not None:
            # The file may set parameters of schedulers that the command line leaves out.
            names = [name.strip() for name in re.split("[,@]", options["schedulers"])]
            parameters = options["parameters"]
            options["parameters"] = [text for text in parameters if text.partition("=")[0].rpartition(".")[0] in names]
        try:
            command(context=context, **options)
        except InputError as error:
            field = error.where.field if isinstance(error.where, FieldName) else ""
            if (key := keys.get(field)) is None:
                raise
            raise InputError(f"{file}: {key}{error.where.removeprefix(field)}", error.problem) from None

    return wrapped


def _keys_in_effect(context: typer.Context) -> dict[str, str]:
    """Return the keys of the experiment file that the command line does not override, by parameter name."""
    return {
        str(option.name): name[2:]
        for option in context.command.params
        for name in option.opts
        if option.name in (context.default_map or {})
        and getattr(context.get_parameter_source(str(option.name)), "name", "") == "DEFAULT_MAP"
    }
