"""Error messages for files: one line with the place, the problem and the expected value."""

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

from pydantic import ValidationError

from instances.errors import InputError, printable, shortened, unknown_name
from instances.files.models import EMBEDDED, NAMED, VERSION, adapter_of, schema_of
from instances.mig import MIG_TABLE
from instances.performance import performance_model_names

Location = tuple[int | str, ...]
Problem = tuple[Location, str]
Schema = Mapping[str, Any]
Findings = Sequence[Mapping[str, Any]]
"""Pydantic's descriptions of the errors in some data."""
Wording = Callable[[Findings], Sequence[Problem]]
AnyModel = TypeVar("AnyModel")

_MOST_EXPLAINED = 100
"""Largest number of problems that are sorted to show the most important; a million take minutes."""

_PLAIN = {
    "Field required": "the key is missing",
    "Extra inputs are not permitted": "the key is unknown",
}
"""Plain words for some of pydantic's messages."""

_KEYS_OF_KINDS: Mapping[str, frozenset[str]] = {
    "certificate": frozenset({"claim", "proof"}),
    "instance": frozenset({"workloads", "gpus"}),
    "plan": frozenset({"instance", "gpus"}),
}
"""Keys by which a kind of files is recognised, in this order."""

REMOVED: Mapping[str, str] = {
    "immediate_dispatch": "is no longer a field: partial batches start at once; remove it from the file",
}
"""Keys that files of earlier versions may have, and what to do about them."""


def validated(
    model: type[AnyModel], data: object, where: str, wording: Wording | None = None, *, strict: bool | None = None
) -> AnyModel:
    """Return ``data`` as ``model``, a type that pydantic supports.

    Parameters
    ----------
    where
        Place of the data, which errors name before the field. It may be empty.
    wording
        Function that makes messages of pydantic's findings; by default the messages are for files that people write.
    strict
        Whether values of similar types are refused; by default ``model`` decides.

    Raises
    ------
    InputError
        If ``data`` contradicts the schema. The error names the most important contradiction or, with ``wording``, the
        first.
    """
    hashable_model = cast(Hashable, model)
    try:
        value: AnyModel = adapter_of(hashable_model).validate_python(data, strict=strict)
        return value
    except ValidationError as error:
        findings = error.errors(include_url=False, include_context=False)
    if wording is not None:
        raise input_error(where, wording(findings[:1]))
    raise input_error(
        where, _problems(schema_of(hashable_model), findings[:_MOST_EXPLAINED]), len(findings[_MOST_EXPLAINED:])
    )


def refuse_other_kind(data: object, where: str, expected: str) -> None:
    """Raise an ``InputError`` if ``data`` is an instance, a plan or a certificate, and not of the kind ``expected``."""
    if not isinstance(data, dict):
        return
    found = next((kind for kind, keys in _KEYS_OF_KINDS.items() if keys <= data.keys()), expected)
    if found != expected:
        article = "an" if found == "instance" else "a"
        raise InputError(where, f"is {article} {found}; expected {'an' if expected == 'instance' else 'a'} {expected}")


def validated_text(model: type[AnyModel], text: bytes | str, where: str) -> AnyModel:
    """Return the JSON ``text`` as ``model``; the errors are those of ``validated``.

    It is faster than ``json.loads`` and ``validated``.
    """
    try:
        value: AnyModel = adapter_of(cast(Hashable, model)).validate_json(text)
        return value
    except ValidationError:
        pass
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        raise input_error(where, [((), "is no JSON")]) from None
    return validated(model, data, where)


def in_pydantic_words(findings: Findings) -> list[Problem]:
    """Return findings in pydantic's words, for data that programs write."""
    return [(finding["loc"], finding["msg"].removeprefix("Value error, ")) for finding in findings]


def in_plain_words(findings: Findings) -> list[Problem]:
    """Return findings in pydantic's words, adapted to the other messages about files."""
    problems = []
    for location, text in in_pydantic_words(findings):
        plain = _PLAIN.get(text, text.replace("Input should be", "expected"))
        problems.append((location, "expected an object" if plain.startswith("expected a valid dictionary") else plain))
    return problems


def input_error(where: str, problems: Sequence[Problem], without_text: int = 0) -> InputError:
    """Build the error for the first problem; it also tells how many others there are.

    ``without_text`` is the number of problems that are not in ``problems``.
    """
    location, text = problems[0]
    others = len(problems) - 1 + without_text
    suffix = f" (and {others} more)" if others else ""
    place = ": ".join(filter(None, (printable(where), _path(location))))
    return InputError(place, printable(text + suffix))


def _problems(schema: Schema, findings: Findings) -> list[Problem]:
    """Make messages of findings, by importance: a newer version, unknown keys, wrong values, missing keys."""
    newer: list[Problem] = []
    unknown: list[Problem] = []
    wrong: list[Problem] = []
    missing: list[Problem] = []
    intended: set[Location] = set()
    for finding in findings:
        location: Location = finding["loc"]
        # pydantic puts the form of the instance into the location; it is no key of the file.
        if location[:1] == ("instance",) and location[1:2] in ((NAMED,), (EMBEDDED,)):
            location = location[:1] + location[2:]
        value = finding["input"]
        match finding["type"]:
            case "extra_forbidden" | "unexpected_keyword_argument":  # the latter from dataclasses
                *parents, key = location
                if key in REMOVED:
                    unknown.append((location, REMOVED[str(key)]))
                    continue
                known_keys = [
                    name
                    for alternative in _node(schema, parents).alternatives
                    for name in alternative.get("properties", ())
                ]
                text = unknown_name("", "key", shortened(str(key)), known_keys).problem
                intended.update((*parents, name) for name in known_keys if text.endswith(f'did you mean "{name}"?'))
                unknown.append((location, text))
            case "missing":
                missing.append((location, _missing(_node(schema, location), location)))
            case "invalid_key":
                wrong.append((location[:-1], f"has the key {_quoted(location[-1])}; expected keys that are text"))
            case "string_unicode":  # of a value, or of a key of the object at this location
                wrong.append((location, f"has {_quoted(value)}, which holds half a character; expected Unicode text"))
            case "too_short" if any(_inside(other["loc"], finding["loc"]) for other in findings):
                continue  # pydantic counts correct entries only, so the list may be long enough
            case _ if location[-1:] == ("version",) and type(value) is int and value > VERSION:
                text = f"version {_quoted(value)} is newer than this bench reads ({VERSION}); update gpushare-bench"
                newer.append((location, text))
            case _:
                wrong.append((location, _wrong(_node(schema, location), location, value)))
    # A mistyped key counts as one mistake, although the intended key is also missing.
    return newer + unknown + wrong + [(location, text) for location, text in missing if location not in intended]


