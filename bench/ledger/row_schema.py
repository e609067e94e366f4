"""Schemas of a row's JSON columns.

A ledger may come from anybody, and its digests say that it is whole, not that a bench wrote it. Only what is read
somewhere is listed; whatever else there is stays as it is.
"""

import json
import math
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Annotated, Any, Literal, NotRequired

from pydantic import AfterValidator, BeforeValidator, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict  # pydantic takes those of the standard library from 3.12 on


def _written_as_json(value: object, levels: int = 50) -> object:
    """Refuse numbers that JSON cannot say, since 1e400 is read as an infinite one, and nests that nobody makes."""
    if levels == 0:
        raise ValueError("nested too deeply")
    for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]:
        if isinstance(inner, float) and not math.isfinite(inner):
            raise ValueError("a number that is too large")
        if isinstance(inner, dict | list):
            _written_as_json(inner, levels - 1)
    return value


def _json(value: object) -> object:
    return _written_as_json(value)


def _encodable(value: object) -> object:
    """Refuse half a surrogate pair and infinite numbers, which a bench writes of no machine and no file can hold."""
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
        raise ValueError("lower_ms and requests are not of the same length")
    if any(low >= high for low, high in pairwise(bins["lower_ms"])):
        raise ValueError("lower_ms do not ascend")
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
"""Of columns, and of the table of chunks."""

_SHAPES_OF_REPLAYS: dict[str, Any] = {
    "parameters": Annotated[_Replayed, BeforeValidator(_json)],
    "simulation": _Replay,
    "trajectory": list[_Point | _Untimed],
}
"""Where they are others: a replay is measured, and decides nothing that could be timed."""


def wrong_inside(column: str, source: object, value: object) -> str | None:
    """Return where the value of a JSON column is none of a run, and why; ``None`` if it is one.

    Parameters
    ----------
    column
        Of the ledger.
    source
        Of the row: what a replay measured has another shape than what was simulated.
    value
        Of the right kind on the outside: an object or a list.
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
