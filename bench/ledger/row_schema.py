"""Schemas of a row's JSON columns.

A ledger may come from an untrusted source: its digests show that it is not damaged, but not that a bench wrote it.
The schemas contain only the fields that some code reads; other fields are not checked.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic supports that of the standard library from Python 3.12 on


def _written_as_json(value: object, levels: int = 50) -> object:
    """Refuse infinite numbers, which Python reads from texts such as 1e400, and implausibly deep nesting."""
    if levels == 0:
        raise ValueError("nested too deeply")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
        if isinstance(inner, float) and not math.isfinite(inner):
            raise ValueError("a number is too large")
        if isinstance(inner, dict | list):
            _written_as_json(inner, levels - 1)
    return value


def _json(value: object) -> object:
    return _written_as_json(value)


def _encodable(value: object) -> object:
    """Refuse lone surrogates and infinite numbers, which a bench never writes and which files cannot store."""
    json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    return value


_Json = Annotated[Any, AfterValidator(_json)]
_Finite = Annotated[float, Field(allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]
_Count = Annotated[int, Field(ge=0, lt=2**63)]


class _Slot(TypedDict):
    workload: str
    batch: Annotated[int, Field(ge=1, lt=2**31)]
    rate_rps: _Finite


class _Gpulet(TypedDict):
    share_units: Annotated[int, Field(ge=1, lt=2**31)]
    duty_cycle_ms: NotRequired[_Finite | None]
    start: NotRequired[_Count | None]
    processes: NotRequired[_Count | None]
    slots: list[_Slot]


class _PlacedGpu(TypedDict):
    type: str
    gpulets: list[_Gpulet]


class _Plan(TypedDict):
    gpus: list[_PlacedGpu]


class _Scope(TypedDict):
    plan_class: Literal["spatial", "split", "spatio-temporal"]
    allowed_shares: list[int] | None
    slots_per_gpulet: _Count
    max_batch: _Count | None


class _Point(TypedDict):
    t_s: _NotNegative
    value: _Finite | None
    feasible: bool | None
    bound: _Finite | None
    bound_certified: bool | None


class _Untimed(TypedDict):
    t_s: None


class _Violation(TypedDict):
    kind: str
    gpu: int | None
    workload: str | None
    message: str


class _Bins(TypedDict):
    lower_ms: list[Annotated[float, Field(gt=0.0, allow_inf_nan=False)]]
    requests: list[_Count]


def _ascending(bins: _Bins) -> _Bins:
    if len(bins["lower_ms"]) != len(bins["requests"]):
        raise ValueError("lower_ms and requests have different lengths")
    if any(low >= high for low, high in pairwise(bins["lower_ms"])):
        raise ValueError("lower_ms is not in ascending order")
    return bins


_Histogram = Annotated[_Bins, AfterValidator(_ascending)]


class _Served(TypedDict):
    id: str
    slo_ms: _NotNegative
    requests: _Count
    violation_rate: _NotNegative
    p99_ms: _NotNegative | None
    max_ms: _NotNegative | None
    histogram: _Histogram


class _Simulation(TypedDict):
    arrivals: Annotated[str, AfterValidator(_encodable)]
    seconds: _NotNegative
    workloads: list[_Served]
    applications: list[_Served]


class _Predicted(TypedDict):
    p99_ms: _NotNegative | None


class _Measured(TypedDict):
    id: str
    p99_ms: _NotNegative | None
    predicted: NotRequired[_Predicted | None]


class _Replay(TypedDict):
    arrivals: Annotated[str, AfterValidator(_encodable)]
    seconds: _NotNegative
    workloads: list[_Measured]
    invalid_reason: NotRequired[str | None]


class _Hardware(TypedDict):
    backend: str


class _Replayed(TypedDict):
    replay: _Hardware


class _Counts(TypedDict):
    count: _Count
    decided: _Count
    accepted: _Count
    served: _Count
    decision_median_s: _NotNegative | None
    decision_max_s: _NotNegative | None
    accepted_bits: str
    served_bits: str


class _Chunk(TypedDict):
    first: _Count
    accepted: list[bool]
    served: list[bool]
    decision_s: list[_NotNegative]


class _Reach(TypedDict):
    shares: list[_Count]
    slots_per_gpulet: _Count
    max_batch: _Count
    gpulets_per_gpu: _Count


_SHAPES: dict[str, Any] = {
    "parameters": dict[str, dict[str, _Json]],
    "bound_scope": _Scope,
    "simulation": _Simulation,
    "violation_details": list[_Violation],
    "scenarios": _Counts,
    "statistics": dict[str, _Json],
    "trajectory": list[_Point],
    "provenance": Annotated[dict[str, Any], AfterValidator(_encodable)],
    "plan": _Plan,
    "plan_reach": _Reach,
    "chunks": _Chunk,
}
"""Schemas of columns, and of the table of chunks."""

_SHAPES_OF_REPLAYS: dict[str, Any] = {
    "parameters": Annotated[_Replayed, BeforeValidator(_json)],
    "simulation": _Replay,
    "trajectory": list[_Point | _Untimed],
}
"""Schemas that differ for replays, which have measurements and no decision time."""


def wrong_inside(column: str, source: object, value: object) -> str | None:
    """Return the place and the reason of the first error in the value of a JSON column, or ``None``.

    Parameters
    ----------
    column
        Column of the ledger.
    source
        Source of the row, since replays have other schemas than simulations.
    value
        Object or list to check.
    """
    adapter = _adapter(column, source != "plan")
    if adapter is None:
        return None
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return f"{_place(first['loc'])}: {first['msg'].removeprefix('Value error, ')}"
    return None


@cache
def _adapter(column: str, of_replay: bool) -> TypeAdapter[Any] | None:
    shapes = _SHAPES | _SHAPES_OF_REPLAYS if of_replay else _SHAPES
    return TypeAdapter(shapes[column]) if column in shapes else None


def _place(location: Sequence[int | str]) -> str:
    words = [f"[{part}]" if isinstance(part, int) else f".{part}" for part in location]
    return "".join(words).lstrip(".")
