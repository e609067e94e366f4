"""Ledger row of a replay; needs the full installation of the bench."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.api import Status
from bench.evaluation import Trial
from bench.ledger.row import Row, Termination
from bench.provenance import load_average
from bench.replay.command import ReplayOrder
from bench.runner.record import RunRecord
from bench.runner.scoring import Start, score
from bench.task import Stage, Task
from instances.files import plan_to_json

SCHEDULER = "replay"
"""Name in the scheduler's place: a plan file does not name the scheduler of its plan."""


def row_of_replay(order: ReplayOrder, values: dict[str, Any]) -> Row:
    """Return the row of a replay: the judged plan, with the measurements in place of a simulation.

    Each replay is a run of its own: the start time is part of the key.

    Parameters
    ----------
    order
        The request for the replay.
    values
        The measurements as JSON values.
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
    record = RunRecord(task, grace_s=0.0, wall_s=values["wall_s"], plan=plan_to_json(plan))
    failures = "; ".join(failure["reason"] for failure in values["failures"])
    ended = Termination.CRASHED if failures else Termination.FINISHED
    record.end(ended, failures or values["invalid_reason"] or "", Status.FEASIBLE)
    steps = score(record, Start(at.isoformat(timespec="milliseconds"), load_average()))
    while True:
        try:
            next(steps)
        except StopIteration as done:
            row: Row = done.value
            break
    names = ("goodput_rps", "violation_rate", "drop_rate", "violating", "worst_p99")
    measured = {f"sim_{name}": values[name] for name in names}
    return replace(row, **measured, simulation=values)
