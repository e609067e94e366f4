"""Quantities of a run that its row does not hold in this form."""

from bench.ledger.row import Row
from instances.costs import whole_gpus
from reports.runs import the_instance


def certified_bound(row: Row) -> float | None:
    """Return the certified bound of a run; ``None`` without one."""
    return row.bound if row.bound_certified else None


def proven_gpus(row: Row) -> int | None:
    """Return the GPUs, all of one type, that a run's certified bound on cost proves to be needed."""
    if (bound := certified_bound(row)) is None:
        return None
    (pool,) = the_instance(row.instance).gpus
    return whole_gpus(bound, pool.type.price_per_hour)


def size_of(row: Row) -> int:
    """Return the number of workloads of a row's instance."""
    return len(the_instance(row.instance).workloads)


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


def mean_latency_ms(row: Row, model: str) -> float | None:
    """Return the mean latency of a model's served requests."""
    if row.simulation is None:
        return None
    models = the_instance(row.instance).model_of
    found = [
        (one["requests"] - one["dropped"] - one["unfinished"], one["mean_ms"])
        for one in row.simulation["workloads"]
        if models[one["id"]] == model and one["mean_ms"] is not None
    ]
    served = sum(requests for requests, _ in found)
    return sum(requests * mean_ms for requests, mean_ms in found) / served if served else None


def allocated_pct(row: Row) -> float | None:
    """Return the allocated shares, summed over GPUs: 100 is a whole GPU."""
    fragments = fragments_pct(row)
    return None if row.gpus_used is None or fragments is None else 100.0 * row.gpus_used - fragments


def fragments_pct(row: Row) -> float | None:
    """Return the unallocated shares of the GPUs in use, summed over these (InSS, Sec. 2.4)."""
    return None if row.gpus_used is None or row.fragments_pct is None else row.gpus_used * row.fragments_pct


def not_in_time_pct(row: Row) -> float | None:
    """Return the percentage of the requests not served in time."""
    return None if row.sim_violation_rate is None else 100.0 * row.sim_violation_rate


def decision_ms(row: Row) -> float | None:
    """Return the decision time in milliseconds."""
    return None if row.decision_s is None else 1000.0 * row.decision_s
