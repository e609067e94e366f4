"""Best-effort jobs on one GPU (MediatorDNN): arrivals of their batches and their progress side by side.

Jobs have no shares. Each job is a process that runs its batches in order of arrival. A batch is one launch, or several
if it is larger than the largest batch of a launch. The transfer of a launch to the GPU delays only that launch; the
launch then runs on the GPU. There are two models of n launches that are on the GPU at the same time:

- They take turns: each advances at 1/n of its speed alone on the whole GPU. They also interfere: each is slower by the
  factor that the performance model predicts for n equal shares, because a launch's demand of caches and memory falls
  with its speed. Two launches therefore take at least twice as long side by side, whatever their DNNs are.
- They run at the same time (``PerformanceModel.concurrent``): each takes the time that the performance model predicts
  for an nth of the GPU beside the others. A small batch, which needs little of the GPU, is then hardly slower.

If the jobs together need less than the GPU offers, every launch completes, though later than alone; otherwise the
queues grow. Both models only approximate the contention on MediatorDNN's testbed.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from enum import StrEnum
from itertools import accumulate
from random import Random
from typing import NamedTuple, TypeVar

import numpy as np

from instances.arrays import Flags, Floats, Ints
from instances.compiled import compiled
from instances.interference import gpu_time_beside_ms, gpu_time_ms
from instances.tables import Tables
from instances.workload import Job

Value = TypeVar("Value")

WINDOW_MS = 1000.0
"""Length of the windows over which utilisation is averaged."""

WINDOWS = 200
"""Number of simulated windows: the time that MediatorDNN profiles a job (Sec. IV-B)."""


class Sample(StrEnum):
    """Independent samples of a job's batches: schedulers see ``PROFILE``, and plans are judged by ``TRIAL``."""

    PROFILE = "profile"
    TRIAL = "trial"


class Launches(NamedTuple):
    """Launches of a job on a GPU in the simulated time.

    Attributes
    ----------
    model
        Row of the job's model in the tables.
    arrival_ms, batch
        Arrival time and batch of every launch, in order of arrival, shape (launches,).
    """

    model: int
    arrival_ms: Floats
    batch: Ints


class JobProgress(NamedTuple):
    """Progress of jobs side by side on one GPU.

    Attributes
    ----------
    utilisation
        Fraction of the GPU that each job uses in each window, shape (jobs, ``WINDOWS``); at most 1 over all jobs.
    served
        Requests of completed launches, shape (jobs,).
    launches
        Completed launches, shape (jobs,).
    on_gpu_ms
        Time with a launch on the GPU, running or waiting for its turn, shape (jobs,).
    """

    utilisation: Floats
    served: Ints
    launches: Ints
    on_gpu_ms: Floats

    @property
    def throughput_rps(self) -> Floats:
        """Requests per second of each job, shape (jobs,)."""
        return np.divide(self.served, WINDOWS * WINDOW_MS / 1000.0, dtype=np.float64)


def draw_launches(tables: Tables, model: int, job: Job, largest: int, seed: int | None, sample: Sample) -> Launches:
    """Draw the arrivals and sizes of a job's batches; the same arguments give the same launches.

    Parameters
    ----------
    model
        Row of the job's model in ``tables``.
    largest
        Largest batch of one launch, which the tables must cover. Larger batches become several consecutive launches.
    seed
        Seed of the instance.
    """
    random = Random(f"{seed}/{job.id}/{sample}")
    gap_ms = _sampler(random, job.interarrival_ms, job.interarrival_weights)
    size = _sampler(random, job.batches, job.batch_weights)
    # Launches beyond the number that the job can complete alone on the GPU are not needed.
    alone_ms = tables.scheduling_ms[model] + tables.active_ms[model, 1 : largest + 1, tables.share_units]
    horizon_ms = WINDOWS * WINDOW_MS
    most_launches = 1 + int(horizon_ms / alone_ms.min())
    arrivals_ms, launch_counts, last_batches = [], [], []
    clock_ms, count = gap_ms(), 0
    while clock_ms < horizon_ms and count < most_launches:
        full_launches, remainder = divmod(size() - 1, largest)
        arrivals_ms.append(clock_ms)
        launch_counts.append(min(full_launches + 1, most_launches))
        last_batches.append(remainder + 1)
        count += launch_counts[-1]
        clock_ms += gap_ms()
    batch = np.full(count, largest, dtype=np.int64)
    batch[np.cumsum(launch_counts, dtype=np.int64) - 1] = last_batches
    return Launches(model, np.repeat(np.array(arrivals_ms), np.array(launch_counts, dtype=np.int64)), batch)


def _sampler(random: Random, values: Sequence[Value], weights: Sequence[float]) -> Callable[[], Value]:
    """Return a function that draws a value by ``Random.random``, whose sequence Python guarantees."""
    cumulative_weights = list(accumulate(weights))
    last = len(values) - 1
    return lambda: values[min(last, bisect_right(cumulative_weights, random.random() * cumulative_weights[-1]))]


