"""Quantities of a run that are computed from its row."""

from math import log

from bench.ledger.row import Row
from instances import Instance
from instances.costs import whole_gpus
from reports.runs import the_instance


def certified_bound(row: Row) -> float | None:
    """Return the certified bound of a run; ``None`` without one."""
    return row.bound if row.bound_certified else None


def proven_gpus(row: Row) -> int | None:
    """Return the number of GPUs that any plan needs by a run's certified bound on cost; the pool has one GPU type."""
    if (bound := certified_bound(row)) is None:
        return None
    (pool,) = the_instance(row.instance).gpus
    return whole_gpus(bound, pool.type.price_per_hour)


def workload_count(row: Row) -> int:
    """Return the number of workloads in the instance of a row."""
    return len(the_instance(row.instance).workloads)


def requests_rps(instance: Instance) -> float:
    """Return the requests per second of an instance; those of an application visit all its stages and count once."""
    later_stages = {stage for application in instance.applications for stage in application.stages[1:]}
    return sum(workload.rate_rps for workload in instance.workloads if workload.id not in later_stages)


def spare_rps(row: Row) -> float | None:
    """Return the throughput of a plan above its simulated goodput, in requests per second, at least 0."""
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
    """Return the mean latency of a model's served requests over all of its workloads."""
    if row.simulation is None:
        return None
    models = the_instance(row.instance).model_of
    means = [
        (workload["requests"] - workload["dropped"] - workload["unfinished"], workload["mean_ms"])
        for workload in row.simulation["workloads"]
        if models[workload["id"]] == model and workload["mean_ms"] is not None
    ]
    served = sum(requests for requests, _ in means)
    return sum(requests * mean_ms for requests, mean_ms in means) / served if served else None


def allocated_pct(row: Row) -> float | None:
    """Return the allocated shares, summed over GPUs, in percent of one GPU."""
    fragments = fragments_pct(row)
    return None if row.gpus_used is None or fragments is None else 100.0 * row.gpus_used - fragments


def fragments_pct(row: Row) -> float | None:
    """Return the unallocated shares, summed over the GPUs in use, in percent of one GPU (InSS, Sec. 2.4)."""
    return None if row.gpus_used is None or row.fragments_pct is None else row.gpus_used * row.fragments_pct


def not_in_time_pct(row: Row) -> float | None:
    """Return the percentage of the requests not served in time."""
    return None if row.sim_violation_rate is None else 100.0 * row.sim_violation_rate


def decision_ms(row: Row) -> float | None:
    """Return the decision time in milliseconds."""
    return None if row.decision_s is None else 1000.0 * row.decision_s


def power_of_growth(small: Row, large: Row, ratio: float) -> float | None:
    """Return the power of the size with which the decision time grows; ``ratio`` is that of the runs' sizes."""
    small_ms, large_ms = decision_ms(small), decision_ms(large)
    return None if small_ms is None or large_ms is None else log(large_ms / small_ms) / log(ratio)
