"""Schemas of a row's JSON columns.

A ledger may come from an untrusted source: its digests show that it is undamaged, but do not show that a bench wrote
it. The schemas contain only the fields that the code reads; other fields are not checked.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict, fields, is_dataclass
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, BeforeValidator, Field
from typing_extensions import TypedDict  # pydantic supports that of the standard library from Python 3.12 on

from bench.api import Proof, Scope
from instances import Plan
from instances.files import plan_from_json, plan_to_json
from instances.files.instance import plain
from instances.files.problems import in_pydantic_words, validated


def _plausible_json(value: object, *, levels: int = 50) -> object:
    """Refuse infinite numbers, which Python reads from texts such as 1e400, and implausibly deep nesting."""
    if levels == 0:
        raise ValueError("nested too deeply")
    inner_values: Iterable[object] = [value]
    if isinstance(value, dict):
        inner_values = value.values()
    elif isinstance(value, list):
        inner_values = value
    for inner in inner_values:
        if isinstance(inner, float) and not math.isfinite(inner):
            raise ValueError("a number is too large")
        if isinstance(inner, dict | list):
            _plausible_json(inner, levels=levels - 1)
    return value


def _encodable(value: object) -> object:
    """Refuse lone surrogates and infinite numbers: a bench never writes them, and files cannot store them."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


AnyJson = Annotated[Any, AfterValidator(_plausible_json)]
"""Any JSON value, except values that no bench writes."""

_Finite = Annotated[float, Field(allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=0, lt=2**63)]


class Point(TypedDict):
    """Point of a trajectory: a report of a run, or the end of the run."""

    t_s: _NotNegative
    value: _Finite | None
    feasible: bool | None
    bound: _Finite | None
    bound_certified: bool | None


class UntimedPoint(TypedDict):
    """Point of the trajectory of a replay; a replay has no decision time."""

    t_s: None


class BrokenConstraint(TypedDict):
    """Violation of a plan."""

    kind: str
    gpu: int | None
    workload: str | None
    message: str


class _Bins(TypedDict):
    """Bins of a histogram: lower ends, and requests in each bin."""

    lower_ms: list[Annotated[float, Field(gt=0.0, allow_inf_nan=False)]]
    requests: list[Count]


def _ascending(bins: _Bins) -> _Bins:
    if len(bins["lower_ms"]) != len(bins["requests"]):
        raise ValueError("lower_ms and requests have different lengths")
    if any(low >= high for low, high in pairwise(bins["lower_ms"])):
        raise ValueError("lower_ms is not in ascending order")
    return bins


_Histogram = Annotated[_Bins, AfterValidator(_ascending)]


class _Served(TypedDict):
    """Simulated requests of one workload or application."""

    id: str
    slo_ms: _NotNegative
    requests: Count
    violation_rate: _NotNegative
    p99_ms: _NotNegative | None
    max_ms: _NotNegative | None
    histogram: _Histogram


class _Overload(TypedDict):
    workloads: Annotated[list[str], Field(min_length=1)]
    load: _NotNegative
    missed: _NotNegative


class SimulatedRequests(TypedDict):
    """Result of a simulation."""

    arrivals: Annotated[str, AfterValidator(_encodable)]
    seconds: _NotNegative
    workloads: list[_Served]
    applications: list[_Served]
    overloads: NotRequired[list[_Overload]]


class _Predicted(TypedDict):
    p99_ms: _NotNegative | None


class _Measured(TypedDict):
    id: str
    p99_ms: _NotNegative | None
    predicted: NotRequired[_Predicted | None]


class ReplayedRequests(TypedDict):
    """Measurements of a replay."""

    arrivals: Annotated[str, AfterValidator(_encodable)]
    seconds: _NotNegative
    workloads: list[_Measured]
    invalid_reason: NotRequired[str | None]


class _Hardware(TypedDict):
    backend: str


class _Replayed(TypedDict):
    """Parameters of a replay."""

    replay: _Hardware


class ScenarioCounts(TypedDict):
    """Results of a scenario set: ``bench.scenarios.Tally.to_json``."""

    count: Count
    decided: Count
    accepted: Count
    served: Count
    decision_median_s: _NotNegative | None
    decision_max_s: _NotNegative | None
    accepted_bits: str
    served_bits: str


class ScenarioChunk(TypedDict):
    """Judged chunk of a scenario set."""

    first: Count
    accepted: list[bool]
    served: list[bool]
    decision_s: list[_NotNegative]


StoredProof = Annotated[Proof, BeforeValidator(_plausible_json)]
Parameters = dict[str, dict[str, AnyJson]]
ReplayParameters = Annotated[_Replayed, BeforeValidator(_plausible_json)]
Provenance = Annotated[dict[str, Any], AfterValidator(_encodable)]


_ALWAYS_STORED = frozenset({"plan_class", "allowed_shares", "slots_per_gpulet", "max_batch"})
"""Fields of a scope that are stored even at their default."""


def to_json(value: Any) -> Any:
    """Return a value of a row as JSON values."""
    if isinstance(value, Plan):
        return plan_to_json(value)
    if isinstance(value, Scope):
        return scope_to_json(value)
    if isinstance(value, Proof):
        return plain(asdict(value))
    return str(value) if isinstance(value, StrEnum) else value


def scope_to_json(scope: Scope) -> dict[str, Any]:
    """Return a scope, or a bound with its scope, as JSON values."""
    values_and_defaults = {
        attribute.name: (to_json(getattr(scope, attribute.name)), attribute.default) for attribute in fields(scope)
    }
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, (value, default) in values_and_defaults.items()
        if name in _ALWAYS_STORED or value != default
    }


def class_of(schema: Any) -> type | None:
    """Return the class of a row's values in a column with this schema; ``None`` for JSON values."""
    plain_schema = getattr(schema, "__origin__", schema)  # the type that ``Annotated`` wraps
    return plain_schema if isinstance(plain_schema, type) and is_dataclass(plain_schema) else None


def from_json(schema: Any, value: Any) -> Any:
    """Check the JSON ``value`` of a column against its ``schema``, and return the value that a row has for it.

    If ``schema`` is a class, this is an object of the class; otherwise it is ``value`` itself.

    Raises
    ------
    InputError
        If ``value`` does not match ``schema``; the error names the place inside the value.
    """
    if schema is Plan:
        return plan_from_json(value, "")
    if class_of(schema) is not None:
        return validated(schema, value, "", in_pydantic_words)
    validated(schema, value, "", in_pydantic_words, strict=True)
    return value
