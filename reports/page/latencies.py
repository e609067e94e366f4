"""Simulated latencies as distributions, from the histograms that a run keeps of every workload."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bench.ledger.row import JsonObject

FRACTIONS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999)
"""Of the requests of a workload, at which its latencies are told."""

RATIOS = np.geomspace(0.02, 4.0, 70)
"""Multiples of the SLO at which the latencies of all workloads together are told."""

_BINS_PER_OCTAVE = 16.0
"""Of the histograms that are kept: see ``bench.simulation.histogram.compact``."""

_NOTHING_SERVED: JsonObject = {"lower_ms": [], "requests": []}

Floats = NDArray[np.float64]


def distributions(simulation: JsonObject) -> dict[str, Any]:
    """Return what the page draws of a simulation.

    Returns
    -------
    dict
        ``in_time``: for every one of ``RATIOS`` the fraction of all requests that were served within this multiple of
        their SLO. ``workloads``: for every workload and application, in the order of ``simulated``, the fraction of
        the requests not served in time, the latency in ms at every one of ``FRACTIONS`` of the requests, which is
        ``None`` where fewer were served at all, and where that ends: the fraction served, and the longest latency.
    """
    requests, within, told = 0, np.zeros(len(RATIOS)), []
    everyone = [*simulation["workloads"], *simulation["applications"]]
    for served, (latencies, counts) in zip(everyone, _cumulative(everyone), strict=True):
        quantiles = _quantiles_ms(latencies, counts, served["requests"])
        end = (round(counts[-1] / served["requests"], 5), _short(latencies[-1])) if counts[-1] else (0.0, None)
        told.append([round(served["violation_rate"], 5), *quantiles, *end])
        if len(told) <= len(simulation["workloads"]):  # requests of applications are requests of their workloads
            requests += served["requests"]
            within += np.interp(RATIOS * served["slo_ms"], latencies, counts)
    return {"in_time": (within / max(requests, 1)).round(4).tolist(), "workloads": told}


def simulated(simulation: JsonObject) -> list[tuple[str, float]]:
    """Return id and SLO in ms of every workload and application of a simulation."""
    return [(one["id"], one["slo_ms"]) for one in (*simulation["workloads"], *simulation["applications"])]


def _cumulative(everyone: Sequence[JsonObject]) -> Iterator[tuple[Floats, Floats]]:
    """Yield for each latencies in ms, ascending, and how many requests do not exceed each; spread evenly within a bin.

    The bins of all are computed at once: a plan has hundreds of workloads with a few bins each.
    """
    bins = [served["histogram"] if served["max_ms"] is not None else _NOTHING_SERVED for served in everyone]
    sizes = np.array([len(histogram["lower_ms"]) for histogram in bins], dtype=np.int64)
    lower = np.array([bound for histogram in bins for bound in histogram["lower_ms"]], dtype=np.float64)
    requests = np.array([count for histogram in bins for count in histogram["requests"]], dtype=np.float64)
    largest = [
        max(served["max_ms"], histogram["lower_ms"][-1]) if size else 0.0
        for served, histogram, size in zip(everyone, bins, sizes, strict=True)
    ]
    ends = np.cumsum(sizes)
    starts = ends - sizes
    upper = np.minimum(lower + np.exp2(np.floor(np.log2(lower))) / _BINS_PER_OCTAVE, np.repeat(largest, sizes))
    total = np.concatenate(([0.0], np.cumsum(requests)))
    after = total[1:] - np.repeat(total[starts], sizes)
    latencies, counts = np.column_stack((lower, upper)).ravel(), np.column_stack((after - requests, after)).ravel()
    for start, end in zip(2 * starts, 2 * ends, strict=True):
        yield (latencies[start:end], counts[start:end]) if start < end else (np.zeros(1), np.zeros(1))


def _quantiles_ms(latencies: Floats, counts: Floats, requests: int) -> list[float | None]:
    wanted = np.array(FRACTIONS) * requests
    found = np.interp(wanted, counts, latencies)
    return [_short(latency) if 0.0 < rank <= counts[-1] else None for latency, rank in zip(found, wanted, strict=True)]


def _short(latency_ms: float) -> float:
    return float(f"{latency_ms:.3g}")
