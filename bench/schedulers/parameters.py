"""Parameters of schedulers: their dataclass fields. ``--param name.field=value`` sets one, and ``v1,v2`` sweeps it.

A field of type ``Path`` is a file, and the content of the file is part of the value. The value
``policy.pt#3f9c2a1b0d4e`` has the name of the file and the beginning of the SHA-256 of its content. So a run counts as
a different run once the file's content changes.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, Field, dataclass, fields, is_dataclass
from enum import Enum
from itertools import product
from os.path import isfile
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from bench.api import Scheduler
from bench.provenance import file_hash
from instances.errors import FieldName, InputError, unknown_name

MOST_VARIANTS = 1000
"""Largest number of variants of one scheduler in one command."""

_DIGEST_LENGTH = 12
"""Number of hexadecimal digits of a file's SHA-256 in a value."""

_BOOLEANS = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
"""Texts of Booleans; case does not matter."""

_IN_WORDS: dict[Any, str] = {bool: "Boolean (true or false)", int: "whole number", float: "number"}
"""Names of types in errors."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """Parameter of a scheduler: its name, its type, and its value as JSON (``None`` if it has no default)."""

    name: str
    type: str
    value: object
    required: bool = False

    @property
    def is_file(self) -> bool:
        """Whether the parameter names a file; its value then includes a digest of the content."""
        return "Path" in self.type


def parse_overrides(texts: Iterable[str], names: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return ``NAME.FIELD=VALUE`` texts as values by scheduler and field; the last text of a field wins.

    Fields are checked when the scheduler is loaded.

    Raises
    ------
    InputError
        If a text has another form or names an unknown scheduler.
    """
    overrides: dict[str, dict[str, str]] = {}
    for text in texts:
        target, equals_sign, value = text.partition("=")
        name, dot, field = target.strip().rpartition(".")
        if not (equals_sign and dot and name and field):
            raise InputError(FieldName("parameters"), f'"{text}" is not of the form SCHEDULER.PARAMETER=VALUE')
        if name not in names:
            raise unknown_name(FieldName("parameters"), "scheduler", name, list(names))
        overrides.setdefault(name, {})[field] = value.strip()
    return overrides


def variants(overrides: Mapping[str, str], name: str) -> list[dict[str, str]]:
    """Return every combination of comma-separated values: ``{"a": "1,2", "b": "3,4"}`` gives four variants.

    Parameters
    ----------
    overrides
        Values by field; an empty mapping gives one variant, the defaults.
    name
        Name of the scheduler, for errors.

    Raises
    ------
    InputError
        If one of several values is empty, or there are more than ``MOST_VARIANTS``.
    """
    values: dict[str, list[str]] = {}
    for field, text in overrides.items():
        values[field] = list(dict.fromkeys(value.strip() for value in text.split(",")))
        if "" in values[field] and text:
            raise InputError(_place(f"{name}.{field}={text}"), "has an empty value; write VALUE,VALUE")
    count = math.prod(len(texts) for texts in values.values())
    if count > MOST_VARIANTS:
        raise InputError(_place(name), f"its values make {count} variants; expected {MOST_VARIANTS} or fewer")
    return [dict(zip(values, combination, strict=True)) for combination in product(*values.values())]


def instantiate(scheduler: type[Scheduler], overrides: Mapping[str, str], name: str) -> Scheduler:
    """Return the scheduler with ``overrides`` in place of its defaults; ``name`` is its name in errors.

    Raises
    ------
    InputError
        If a field is unknown, a value has the wrong type, the scheduler refuses a value with a ``ValueError``, or a
        field without default has no value.
    """
    definitions = _fields(scheduler)
    for field in overrides:
        if field not in definitions:
            raise unknown_name(_place(f"{name}.{field}"), "parameter", field, list(definitions))
    for field, definition in definitions.items():
        if _required(definition) and field not in overrides:
            raise InputError(_place(f"{name}.{field}"), f"{name} needs a value for it, as it has no default")
    hints = get_type_hints(scheduler)
    values = {
        field: parse_value(text, hints[field], _place(f"{name}.{field}={text}")) for field, text in overrides.items()
    }
    try:
        return scheduler(**values)
    except ValueError as error:
        values_text = " ".join(f"{field}={text}" for field, text in overrides.items())
        raise InputError(_place(f"{name}: {values_text}") if values_text else name, str(error)) from None


