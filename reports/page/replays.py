"""Predicted against measured, where plans were replayed on hardware."""

from typing import TYPE_CHECKING, Any

from reports.page.case import Case

if TYPE_CHECKING:
    from bench.ledger.row import Row
    from bench.ledger.store import Ledger


def measured(case: Case, ledger: "Ledger") -> list[dict[str, Any]]:
    """Return the replays of plans for an instance.

    Returns
    -------
    list of dict
        ``name`` says on what, and whether it is not valid; ``points`` are (predicted, measured) P99 latencies in ms and
        the workload, for those that have both.
    """
    found = [_replay(case.entrants[row.key], ledger.rows(key=row.key)[0]) for row in case.replays]
    return [replay for replay in found if replay["points"]]


def _replay(name: str, row: "Row") -> dict[str, Any]:
    values = row.simulation or {"workloads": []}
    reason = values.get("invalid_reason")
    return {
        "name": f"{name}, not valid: {reason}" if reason else name,
        "scheduler": row.scheduler,
        "points": [
            (one["predicted"]["p99_ms"], one["p99_ms"], one["id"])
            for one in values["workloads"]
            if one.get("predicted") and one["predicted"]["p99_ms"] is not None and one["p99_ms"] is not None
        ],
    }
