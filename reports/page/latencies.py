"""Latencies on the page: simulated distributions, and predicted against measured ones of replays."""

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.ledger.row import JsonObject, Row
from bench.ledger.store import Ledger
from instances.arrays import Floats
from reports.page.instance_results import InstanceResults

FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
"""Fractions of a workload's requests for which its latency quantiles are computed."""

SLO_MULTIPLES = np.geomspace(0.02, 4.0, 70)
"""Multiples of the SLO for which the fraction of requests within them is computed, over all workloads."""

_BINS_PER_OCTAVE = 16.0
"""Bins per doubling of the latency in the stored histograms: see ``bench.simulation.histogram.compact``."""

_RANGE_MS = (1e-9, 1e15)
"""Range to which latencies and SLOs are limited. Numbers of forged ledgers can exceed this range and overflow."""

_NOTHING_SERVED: JsonObject = {"lower_ms": [], "requests": []}


def distributions(simulation: JsonObject) -> dict[str, Any]:
    """Return the data of a simulation that the page draws.

    Returns
    -------
    dict
        ``in_time``: for each of ``SLO_MULTIPLES``, the fraction of all requests that were served within this multiple
        of their SLO. ``workloads``: a list for every workload and application, in the order of ``ids_and_slos_ms``. The
        list has the fraction of requests not served in time, then the latency in ms at each of ``FRACTIONS`` of the
        requests (``None`` if fewer were served), then the fraction of requests served and the longest latency in ms.
    """
    entries = [*simulation["workloads"], *simulation["applications"]]
    requests = np.array([entry["requests"] for entry in entries], dtype=np.float64)
    latencies, counts, sizes = _cumulative_distributions(entries)
    ends = np.cumsum(sizes)
    smallest_ms, largest_ms, served_count = (np.zeros(len(entries)) for _ in range(3))
    nonempty = sizes > 0
    smallest_ms[nonempty], largest_ms[nonempty], served_count[nonempty] = (
        latencies[(ends - sizes)[nonempty]],
        latencies[ends[nonempty] - 1],
        counts[ends[nonempty] - 1],
    )

    # One call of np.interp serves all entries: each entry's x values are shifted beyond those of the previous entry.
    # For latencies at given counts, counts are the x values; for counts at given latencies, latencies are.
    count_offsets = np.cumsum(served_count + 1.0) - (served_count + 1.0)
    target_counts = np.outer(requests, FRACTIONS)
    reached = (target_counts > 0.0) & (target_counts <= served_count[:, None])
    quantiles_ms = np.full(target_counts.shape, np.nan)
    if reached.any():
        quantiles_ms[reached] = np.interp(
            (target_counts + count_offsets[:, None])[reached], counts + np.repeat(count_offsets, sizes), latencies
        )

    latency_offsets_ms = np.cumsum(largest_ms + 1.0) - (largest_ms + 1.0)
    thresholds_ms = np.outer(np.clip([entry["slo_ms"] for entry in entries], *_RANGE_MS), SLO_MULTIPLES)
    interpolated = (thresholds_ms >= smallest_ms[:, None]) & (thresholds_ms < largest_ms[:, None])
    counts_within = np.where(thresholds_ms >= largest_ms[:, None], served_count[:, None], 0.0)
    if interpolated.any():
        counts_within[interpolated] = np.interp(
            (thresholds_ms + latency_offsets_ms[:, None])[interpolated],
            latencies + np.repeat(latency_offsets_ms, sizes),
            counts,
        )

    # Only workloads count here, because requests of applications are requests of their workloads.
    workload_count = len(simulation["workloads"])
    within_of_all = counts_within[:workload_count].sum(axis=0) / max(requests[:workload_count].sum(), 1.0)
    served_fractions = np.round(served_count / np.maximum(requests, 1.0), 5).tolist()
    longest_ms = np.where(served_count > 0.0, largest_ms, np.nan)
    rounded_ms = _rounded(np.column_stack((quantiles_ms, longest_ms)))
    return {
        "in_time": within_of_all.round(4).tolist(),
        "workloads": [
            [round(entry["violation_rate"], 5), *quantiles, fraction, longest]
            for entry, fraction, (*quantiles, longest) in zip(entries, served_fractions, rounded_ms, strict=True)
        ],
    }


