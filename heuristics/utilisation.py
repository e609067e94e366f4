"""How busy a workload or job keeps its share of a GPU: mean and deviation, from a simulation of it alone."""

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from instances import Job
from instances.view import View

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

WINDOW_MS = 1000.0
"""Utilisation is the busy fraction of windows of this length."""

WORKLOAD_WINDOWS = 60
JOB_WINDOWS = 200
"""Windows simulated; jobs as long as the paper profiles them (MediatorDNN, Sec. IV-B)."""


class Utilisation(NamedTuple):
    """Profile of candidates for co-location; arrays of shape (candidates,) and (candidates, metrics).

    Attributes
    ----------
    mean, deviation
        Of the part of a GPU that is busy, over windows of a second.
    metrics
        What it demands of low-level resources: L2 and DRAM utilisation, power.
    """

    mean: Floats
    deviation: Floats
    metrics: Floats


@njit(cache=True)
def busy_fractions(arrivals_ms: Floats, batch: int, service_ms: Floats, timeout_ms: float, windows: int) -> Floats:
    """Serve arrivals in batches on one server and return the busy fraction of each window.

    A batch starts as soon as the server is free and either ``batch`` requests wait or the oldest has waited
    ``timeout_ms``, as in ``instances.queueing``.

    Parameters
    ----------
    arrivals_ms
        Nondecreasing, shape (requests,).
    batch, timeout_ms
        Of the slot.
    service_ms
        Time of a batch that begins with each request, shape (requests,).
    windows
        Of ``WINDOW_MS``.
    """
    busy_ms = np.zeros(windows)
    free_ms = 0.0
    first = 0
    while first < len(arrivals_ms):
        ready_ms = arrivals_ms[first] + timeout_ms
        if first + batch <= len(arrivals_ms):
            ready_ms = min(ready_ms, arrivals_ms[first + batch - 1])
        start_ms = max(free_ms, ready_ms)
        free_ms = start_ms + service_ms[first]
        last = first
        while last < len(arrivals_ms) and last < first + batch and arrivals_ms[last] <= start_ms:
            last += 1
        first = last
        window = int(start_ms // WINDOW_MS)
        while window < windows and start_ms < free_ms:
            end_ms = min(free_ms, (window + 1) * WINDOW_MS)
            busy_ms[window] += end_ms - start_ms
            start_ms = end_ms
            window += 1
        if window >= windows:
            break
    return busy_ms / WINDOW_MS


def of_items(view: View, workload: Ints, batch: Ints, units: Ints, rate_rps: Floats) -> Utilisation:
    """Profile workloads alone at these batches and shares, each under a fixed sample of Poisson arrivals."""
    tables, most = view.tables, view.tables.share_units
    model = view.model[workload]
    service_ms = tables.scheduling_ms[model] + tables.active_ms[model, batch, units]
    mean, deviation = np.empty(len(model)), np.empty(len(model))
    for i, rate in enumerate(rate_rps.tolist()):
        random = np.random.default_rng(i)
        expected = rate * WORKLOAD_WINDOWS * WINDOW_MS / 1000.0
        # Six deviations more than expected last to the end of the last window
        gaps = random.standard_exponential(int(expected + 6.0 * np.sqrt(expected)) + 1)
        arrivals_ms = np.cumsum(gaps) * (1000.0 / rate)
        timeout_ms = float(view.slo_ms[workload[i]]) / 2.0
        busy = busy_fractions(
            arrivals_ms, int(batch[i]), np.full(len(gaps), service_ms[i]), timeout_ms, WORKLOAD_WINDOWS
        )
        mean[i], deviation[i] = busy.mean() * units[i] / most, busy.std() * units[i] / most
    at = (model, batch, units)
    return Utilisation(mean, deviation, np.column_stack([tables.l2_pct[at], tables.dram_pct[at], tables.power_w[at]]))


def of_jobs(view: View, jobs: tuple[Job, ...]) -> Utilisation:
    """Profile best-effort jobs alone on the whole GPU: batches drawn as they come, served first come first served.

    A batch larger than the largest with figures is served in several.
    """
    tables, full = view.tables, view.tables.share_units
    row = {name: n for n, name in enumerate(view.gpu.models)}
    mean, deviation, metrics = np.empty(len(jobs)), np.empty(len(jobs)), np.empty((len(jobs), 3))
    for i, job in enumerate(jobs):
        random = np.random.default_rng(i)
        model = row[job.model]
        times_ms = tables.scheduling_ms[model] + tables.active_ms[model, :, full] + tables.transfer_ms[model]
        top = int(tables.max_batch[model])
        gaps, chance = np.array(job.interarrival_ms), np.array(job.interarrival_weights)
        count = int(2.0 * JOB_WINDOWS * WINDOW_MS * chance.sum() / (gaps @ chance)) + 1
        arrivals_ms = np.cumsum(random.choice(gaps, count, p=chance / chance.sum()))
        sizes = np.array(job.batches)
        chances = np.array(job.batch_weights)
        drawn = random.choice(sizes, count, p=chances / chances.sum())
        service_ms = (drawn // top) * times_ms[top] + np.where(drawn % top > 0, times_ms[drawn % top], 0.0)
        busy = busy_fractions(arrivals_ms, 1, service_ms, 0.0, JOB_WINDOWS)
        mean[i], deviation[i] = busy.mean(), busy.std()
        usual = min(top, max(1, round(float(sizes @ chances / chances.sum()))))
        metrics[i] = (
            tables.l2_pct[model, usual, full],
            tables.dram_pct[model, usual, full],
            tables.power_w[model, usual, full],
        )
    return Utilisation(mean, deviation, metrics)
