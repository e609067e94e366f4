"""Order of a replay, its measurements with predictions beside them, and its row in the ledger."""

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
"""Scheduler of the rows of replays, because a plan file does not name the scheduler of its plan."""

PREDICTED = ("p50_ms", "p90_ms", "p99_ms", "goodput_rps", "violation_rate", "drop_rate")
"""Figures of a workload that the simulator predicts."""

Values = dict[str, Any]


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
    values = _head(order) | to_json(recording)
    if len(order.plans) == 1:
        _predict(values, *order.plans[0], order.settings)
    return values


def simulated(order: ReplayOrder) -> Values:
    """Simulate the plan and return the result in the form of a replay's.

    Raises
    ------
    InputError
        If the order has a second plan.
    """
    if len(order.plans) > 1:
        raise InputError(
            FieldName("then"), "is not available with `backend` sim; `bench online` simulates changes of the plan"
        )
    return _head(order) | simulate(*order.plans[0], order.settings.simulation).to_json() | NOTHING_REPLAYED


def _head(order: ReplayOrder) -> Values:
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
    found = simulate(plan, instance, settings.simulation)
    for workload, simulated_workload in zip(values["workloads"], found.workloads, strict=True):
        workload["predicted"] = {name: getattr(simulated_workload, name) for name in PREDICTED}
    gpu_ms = _gpu_ms(plan, instance)
    for slot in values["slots"]:
        slot["predicted_gpu_ms"] = gpu_ms[slot["gpu"], slot["gpulet"], slot["workload"]]


def _gpu_ms(plan: Plan, instance: Instance) -> dict[tuple[int, int, str], float]:
    """Return the GPU time of a full batch with all neighbours active, by GPU, gpulet and workload."""
    types = [pool.type.name for pool in instance.gpus]  # the order of the sites
    slots = [
        (g, k, slot)
        for g, gpu in sorted(enumerate(plan.gpus), key=lambda at: types.index(at[1].type))
        for k, gpulet in enumerate(gpu.gpulets)
        for slot in gpulet.slots
    ]
    times = (row for site in sites(plan, instance, instance) for row in site.times)
    return {(g, k, s.workload): float(row[s.batch]["gpu_ms"]) for (g, k, s), row in zip(slots, times, strict=True)}


def row_of_replay(order: ReplayOrder, values: Values) -> Row:
    """Return the row of a replay: the judged plan, with the measurements (``values``) in place of a simulation.

    Each replay is a run of its own: the start time is part of the key.
    """
    plan, instance = order.plans[0]
    settings, options = order.settings, order.options
    at = datetime.now(UTC) - timedelta(seconds=values["wall_s"])
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
        "started_at": at.isoformat(),
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
    ended = Termination.CRASHED if failures else Termination.FINISHED
    record.end(ended, failures or values["invalid_reason"] or "", Status.FEASIBLE)
    row = score(record, Start(at.isoformat(timespec="milliseconds"), load_average()))
    return replace(row, **simulated_figures(values))
