"""Outcomes of a run's requests as parts of a bar."""

from collections.abc import Iterable

from bench.ledger.row import Row
from reports.figure import Need
from reports.scheduler_bars import BarPart
from reports.selection import instances_of


def spare_rps(row: Row) -> float | None:
    """Return the throughput of a plan beyond the requests served in time, per second."""
    if row.throughput_rps is None or row.sim_goodput_rps is None:
        return None
    return max(0.0, row.throughput_rps - row.sim_goodput_rps)


def late_pct(row: Row) -> float | None:
    """Return the percentage of the requests that were served too late."""
    if row.sim_violation_rate is None or row.sim_drop_rate is None:
        return None
    return 100.0 * (row.sim_violation_rate - row.sim_drop_rate)


def dropped_pct(row: Row) -> float | None:
    """Return the percentage of the requests that were not served at all."""
    return None if row.sim_drop_rate is None else 100.0 * row.sim_drop_rate


def mean_latency_ms(row: Row, model: str, needs: Iterable[Need]) -> float | None:
    """Return the mean latency of a model's served requests; ``needs`` name the row's instance."""
    if row.simulation is None:
        return None
    models = instances_of(tuple(needs))[row.instance].model_of
    found = [
        (one["requests"] - one["dropped"] - one["unfinished"], one["mean_ms"])
        for one in row.simulation["workloads"]
        if models[one["id"]] == model and one["mean_ms"] is not None
    ]
    served = sum(requests for requests, _ in found)
    return sum(requests * mean_ms for requests, mean_ms in found) / served if served else None


SERVED = (
    BarPart("arriving, served in time", lambda row: row.sim_goodput_rps),
    BarPart("further possible", spare_rps, faint=True),
)
NOT_IN_TIME = (BarPart("late", late_pct), BarPart("dropped", dropped_pct, faint=True))