def _inside(location: Location, outer: Location) -> bool:
    return len(location) > len(outer) and location[: len(outer)] == outer


class _Node(NamedTuple):
    """Part of a schema that describes one value."""

    about: str
    alternatives: list[Schema]


def _node(schema: Schema, location: Sequence[int | str]) -> _Node:
    """Return the part of ``schema`` for the value at ``location``."""
    subschema = schema
    for part in location:
        alternatives = _alternatives(schema, subschema)
        if isinstance(part, int):
            subschema = next(alternative["items"] for alternative in alternatives if "items" in alternative)
        else:
            properties = [
                alternative["properties"][part]
                for alternative in alternatives
                if part in alternative.get("properties", ())
            ]
            subschema = (
                properties[0]
                if properties
                else next(alternative["additionalProperties"] for alternative in alternatives)
            )
    alternatives = _alternatives(schema, subschema)
    return _Node(subschema.get("description") or alternatives[0].get("description", ""), alternatives)


def _alternatives(schema: Schema, subschema: Schema) -> list[Schema]:
    """Return the schemas of the values that ``subschema`` permits; references are resolved."""
    alternatives = subschema.get("anyOf") or subschema.get("oneOf") or [subschema]
    return [
        schema["$defs"][alternative["$ref"].rpartition("/")[2]] if "$ref" in alternative else alternative
        for alternative in alternatives
    ]


def _missing(node: _Node, location: Location) -> str:
    if location[-1] == "performance_model":
        return f"is missing; known: {', '.join(sorted([*performance_model_names(), MIG_TABLE]))}"
    enumerated = any("enum" in alternative or "const" in alternative for alternative in node.alternatives)
    about = "" if enumerated else f": {node.about[0].lower()}{node.about[1:].rstrip('.')}"
    return f"is missing; expected {_expected(node)}{about}"


def _wrong(node: _Node, location: Location, value: object) -> str:
    if location[-1:] == ("objective",) and isinstance(value, str) and value in ("capacity", "goodput"):
        return f'is "{value}"; write "objective": "throughput", "throughput_of": "{value}"'
    options = [option for alternative in node.alternatives for option in alternative.get("enum", ())]
    if options and isinstance(value, str):
        return unknown_name("", str(location[-1]), shortened(value), options).problem
    return f"is {_described(value)}; expected {_expected(node)}"


def _expected(node: _Node) -> str:
    """Return the permitted values in words."""
    return " or ".join(_worded(alternative) for alternative in node.alternatives)


def _worded(schema: Schema) -> str:
    """Return the values that a schema without alternatives permits, in words."""
    if "const" in schema:
        return _quoted(schema["const"])
    if "enum" in schema:
        return "one of " + ", ".join(_quoted(option) for option in schema["enum"])
    match schema["type"]:
        case "number" if "exclusiveMinimum" in schema:
            maximum = f", at most {schema['maximum']:.10g}" if "maximum" in schema else ""
            return f"a finite number greater than {schema['exclusiveMinimum']}{maximum}"
        case "number" if "maximum" in schema:
            return f"a number from {schema['minimum']:.10g} to {schema['maximum']:.10g}"
        case "number":
            return f"a finite number of at least {schema['minimum']}"
        case "integer":
            return f"a whole number from {schema['minimum']} to {schema['maximum']}"
        case "string":
            return f"text of {schema.get('minLength', 0)} to {schema['maxLength']} printable characters"
        case "array" if "maxItems" in schema:
            return f"a list of {schema['maxItems']}"
        case "array":
            return f"a list of at least {schema['minItems']}" if "minItems" in schema else "a list"
        case "object":
            return "an object"
        case kind:
            return str(kind)


def _described(value: object) -> str:
    """Describe ``value`` briefly."""
    if isinstance(value, str):
        return f"the text {_quoted(value)}"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, dict):
        return "an object"
    return _quoted(value)


def _quoted(value: object) -> str:
    """Return a scalar in JSON notation, shortened; other objects and very long numbers are described in words."""
    if isinstance(value, str):
        return json.dumps(shortened(value), ensure_ascii=False)
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 100:
        return "a number of more than 30 digits"  # Python refuses to print the largest ones
    if value is None or isinstance(value, bool | int | float):
        return json.dumps(value)
    return f"a Python {type(value).__name__}"


def _path(location: Location) -> str:
    """Write a location as a path: ``gpus[0].gpulets[1].share_units``."""
    path = ""
    for part in location:
        if isinstance(part, int):
            path += f"[{part}]"
        elif part.isidentifier():
            path += f".{shortened(part)}" if path else shortened(part)
        else:
            path += f"[{_quoted(part)}]"
    return printable(path)