def ids_and_slos_ms(simulation: JsonObject) -> list[tuple[str, float]]:
    """Return identifier and SLO in ms of every workload and application of a simulation."""
    return [(entry["id"], entry["slo_ms"]) for entry in (*simulation["workloads"], *simulation["applications"])]


def _cumulative_distributions(entries: Sequence[JsonObject]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return the cumulative distribution of every entry: latencies in ms, requests up to each latency, and array sizes.

    The latencies of all entries are in one array, ascending within an entry; the sizes are the numbers of latencies per
    entry. Requests are spread evenly within a bin. An entry without served requests has no latencies.
    """
    bins = [entry["histogram"] if entry["max_ms"] is not None else _NOTHING_SERVED for entry in entries]
    sizes = np.array([len(histogram["lower_ms"]) for histogram in bins], dtype=np.int64)
    lower_ms = np.array([bound for histogram in bins for bound in histogram["lower_ms"]], dtype=np.float64)
    lower_ms = lower_ms.clip(*_RANGE_MS)
    requests = np.array([count for histogram in bins for count in histogram["requests"]], dtype=np.float64)
    largest = [
        max(entry["max_ms"], histogram["lower_ms"][-1]) if size else 0.0
        for entry, histogram, size in zip(entries, bins, sizes, strict=True)
    ]
    starts = np.cumsum(sizes) - sizes
    upper_ms = np.minimum(
        lower_ms + np.exp2(np.floor(np.log2(lower_ms))) / _BINS_PER_OCTAVE,
        np.repeat(np.clip(largest, *_RANGE_MS), sizes),
    )
    cumulative = np.concatenate(([0.0], np.cumsum(requests)))
    count_after = cumulative[1:] - np.repeat(cumulative[starts], sizes)
    latencies, counts = (
        np.column_stack((lower_ms, upper_ms)).ravel(),
        np.column_stack((count_after - requests, count_after)).ravel(),
    )
    return latencies, counts, 2 * sizes


def _rounded(latencies_ms: Floats) -> list[list[float | None]]:
    """Return latencies in ms rounded to three significant digits, and ``None`` for missing ones."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 2.0 - np.floor(np.log10(latencies_ms))  # after the decimal point
        # A positive power of ten is exact, a negative one is not and would add digits.
        small = np.rint(latencies_ms * 10.0**digits) / 10.0**digits
        large = np.rint(latencies_ms / 10.0**-digits) * 10.0**-digits
    rounded = np.where(digits >= 0.0, small, large)
    return [[None if isnan(latency) else latency for latency in row] for row in rounded.tolist()]


def measured_points(
    instance_results: InstanceResults, shown: Mapping[str, Row], ledger: Ledger
) -> list[dict[str, Any]]:
    """Return the replays of plans for an instance that have points to draw.

    Parameters
    ----------
    instance_results, ledger
        The instance, and the ledger with its replays.
    shown
        Runs by entrant. A replayed plan of one of these runs gets the entrant's name.

    Returns
    -------
    list of dict
        ``name`` has the planner, the backend, the run and remarks; ``scheduler`` is the planner's. ``points`` are
        (predicted P99 latency in ms, measured P99 latency in ms, workload), for workloads with both latencies.
    """
    replays = [_replay(ledger.rows(key=row.key)[0], shown) for row in instance_results.replays]
    return [replay for replay in replays if replay["points"]]


def _replay(row: Row, shown: Mapping[str, Row]) -> dict[str, Any]:
    """Return one entry of ``measured_points``; its list of points may be empty."""
    values = row.simulation or {"workloads": []}
    planner = next((name for name, run in shown.items() if run.plan == row.plan), None)
    backend, reason = row.parameters["replay"]["backend"], values.get("invalid_reason")
    name_parts = [
        f"{planner or 'a plan'} on {backend}, run {row.key[:8]}",
        "tiny models, not its times" if backend == "cpu" else "",
        f"not valid: {reason}" if reason else "",
    ]
    return {
        "name": ": ".join(filter(None, name_parts)),
        "scheduler": row.scheduler,
        "points": [
            (workload["predicted"]["p99_ms"], workload["p99_ms"], workload["id"])
            for workload in values["workloads"]
            if workload.get("predicted")
            and workload["predicted"]["p99_ms"] is not None
            and workload["p99_ms"] is not None
        ],
    }
