"""Options of commands in place of parameters that are dataclasses: one option for each field, with its default."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, NamedTuple, get_args, get_origin

from bench.cli import options
from bench.planning import parse_seeds


class Without(NamedTuple):
    """Names of the fields that get no option, as in ``Annotated[Limits, Without(["work_limit"])]``."""

    names: Collection[str]


class _ReplacedParameter(NamedTuple):
    """Parameter of a command that options replace: its dataclass, and the fields that have an option."""

    dataclass: type
    names: Collection[str]


class FieldOption(NamedTuple):
    """Option of a field; ``convert`` turns the text on the command line into the value of the field."""

    annotation: Any
    default: Any
    convert: Callable[[Any], Any]


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
"""Options by the name of their field.

A bare annotation keeps the field's own default, and the field takes the argument unconverted.
"""


def takes_fields(command: Callable[..., Any]) -> Callable[..., Any]:
    """Replace every parameter with a dataclass as its type by one option for each field of the dataclass."""
    replaced: dict[str, _ReplacedParameter] = {}
    parameters: list[Parameter] = []
    for parameter in signature(command, eval_str=True).parameters.values():
        parameter_type, omitted = _type_and_omitted(parameter.annotation)
        if not (isinstance(parameter_type, type) and is_dataclass(parameter_type)):
            parameters.append(parameter.replace(kind=Parameter.KEYWORD_ONLY))
            continue
        option_fields = [field for field in fields(parameter_type) if field.name not in omitted]
        replaced[parameter.name] = _ReplacedParameter(parameter_type, [field.name for field in option_fields])
        parameters += [_option_parameter(field.name, field.default) for field in option_fields]

    @wraps(command)
    def with_fields(**values: Any) -> Any:
        for name, (dataclass, names) in replaced.items():
            values[name] = dataclass(**{field: _field_value(field, values.pop(field)) for field in names})
        return command(**values)

    vars(with_fields)["__signature__"] = Signature(parameters)
    with_fields.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_fields


def _type_and_omitted(annotation: Any) -> tuple[Any, Collection[str]]:
    """Return the type in an annotation, and the names of the fields that ``Without`` omits."""
    if get_origin(annotation) is not Annotated:
        return annotation, ()
    parameter_type, *metadata = get_args(annotation)
    return parameter_type, [name for entry in metadata if isinstance(entry, Without) for name in entry.names]


def _option_parameter(name: str, default: Any) -> Parameter:
    option = FIELDS[name]
    if isinstance(option, FieldOption):
        option, default = option.annotation, option.default
    return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=option)


def _field_value(name: str, argument: Any) -> Any:
    option = FIELDS[name]
    return option.convert(argument) if isinstance(option, FieldOption) else argument
