"""Reader of plan files that needs only the standard library: a GPU host has neither pydantic nor the solvers."""

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from instances import Gpulet, GpuPool, InputError, Instance, Objective, PlacedGpu, Plan, SloRule, Slot, Workload
from instances.catalogue import gpu_type
from instances.errors import unknown_name

Value = TypeVar("Value")


def read_embedded_plan(path: Path) -> tuple[Plan, Instance]:
    """Return the plan in the JSON file at ``path`` and the instance that it embeds.

    Fields that a replay does not need are ignored; ``bench verify`` judges a whole file.

    Raises
    ------
    InputError
        If the file cannot be read, is not a plan, or only names its instance.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(str(path), f"is not JSON: {error}") from None
    file = _Entry(str(path), data)
    if isinstance(file.data.get("instance"), str):
        raise file.wrong("instance", "only names the instance; expected the instance itself, as `bench show` writes it")
    instance = _instance(file.entry("instance"))
    return Plan(instance.name, tuple(_gpu(gpu, instance) for gpu in file.entries("gpus"))), instance


class _Entry:
    """An object of a file, and its position in the file."""

    def __init__(self, where: str, data: object) -> None:
        if not isinstance(data, Mapping):
            raise InputError(where, "is not a JSON object")
        self.where, self.data = where, data

    def wrong(self, key: str, problem: str) -> InputError:
        joint = "." if ": " in self.where else ": "
        return InputError(f"{self.where}{joint}{key}", problem)

    def of(self, key: str, kind: type[Value], expected: str) -> Value:
        if key not in self.data:
            raise self.wrong(key, f"is missing; expected {expected}")
        value = self.data[key]
        if not isinstance(value, kind) or isinstance(value, bool):
            raise self.wrong(key, f"is {json.dumps(value)[:60]}; expected {expected}")
        return value

    def text(self, key: str) -> str:
        return self.of(key, str, "text")

    def one_of(self, key: str, known: list[str]) -> str:
        text = self.text(key)
        if text not in known:
            raise self.wrong(key, unknown_name("", key, text, known).problem)
        return text

    def number(self, key: str) -> float:
        expected = "a finite number greater than 0"
        value = float(self.of(key, int | float, expected))  # type: ignore[arg-type] # a union is a type to isinstance
        if not 0.0 < value < math.inf:
            raise self.wrong(key, f"is {value}; expected {expected}")
        return value

    def whole(self, key: str) -> int:
        value = self.of(key, int, "a whole number of at least 1")
        if value < 1:
            raise self.wrong(key, f"is {value}; expected a whole number of at least 1")
        return value

    def entry(self, key: str) -> "_Entry":
        return _Entry(self.wrong(key, "").where, self.of(key, dict, "an object"))

    def entries(self, key: str) -> Iterator["_Entry"]:
        found: list[Any] = self.of(key, list, "a list")
        return (_Entry(self.wrong(f"{key}[{at}]", "").where, one) for at, one in enumerate(found))


def _instance(entry: _Entry) -> Instance:
    objective = entry.text("throughput_of" if entry.data.get("objective") == "throughput" else "objective")
    if objective not in list(Objective) or objective == Objective.COLOCATION or entry.data.get("applications"):
        raise entry.wrong(
            "objective", "cannot be replayed; expected an objective over workloads with SLOs, without applications"
        )
    return Instance(
        name=entry.text("name"),
        objective=Objective(objective),
        slo_rule=SloRule(entry.one_of("slo_rule", [str(rule) for rule in SloRule])),
        performance_model=entry.text("performance_model"),
        gpus=tuple(
            GpuPool(gpu_type(gpu.text("type"), gpu.wrong("type", "").where), gpu.data.get("count"))
            for gpu in entry.entries("gpus")
        ),
        workloads=tuple(
            Workload(w.text("id"), w.text("model"), w.number("slo_ms"), w.number("rate_rps"))
            for w in entry.entries("workloads")
        ),
        latency_buffer=entry.number("latency_buffer") if "latency_buffer" in entry.data else 1.0,
    )


def _gpu(entry: _Entry, instance: Instance) -> PlacedGpu:
    types = [pool.type.name for pool in instance.gpus]
    return PlacedGpu(
        entry.one_of("type", types), tuple(_gpulet(gpulet, instance) for gpulet in entry.entries("gpulets"))
    )


def _gpulet(entry: _Entry, instance: Instance) -> Gpulet:
    cycle_ms = None if entry.data.get("duty_cycle_ms") is None else entry.number("duty_cycle_ms")
    slots = tuple(
        Slot(slot.one_of("workload", list(instance.workload_index)), slot.whole("batch"), slot.number("rate_rps"))
        for slot in entry.entries("slots")
    )
    if len(slots) > 1 and cycle_ms is None:
        raise entry.wrong("duty_cycle_ms", f"is missing; {len(slots)} slots that take turns need a duty cycle")
    return Gpulet(entry.whole("share_units"), slots, cycle_ms)
