"""Shared part of the two command lines of a replay, ``bench replay`` and ``python -m bench.replay``."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.replay.backends import backend
from bench.replay.recording import ReplayOptions
from bench.replay.result import to_json
from bench.replay.serving import replay
from bench.replay.serving_plan import Sheet
from bench.simulation.settings import Settings
from instances import Instance, Plan

EXAMPLES = (
    "--backend cpu --seconds 5     # tiny models on this machine's cores: tests the serving, not the times",
    "--backend mps --half          # one process per gpulet, its share set by MPS",
    "--backend green --graphs      # green contexts and CUDA graphs in one process",
    "--then next.json --switch-at 10",
)

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """Request for a replay: one or two plans with their instances, the backend and the settings."""

    plans: Sequence[tuple[Plan, Instance]]
    backend: str
    settings: Settings
    options: ReplayOptions = field(default_factory=ReplayOptions)


def replayed(order: ReplayOrder, say: Callable[[str], None]) -> Values:
    """Replay and return the measurements as JSON values.

    Raises
    ------
    InputError, ReplayFailedError
        See ``bench.replay.serving.replay``.
    """
    sheets = [Sheet.of(plan, instance) for plan, instance in order.plans]
    course = replay(sheets, backend(order.backend), order.settings, order.options, say)
    return head(order) | to_json(course)


def head(order: ReplayOrder) -> Values:
    """Return the fields that identify a replay."""
    return {
        "instance": order.plans[0][1].name,
        "source": "replay",
        "backend": order.backend,
        "arrivals": order.settings.arrivals.label,
        "seed": order.settings.seed,
        "half": order.options.half,
        "graphs": order.options.graphs,
    }


COLUMNS = (
    "workload",
    ">SLO",
    ">offered",
    ">P50",
    ">P99",
    ">queue",
    ">upload",
    ">compute",
    ">feedback",
    ">goodput",
    ">not in time",
    ">predicted P99",
    "",
)
"""Column heads of the table; ``>`` marks right alignment."""


def cells(values: Values) -> list[list[str]]:
    """Return the rows of the table in ms; the parts of the latency are means."""
    return [_cells(workload) for workload in values["workloads"]]


def _cells(one: Values) -> list[str]:
    parts = one.get("split") or {}
    means = [parts.get(f"{name}_ms") for name in ("queue", "upload", "compute", "feedback")]
    predicted = one.get("predicted") or {}
    return [
        one["id"],
        f"{one['slo_ms']:g}",
        f"{one['offered_rps']:,.1f}",
        _ms(one["p50_ms"]),
        _ms(one["p99_ms"]),
        *(_ms(None if mean is None else mean["mean"]) for mean in means),
        f"{one['goodput_rps']:,.1f}",
        f"{100.0 * one['violation_rate']:.1f} %",
        _ms(predicted.get("p99_ms")),
        "late" if one["violating"] else "",
    ]


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def title(values: Values) -> str:
    """Return the line above the table."""
    what = f"{values['backend']}, {values['arrivals']} arrivals, seed {values['seed']}"
    return f"plan for {values['instance']}, {values['seconds']:g} s on {what}; times in ms"


def remarks(values: Values) -> list[str]:
    """Return the lines below the table."""
    lines = [
        f"{values['requests']:,} requests, {values['goodput_rps']:,.1f} req/s in time,"
        f" {100.0 * values['violation_rate']:.1f} % not in time, {100.0 * values['drop_rate']:.1f} % dropped"
    ]
    if values["backend"] == "cpu":
        lines.append("tiny models replace those of the plan: this tests the serving, not the times")
    if values["generator"] is not None:
        lines.append(f"requests were sent {values['generator']['p99']:.2f} ms late at P99")
    if not values["valid"]:
        lines.append(f"NOT VALID: {values['invalid_reason']}")
    lines += [
        f"{slot['workload']}: a full batch computed {_ms(slot['gpu_ms'])} ms, predicted {_ms(slot['predicted_gpu_ms'])}"
        for slot in values["slots"]
        if "predicted_gpu_ms" in slot and values["backend"] != "cpu"
    ]
    lines += [
        f"GPU {gpu['gpu']}: {gpu['power_w']:.0f} W, {gpu['frequency_mhz']:.0f} MHz, busy {gpu['utilisation_pct']:.0f} %"
        for gpu in values["gpus"]
        if None not in gpu.values()
    ]
    if (switch := values["switch"]) is not None:
        lines += _of_switch(switch)
    lines += [
        f"FAILED: GPU {failure['gpu']}, gpulet {failure['gpulet']} ({', '.join(failure['workloads'])}):"
        f" {failure['reason']}"
        for failure in values["failures"]
    ]
    return lines


def _of_switch(switch: Values) -> list[str]:
    if switch["drained_s"] is None:
        return ["the second plan did not take over"]
    took_s = switch["switched_s"] - switch["began_s"]
    return [
        f"the second plan took over {took_s:.1f} s after the switch began at {switch['began_s']:.1f} s;"
        f" the first plan finished at {switch['drained_s']:.1f} s",
        *(
            f"{one['id']}: {_ms(one['without_service_ms'])} ms without service, P99 {_ms(one['p99_ms'])} meanwhile"
            for one in switch["workloads"]
        ),
    ]
