"""Predicted against measured latencies of replayed plans."""

from collections.abc import Mapping
from typing import Any

from bench.ledger.row import Row
from bench.ledger.store import Ledger
from reports.page.instance_results import InstanceResults


def measured(case: InstanceResults, shown: Mapping[str, Row], ledger: Ledger) -> list[dict[str, Any]]:
    """Return the replays of plans for an instance.

    Parameters
    ----------
    case, ledger
        The instance, and the ledger with its replays.
    shown
        Runs by entrant: a replayed plan of one of these runs has the entrant's name.

    Returns
    -------
    list of dict
        ``name`` has the planner, the backend, the run and remarks; ``points`` are (predicted, measured) P99 latencies
        in ms and the workload, for workloads with both.
    """
    found = [_replay(ledger.rows(key=row.key)[0], shown) for row in case.replays]
    return [replay for replay in found if replay["points"]]


def _replay(row: Row, shown: Mapping[str, Row]) -> dict[str, Any]:
    values = row.simulation or {"workloads": []}
    planner = next((name for name, one in shown.items() if one.plan == row.plan), None)
    backend, reason = row.parameters["replay"]["backend"], values.get("invalid_reason")
    told = [
        f"{planner or 'a plan'} on {backend}, run {row.key[:8]}",
        "tiny models, not its times" if backend == "cpu" else "",
        f"not valid: {reason}" if reason else "",
    ]
    return {
        "name": ": ".join(filter(None, told)),
        "scheduler": row.scheduler,
        "points": [
            (one["predicted"]["p99_ms"], one["p99_ms"], one["id"])
            for one in values["workloads"]
            if one.get("predicted") and one["predicted"]["p99_ms"] is not None and one["p99_ms"] is not None
        ],
    }
