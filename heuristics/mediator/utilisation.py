"""Mean and deviation of the utilisation of a GPU by one workload or job alone, from a simulation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from instances import Job
from instances.arrays import Floats, Ints
from instances.colocation import WINDOW_MS, Sample, draw_launches, run_alone
from instances.compiled import compiled
from instances.gpu import GpuType
from instances.queueing import next_batch
from instances.view import View

WORKLOAD_WINDOWS = 60
"""Windows simulated per workload; for a job the number is that of ``instances.colocation``."""


class Utilisation(NamedTuple):
    """Profile of candidates for co-location; arrays of shape (candidates,) and (candidates, metrics).

    Attributes
    ----------
    mean, deviation
        Mean and deviation of the busy fraction of a GPU, over windows of one second.
    metrics
        Demand for low-level resources: L2 and DRAM utilisation, power.
    """

    mean: Floats
    deviation: Floats
    metrics: Floats


@compiled
def busy_fractions(arrivals_ms: Floats, batch: int, service_ms: float, timeout_ms: float, windows: int) -> Floats:
    """Return the busy fraction of each window of ``WINDOW_MS`` of one server that serves the arrivals in batches.

    Arrival times do not decrease. Batches start by the rule of ``instances.queueing.next_batch``.
    """
    busy_ms = np.zeros(windows)
    free_ms, first = 0.0, 0
    while first < len(arrivals_ms) and free_ms < windows * WINDOW_MS:
        start_ms, first = next_batch(arrivals_ms, first, len(arrivals_ms), free_ms, batch, timeout_ms)
        free_ms = start_ms + service_ms
        window = int(start_ms // WINDOW_MS)
        while window < windows and start_ms < free_ms:
            end_ms = min(free_ms, (window + 1) * WINDOW_MS)
            busy_ms[window] += end_ms - start_ms
            start_ms = end_ms
            window += 1
    return busy_ms / WINDOW_MS


def of_items(view: View, workload: Ints, batch: Ints, units: Ints, rate_rps: Floats) -> Utilisation:
    """Profile workloads alone at these batches and shares, each with a fixed sample of Poisson arrivals."""
    tables, share_units = view.tables, view.tables.share_units
    model = view.model[workload]
    service_ms = tables.scheduling_ms[model] + tables.active_ms[model, batch, units]
    mean, deviation = np.empty(len(model)), np.empty(len(model))
    for i, rate in enumerate(rate_rps.tolist()):
        random = np.random.default_rng(i)
        expected = rate * WORKLOAD_WINDOWS * WINDOW_MS / 1000.0
        # Six standard deviations above the mean number of arrivals reach the end of the last window
        gaps = random.standard_exponential(int(expected + 6.0 * np.sqrt(expected)) + 1)
        arrivals_ms = np.cumsum(gaps) * (1000.0 / rate)
        timeout_ms = float(view.slo_ms[workload[i]]) / 2.0
        busy = busy_fractions(arrivals_ms, int(batch[i]), float(service_ms[i]), timeout_ms, WORKLOAD_WINDOWS)
        mean[i], deviation[i] = busy.mean() * units[i] / share_units, busy.std() * units[i] / share_units
    index = (model, batch, units)
    return Utilisation(
        mean, deviation, np.column_stack([tables.l2_pct[index], tables.dram_pct[index], tables.power_w[index]])
    )


def of_jobs(view: View, jobs: Sequence[Job]) -> Utilisation:
    """Profile best-effort jobs, each alone on the whole GPU (MediatorDNN, Sec. IV-B).

    Utilisations come from a simulation of the drawn requests, metrics from the mean batch.
    """
    tables, share_units = view.tables, view.tables.share_units
    row = {name: n for n, name in enumerate(view.gpu.models)}
    indices = [
        (row[job.model], min(largest_batch(view.gpu, job), max(1, round(job.mean_batch))), share_units) for job in jobs
    ]
    launches = [
        draw_launches(tables, row[job.model], job, largest_batch(view.gpu, job), view.instance.seed, Sample.PROFILE)
        for job in jobs
    ]
    busy = run_alone(tables, launches)
    metrics = [(tables.l2_pct[index], tables.dram_pct[index], tables.power_w[index]) for index in indices]
    return Utilisation(busy.mean(axis=1), busy.std(axis=1), np.array(metrics).reshape(-1, 3))


def largest_batch(gpu: GpuType, job: Job) -> int:
    """Return the largest batch of a job that its requests, the model's figures and the memory permit; at least 1."""
    model = gpu.models[job.model]
    largest = min(max(job.batches), model.max_batch)
    return max((b for b in range(1, largest + 1) if model.memory_mib(b) <= gpu.memory_mib), default=1)