def parse_value(text: str, hint: Any, where: str) -> object:
    """Return ``text`` as a value of the type ``hint``.

    Raises
    ------
    InputError
        If ``text`` is not a value of that type, or such values cannot be written on a command line.
    """
    if get_origin(hint) in (UnionType, Union):
        options = get_args(hint)
        if NoneType in options and text.lower() in ("none", "null", ""):
            return None
        return _first_matching_type(text, [option for option in options if option is not NoneType], hint, where)
    if get_origin(hint) is Literal:
        by_name: dict[str, object] = {str(choice): choice for choice in get_args(hint)}
        return _choice(text, by_name, where)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _choice(text, {str(member.value): member for member in hint}, where)
    try:
        if hint is bool:
            return _BOOLEANS[text.lower()]
        if hint is int:
            return int(text)
        if hint is float:
            number = float(text)
            if math.isnan(number):
                raise ValueError
            return number
    except (KeyError, ValueError):
        raise InputError(where, f'"{text}" is not a {_IN_WORDS[hint]}') from None
    if hint is str:
        return text
    if hint is Path:
        return _file(text, where)
    raise InputError(where, f"a parameter of type {type_name(hint)} cannot be set from the command line")


def _place(parameter: str) -> FieldName:
    return FieldName("parameters", f" {parameter}")


def _file(text: str, where: str) -> Path:
    """Return the file that ``text`` names; ``text`` may end with a digest, as in the values of rows."""
    # ``isfile`` returns ``False`` for invalid names, such as very long ones; ``Path.is_file`` raises an error.
    path, _, digest = (text, "", "") if isfile(text) else text.rpartition("#")  # noqa: PTH113
    if not isfile(path):  # noqa: PTH113
        raise InputError(where, f'there is no file "{path or text}"')
    file = Path(path)
    if digest and digest != _digest(file):
        raise InputError(where, f'"{path}" has changed since: its SHA-256 begins with {_digest(file)}')
    return file


def _digest(path: Path) -> str:
    return file_hash(path)[:_DIGEST_LENGTH]


def _first_matching_type(text: str, options: Sequence[Any], hint: Any, where: str) -> object:
    """Return ``text`` as a value of the first of the types ``options`` that accepts it."""
    for option in options:
        try:
            return parse_value(text, option, where)
        except InputError:
            if len(options) == 1:
                raise
    raise InputError(where, f'"{text}" is not of type {type_name(hint)}')


def _choice(text: str, choices: Mapping[str, object], where: str) -> object:
    if text not in choices:
        raise unknown_name(where, "value", text, list(choices))
    return choices[text]


def type_name(hint: Any) -> str:
    """Return the name of a type as in source code, such as ``int | None``."""
    return hint.__name__ if isinstance(hint, type) else str(hint).replace("typing.", "")


def describe_parameters(scheduler: type[Scheduler], instance: Scheduler | None) -> tuple[Parameter, ...]:
    """Return the parameters of a scheduler, with the values of ``instance``; without values if that is ``None``."""
    hints = get_type_hints(scheduler)
    return tuple(
        Parameter(
            name,
            type_name(hints[name]),
            None if instance is None else _as_json(getattr(instance, name)),
            _required(field),
        )
        for name, field in _fields(scheduler).items()
    )


def _fields(scheduler: type[Scheduler]) -> dict[str, "Field[Any]"]:
    return {field.name: field for field in fields(scheduler) if field.init} if is_dataclass(scheduler) else {}


def _required(field: Field[Any]) -> bool:
    return field.default is MISSING and field.default_factory is MISSING


def _as_json(value: object) -> object:
    """Return a value as a JSON value; different values give different JSON values."""
    if isinstance(value, Enum):
        return _as_json(value.value)
    if isinstance(value, Path):
        return f"{value}#{_digest(value)}" if value.is_file() else str(value)
    if isinstance(value, list | tuple):
        return [_as_json(entry) for entry in value]
    if isinstance(value, dict):
        return {str(key): _as_json(entry) for key, entry in value.items()}
    if value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value)):
        return value
    return repr(value)
