"""Options of commands in place of parameters that are dataclasses: one option for each field, with its default."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from bench.cli import options
from bench.planning import parse_seeds


class Without(NamedTuple):
    """Fields without an option, in ``Annotated[Limits, Without(...)]``."""

    names: Collection[str]


class _OptionSet(NamedTuple):
    """Replaced parameter of a command: its dataclass, and the fields that have an option."""

    kind: type
    names: Collection[str]


class FieldOption(NamedTuple):
    """Option whose text on the command line must be converted to the value of its field by ``value``."""

    annotation: Any
    default: Any
    value: Callable[[Any], Any]


FIELDS: Mapping[str, Any] = {
    "parameters": FieldOption(options.SweptParametersOption, None, lambda texts: texts or []),
    "time_limit_s": options.TimeLimitOption,
    "work_limit": options.WorkLimitOption,
    "memory_limit_gb": options.MemoryLimitOption,
    "threads": options.ThreadsOption,
    "seeds": FieldOption(options.SeedsOption, "0", parse_seeds),
    "jobs": options.JobsOption,
    "arrivals": FieldOption(options.OwnArrivalsOption, None, lambda text: text or "own"),
    "check_holds": options.CheckHoldsOption,
    "headroom": options.HeadroomOption,
    "margin": options.MarginOption,
    "truth": options.TruthOption,
    "error": options.ErrorOption,
    "then": options.ThenOption,
    "then_limit_s": options.ThenLimitOption,
}
"""Options by the name of their field."""


def takes_fields(command: Callable[..., Any]) -> Callable[..., Any]:
    """Replace every parameter of a command whose type is a dataclass by one option for each field."""
    replaced: dict[str, _OptionSet] = {}
    parameters: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        kind, omitted = _type_and_omitted(parameter.annotation)
        if not (isinstance(kind, type) and is_dataclass(kind)):
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        option_fields = [field for field in fields(kind) if field.name not in omitted]
        replaced[parameter.name] = _OptionSet(kind, [field.name for field in option_fields])
        parameters += [_option(field.name, field.default) for field in option_fields]

    @wraps(command)
    def with_fields(**values: Any) -> Any:
        for name, (kind, names) in replaced.items():
            values[name] = kind(**{field: _value(field, values.pop(field)) for field in names})
        return command(**values)

    vars(with_fields)["__signature__"] = Signature(parameters)
    with_fields.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_fields


def _type_and_omitted(annotation: Any) -> tuple[Any, Collection[str]]:
    """Return the type in an annotation, and the names of the fields that ``Without`` omits."""
    if get_origin(annotation) is not Annotated:
        return annotation, ()
    kind, *metadata = get_args(annotation)
    return kind, [name for entry in metadata if isinstance(entry, Without) for name in entry.names]


def _option(name: str, default: Any) -> Parameter:
    option = FIELDS[name]
    if isinstance(option, FieldOption):
        option, default = option.annotation, option.default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=option)


def _value(name: str, argument: Any) -> Any:
    option = FIELDS[name]
    return option.value(argument) if isinstance(option, FieldOption) else argument
