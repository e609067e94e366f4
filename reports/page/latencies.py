"""Latencies on the page: simulated distributions, and predicted against measured ones of replays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.ledger.row import JsonObject, Row
from bench.ledger.store import Ledger
from instances.arrays import Floats
from reports.page.instance_results import InstanceResults

FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
"""Fractions of a workload's requests at which its latencies are stated."""

RATIOS = np.geomspace(0.02, 4.0, 70)
"""Multiples of the SLO at which the latencies of all workloads together are stated."""

_BINS_PER_OCTAVE = 16.0
"""Layout of the stored histograms: see ``bench.simulation.histogram.compact``."""

_RANGE_MS = (1e-9, 1e15)
"""Range to which latencies and SLOs are limited. Only forged ledgers exceed it; their numbers could overflow."""

_NOTHING_SERVED: JsonObject = {"lower_ms": [], "requests": []}


def distributions(simulation: JsonObject) -> dict[str, Any]:
    """Return the data of a simulation that the page draws.

    Returns
    -------
    dict
        ``in_time``: for each of ``RATIOS`` the fraction of all requests that were served within this multiple of their
        SLO. ``workloads``: for every workload and application, in the order of ``simulated``, the fraction of the
        requests not served in time; the latency in ms at each of ``FRACTIONS`` of the requests, ``None`` if fewer were
        served; and the end of that curve: the fraction served and the longest latency.
    """
    everyone = [*simulation["workloads"], *simulation["applications"]]
    requests = np.array([served["requests"] for served in everyone], dtype=np.float64)
    latencies, counts, sizes = _cumulative(everyone)
    ends = np.cumsum(sizes)
    first_ms, last_ms, total = (np.zeros(len(everyone)) for _ in range(3))
    some = sizes > 0
    first_ms[some], last_ms[some], total[some] = (
        latencies[(ends - sizes)[some]],
        latencies[ends[some] - 1],
        counts[ends[some] - 1],
    )

    # One look-up for all: the counts, or latencies, of each are shifted behind those of the one before.
    shift = np.cumsum(total + 1.0) - (total + 1.0)
    wanted = np.outer(requests, FRACTIONS)
    known = (wanted > 0.0) & (wanted <= total[:, None])
    quantiles_ms = np.full(wanted.shape, np.nan)
    if known.any():
        quantiles_ms[known] = np.interp((wanted + shift[:, None])[known], counts + np.repeat(shift, sizes), latencies)

    shift = np.cumsum(last_ms + 1.0) - (last_ms + 1.0)
    asked_ms = np.outer(np.clip([served["slo_ms"] for served in everyone], *_RANGE_MS), RATIOS)
    between = (asked_ms >= first_ms[:, None]) & (asked_ms < last_ms[:, None])
    within = np.where(asked_ms >= last_ms[:, None], total[:, None], 0.0)
    if between.any():
        within[between] = np.interp((asked_ms + shift[:, None])[between], latencies + np.repeat(shift, sizes), counts)

    own = len(simulation["workloads"])  # requests of applications are requests of their workloads
    served_pct = np.round(total / np.maximum(requests, 1.0), 5).tolist()
    ended_ms = np.where(total > 0.0, last_ms, np.nan)
    rounded_ms = _short(np.column_stack((quantiles_ms, ended_ms)))
    return {
        "in_time": (within[:own].sum(axis=0) / max(requests[:own].sum(), 1.0)).round(4).tolist(),
        "workloads": [
            [round(served["violation_rate"], 5), *quantiles, fraction, longest]
            for served, fraction, (*quantiles, longest) in zip(everyone, served_pct, rounded_ms, strict=True)
        ],
    }


def simulated(simulation: JsonObject) -> list[tuple[str, float]]:
    """Return id and SLO in ms of every workload and application of a simulation."""
    return [(one["id"], one["slo_ms"]) for one in (*simulation["workloads"], *simulation["applications"])]


def _cumulative(everyone: Sequence[JsonObject]) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """Return latencies in ms, ascending per entry; the requests up to each; and the number of latencies per entry.

    Requests are spread evenly within a bin. An entry without served requests has no latencies.
    """
    bins = [served["histogram"] if served["max_ms"] is not None else _NOTHING_SERVED for served in everyone]
    sizes = np.array([len(histogram["lower_ms"]) for histogram in bins], dtype=np.int64)
    lower = np.array([bound for histogram in bins for bound in histogram["lower_ms"]], dtype=np.float64)
    lower = lower.clip(*_RANGE_MS)
    requests = np.array([count for histogram in bins for count in histogram["requests"]], dtype=np.float64)
    largest = [
        max(served["max_ms"], histogram["lower_ms"][-1]) if size else 0.0
        for served, histogram, size in zip(everyone, bins, sizes, strict=True)
    ]
    starts = np.cumsum(sizes) - sizes
    upper = np.minimum(
        lower + np.exp2(np.floor(np.log2(lower))) / _BINS_PER_OCTAVE, np.repeat(np.clip(largest, *_RANGE_MS), sizes)
    )
    total = np.concatenate(([0.0], np.cumsum(requests)))
    after = total[1:] - np.repeat(total[starts], sizes)
    latencies, counts = np.column_stack((lower, upper)).ravel(), np.column_stack((after - requests, after)).ravel()
    return latencies, counts, 2 * sizes


def _short(latencies_ms: Floats) -> list[list[float | None]]:
    """Return numbers rounded to three digits, and ``None`` for missing ones."""
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = 2.0 - np.floor(np.log10(latencies_ms))  # behind the point
        many = np.rint(latencies_ms * 10.0**digits) / 10.0**digits  # no digits beyond the rounded ones
        few = np.rint(latencies_ms / 10.0**-digits) * 10.0**-digits
    rounded = np.where(digits >= 0.0, many, few)
    return [[None if latency != latency else latency for latency in row] for row in rounded.tolist()]


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
    label = [
        f"{planner or 'a plan'} on {backend}, run {row.key[:8]}",
        "tiny models, not its times" if backend == "cpu" else "",
        f"not valid: {reason}" if reason else "",
    ]
    return {
        "name": ": ".join(filter(None, label)),
        "scheduler": row.scheduler,
        "points": [
            (one["predicted"]["p99_ms"], one["p99_ms"], one["id"])
            for one in values["workloads"]
            if one.get("predicted") and one["predicted"]["p99_ms"] is not None and one["p99_ms"] is not None
        ],
    }