def run_together(tables: Tables, jobs: Sequence[Launches], concurrent: bool = False) -> JobProgress:
    """Run jobs side by side on one GPU for ``WINDOWS`` windows.

    Launches run at the same time if ``concurrent``, otherwise they take turns.
    """
    starts = np.cumsum([0, *(len(job.batch) for job in jobs)], dtype=np.int64)
    return JobProgress(
        *_simulate(
            tables,
            concurrent,
            np.array([job.model for job in jobs], dtype=np.int64),
            starts,
            np.concatenate([np.empty(0), *(job.arrival_ms for job in jobs)]),
            np.concatenate([np.empty(0, dtype=np.int64), *(job.batch for job in jobs)]),
        )
    )


def run_alone(tables: Tables, jobs: Sequence[Launches]) -> Floats:
    """Return the fraction of a GPU that each job uses alone in each window, shape (jobs, ``WINDOWS``)."""
    return np.concatenate([np.empty((0, WINDOWS)), *(run_together(tables, [job]).utilisation for job in jobs)])


@compiled
def _simulate(
    tables: Tables, concurrent: bool, model: Ints, starts: Ints, arrival_ms: Floats, batch: Ints
) -> tuple[Floats, Ints, Ints, Floats]:
    """Simulate from event to event: a launch starts on the GPU, a launch ends, or a window ends.

    The launches of job i are those from ``starts[i]`` up to ``starts[i + 1]``.
    """
    jobs = len(model)
    utilisation = np.zeros((jobs, WINDOWS))
    served, launches = np.zeros(jobs, dtype=np.int64), np.zeros(jobs, dtype=np.int64)
    on_gpu_ms = np.zeros(jobs)
    # Per job: its running or next launch, and whether this launch is on the GPU
    current = starts[:-1].copy()
    running = np.zeros(jobs, dtype=np.bool_)
    # Per job: time of the next event, and remaining time alone and slowdown of the launch ``current``
    event_ms, remaining_ms, slowdown = np.empty(jobs), np.zeros(jobs), np.ones(jobs)
    for i in range(jobs):
        event_ms[i] = _ready_ms(tables, model[i], current[i], starts[i + 1], arrival_ms, batch, 0.0)
    now_ms, window = 0.0, 0
    while window < WINDOWS:
        until_ms = (window + 1) * WINDOW_MS
        for i in range(jobs):
            until_ms = min(until_ms, event_ms[i])
        count = running.sum()
        changed = False
        for i in range(jobs):
            if running[i]:
                on_gpu_ms[i] += until_ms - now_ms
                utilisation[i, window] += (until_ms - now_ms) / WINDOW_MS / count
                remaining_ms[i] -= (until_ms - now_ms) / slowdown[i]
            if event_ms[i] > until_ms:
                continue
            changed = True
            launch = current[i]
            if running[i]:
                served[i] += batch[launch]
                launches[i] += 1
                current[i] += 1
                running[i] = False
                event_ms[i] = _ready_ms(tables, model[i], launch + 1, starts[i + 1], arrival_ms, batch, until_ms)
            else:
                running[i] = True
                remaining_ms[i] = _alone_ms(tables, model[i], batch[launch], tables.share_units)
        now_ms = until_ms
        if now_ms >= (window + 1) * WINDOW_MS:
            window += 1
        if changed:
            slowdown[:] = 1.0
            if running.sum() > 1:
                _write_slowdowns(tables, concurrent, model, batch, current, running, slowdown)
            for i in range(jobs):
                if running[i]:
                    event_ms[i] = now_ms + remaining_ms[i] * slowdown[i] if remaining_ms[i] > 0.0 else now_ms
    return utilisation, served, launches, on_gpu_ms


@compiled
def _ready_ms(
    tables: Tables, model: int, launch: int, end: int, arrival_ms: Floats, batch: Ints, now_ms: float
) -> float:
    """Return the time at which a launch has arrived and is transferred; infinite after the job's last launch."""
    if launch >= end:
        return np.inf
    return max(now_ms, arrival_ms[launch]) + tables.transfer_ms[model, batch[launch]]


@compiled
def _write_slowdowns(
    tables: Tables, concurrent: bool, model: Ints, batch: Ints, current: Ints, running: Flags, slowdown: Floats
) -> None:
    """Write the factor by which each running launch takes longer than it would alone on the whole GPU."""
    jobs_on_gpu = np.flatnonzero(running)
    count = len(jobs_on_gpu)
    units = max(1, tables.share_units // count)
    demands = np.empty((count, 3))
    for i in range(count):
        m, b = model[jobs_on_gpu[i]], batch[current[jobs_on_gpu[i]]]
        demands[i] = tables.l2_pct[m, b, units], tables.dram_pct[m, b, units], tables.power_w[m, b, units]
    for i in range(count):
        m, b = model[jobs_on_gpu[i]], batch[current[jobs_on_gpu[i]]]
        disturbed_ms = gpu_time_beside_ms(tables, m, b, units, demands, i)
        if disturbed_ms == np.inf:  # at a frequency of 0 no launch advances
            slowdown[jobs_on_gpu[i]] = np.inf
        elif concurrent:
            slowdown[jobs_on_gpu[i]] = disturbed_ms / _alone_ms(tables, m, b, tables.share_units)
        else:
            slowdown[jobs_on_gpu[i]] = count * disturbed_ms / _alone_ms(tables, m, b, units)


@compiled
def _alone_ms(tables: Tables, model: int, batch: int, units: int) -> float:
    """Return the GPU time of a launch alone on the GPU."""
    return gpu_time_ms(tables, model, batch, units, 1, 0.0, 0.0, tables.power_w[model, batch, units])
