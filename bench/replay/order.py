"""Order of a replay, its measurements with the simulator's predictions, and its row in the ledger."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.api import Status
from bench.evaluation import Trial
from bench.ledger.row import Row, Termination
from bench.plan_simulation import no_simulation, simulate
from bench.provenance import load_average
from bench.replay.backends import backend
from bench.replay.result import NOTHING_REPLAYED, to_json
from bench.replay.serving import ReplayOptions, replay
from bench.replay.serving_plan import ServingPlan
from bench.replay.settings import ReplaySettings
from bench.runner.record import RunRecord
from bench.runner.scoring import Start, score, simulated_figures
from bench.simulation.layout import sites
from bench.task import Stage, Task
from instances import InputError, Instance, Plan
from instances.errors import FieldName
from instances.files import plan_to_json, plan_to_text

SCHEDULER = "replay"
"""Scheduler in the rows of replays; a plan file does not name the scheduler that made the plan."""

PREDICTED = ("p50_ms", "p90_ms", "p99_ms", "goodput_rps", "violation_rate", "drop_rate")
"""Figures of a workload that the simulator predicts."""

Values = dict[str, Any]
"""Result of a replay as JSON values."""


@dataclass(frozen=True, slots=True)
class ReplayOrder:
    """Order of a replay: one or two plans with their instances, the backend and the settings."""

    plans: Sequence[tuple[Plan, Instance]]
    backend: str
    settings: ReplaySettings
    options: ReplayOptions = field(default_factory=ReplayOptions)


def measured(order: ReplayOrder, say: Callable[[str], None]) -> Values:
    """Replay and return the measurements as JSON values; with a single plan, they include predictions.

    Raises
    ------
    InputError, ReplayFailedError
        See ``bench.replay.serving.replay``.
    """
    plans = [ServingPlan.of(plan, instance) for plan, instance in order.plans]
    recording = replay(plans, backend(order.backend), order.settings, order.options, say)
    values = _identity(order) | to_json(recording)
    if len(order.plans) == 1:
        _predict(values, *order.plans[0], order.settings)
    return values


def simulated(order: ReplayOrder) -> Values:
    """Simulate the plan and return the result in the schema of a replay.

    Raises
    ------
    InputError
        If the order has a second plan.
    """
    if len(order.plans) > 1:
        raise InputError(
            FieldName("then"), "is not available with `backend` sim; `bench online` simulates changes of the plan"
        )
    return _identity(order) | simulate(*order.plans[0], order.settings.simulation).to_json() | NOTHING_REPLAYED


def _identity(order: ReplayOrder) -> Values:
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


def _predict(values: Values, plan: Plan, instance: Instance, settings: ReplaySettings) -> None:
    """Add the predictions to ``workloads`` and ``slots``; the simulation has the same requests as the replay."""
    if no_simulation(plan, instance) is not None:
        return
    simulation = simulate(plan, instance, settings.simulation)
    for workload, simulated_workload in zip(values["workloads"], simulation.workloads, strict=True):
        workload["predicted"] = {name: getattr(simulated_workload, name) for name in PREDICTED}
    gpu_ms = _gpu_ms(plan, instance)
    for slot in values["slots"]:
        slot["predicted_gpu_ms"] = gpu_ms[slot["gpu"], slot["gpulet"], slot["workload"]]


def _gpu_ms(plan: Plan, instance: Instance) -> dict[tuple[int, int, str], float]:
    """Return the GPU time of a full batch with all neighbours active, by GPU, gpulet and workload."""
    types = [pool.type.name for pool in instance.gpus]  # ``sites`` has the GPUs in the order of these types
    slots = [
        (gpu_index, gpulet_index, slot)
        for gpu_index, gpu in sorted(enumerate(plan.gpus), key=lambda numbered: types.index(numbered[1].type))
        for gpulet_index, gpulet in enumerate(gpu.gpulets)
        for slot in gpulet.slots
    ]
    times = (row for site in sites(plan, instance, instance) for row in site.times)
    return {
        (gpu_index, gpulet_index, slot.workload): float(row[slot.batch]["gpu_ms"])
        for (gpu_index, gpulet_index, slot), row in zip(slots, times, strict=True)
    }


def row_of_replay(order: ReplayOrder, values: Values) -> Row:
    """Return the row of a replay: the judged plan, with the measurements (``values``) in place of a simulation.

    The start time is part of the key, so each replay has its own row.
    """
    plan, instance = order.plans[0]
    settings, options = order.settings, order.options
    started_at = datetime.now(UTC) - timedelta(seconds=values["wall_s"])
    parameters = {
        "backend": order.backend,
        "plan": plan_to_json(plan),
        "arrivals": settings.arrivals.identity,
        "seconds": settings.seconds,
        "warmup_s": settings.warmup_s,
        "dropping": settings.dropping,
        "half": options.half,
        "graphs": options.graphs,
        "then": [plan_to_json(second) for second, _ in order.plans[1:]],
        "switch_at_s": options.switch_at_s,
        "started_at": started_at.isoformat(),
    }
    task = Task(
        instance,
        (Stage(SCHEDULER, "bench.replay.serving:replay", parameters=parameters),),
        seed=settings.seed,
        time_limit_s=settings.warmup_s + settings.seconds,
        source="replay",
        trial=Trial(seconds=settings.seconds),
    )
    record = RunRecord(task, grace_s=0.0, wall_s=values["wall_s"], plan_text=plan_to_text(plan))
    failures = "; ".join(failure["reason"] for failure in values["failures"])
    termination = Termination.CRASHED if failures else Termination.FINISHED
    record.end(termination, failures or values["invalid_reason"] or "", Status.FEASIBLE)
    row = score(record, Start(started_at.isoformat(timespec="milliseconds"), load_average()))
    return replace(row, **simulated_figures(values))
