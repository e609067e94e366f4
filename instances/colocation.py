"""Best-effort jobs on one GPU (MediatorDNN): arrivals of their batches and their progress side by side.

Jobs have no shares. Each job is a process that takes its batches in order of arrival. Every launch is first
transferred, which delays only itself, and then runs on the GPU. The n launches that are on the GPU at a moment take
turns: each advances at 1/n of its speed alone on the whole GPU. They also interfere: each is slower by the factor that
the performance model predicts for n shares of equal size, because a launch's demand of caches and memory falls with its
speed.

The GPU is work-conserving: while the jobs together need less than the whole GPU, interference included, every launch
completes, though later than alone; beyond that the queues grow. MediatorDNN's testbed has real contention; this is a
model of it.
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
    """Samples of a job's batches: schedulers see one, and plans are judged by an independent one."""

    PROFILE = "profile"
    TRIAL = "trial"


class Launches(NamedTuple):
    """Launches of a job on a GPU in the simulated time.

    Attributes
    ----------
    model
        Row of its model in the tables.
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
    taken
        Fraction of the GPU that each job takes in each window, shape (jobs, ``WINDOWS``); at most 1 over all jobs.
    served
        Requests of completed launches, shape (jobs,).
    launches
        Completed launches, shape (jobs,).
    on_gpu_ms
        Time with a launch on the GPU, running or waiting for its turn, shape (jobs,).
    """

    taken: Floats
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
        Largest batch of one launch, at most the largest with figures. Larger batches become several consecutive
        launches.
    seed
        Seed of the instance.
    """
    random = Random(f"{seed}/{job.id}/{sample}")
    gap_ms = _sampler(random, job.interarrival_ms, job.interarrival_weights)
    size = _sampler(random, job.batches, job.batch_weights)
    # Launches beyond those that the job completes alone on the GPU change nothing.
    alone_ms = tables.scheduling_ms[model] + tables.active_ms[model, 1 : largest + 1, tables.share_units]
    horizon_ms = WINDOWS * WINDOW_MS
    most = 1 + int(horizon_ms / alone_ms.min())
    arrivals_ms, pieces, rest = [], [], []
    clock_ms, count = gap_ms(), 0
    while clock_ms < horizon_ms and count < most:
        whole, remainder = divmod(size() - 1, largest)
        arrivals_ms.append(clock_ms)
        pieces.append(min(whole + 1, most))
        rest.append(remainder + 1)
        count += pieces[-1]
        clock_ms += gap_ms()
    batch = np.full(count, largest, dtype=np.int64)
    batch[np.cumsum(pieces, dtype=np.int64) - 1] = rest
    return Launches(model, np.repeat(np.array(arrivals_ms), np.array(pieces, dtype=np.int64)), batch)


def _sampler(random: Random, values: Sequence[Value], weights: Sequence[float]) -> Callable[[], Value]:
    """Return a function that draws a value; it calls ``Random.random`` alone, whose sequence Python guarantees."""
    reached = list(accumulate(weights))
    last = len(values) - 1
    return lambda: values[min(last, bisect_right(reached, random.random() * reached[-1]))]


def run_together(tables: Tables, jobs: Sequence[Launches]) -> JobProgress:
    """Run jobs side by side on one GPU for ``WINDOWS`` windows."""
    starts = np.cumsum([0, *(len(job.batch) for job in jobs)], dtype=np.int64)
    return JobProgress(
        *_take_turns(
            tables,
            np.array([job.model for job in jobs], dtype=np.int64),
            starts,
            np.concatenate([np.empty(0), *(job.arrival_ms for job in jobs)]),
            np.concatenate([np.empty(0, dtype=np.int64), *(job.batch for job in jobs)]),
        )
    )


def run_alone(tables: Tables, jobs: Sequence[Launches]) -> Floats:
    """Return the fraction of a GPU that each job takes alone in each window, shape (jobs, ``WINDOWS``)."""
    return np.concatenate([np.empty((0, WINDOWS)), *(run_together(tables, [job]).taken for job in jobs)])


@compiled
def _take_turns(
    tables: Tables, model: Ints, starts: Ints, arrival_ms: Floats, batch: Ints
) -> tuple[Floats, Ints, Ints, Floats]:
    """Simulate from event to event: a launch starts on the GPU, a launch ends, or a window ends.

    The launches of job i are those from ``starts[i]`` up to ``starts[i + 1]``.
    """
    jobs = len(model)
    taken = np.zeros((jobs, WINDOWS))
    served, launches = np.zeros(jobs, dtype=np.int64), np.zeros(jobs, dtype=np.int64)
    on_gpu_ms = np.zeros(jobs)
    current = starts[:-1].copy()
    running = np.zeros(jobs, dtype=np.bool_)
    # Per job: time of the next event, remaining time of its launch alone on the GPU, and its slowdown
    due_ms, left_ms, slower = np.empty(jobs), np.zeros(jobs), np.ones(jobs)
    for i in range(jobs):
        due_ms[i] = _ready_ms(tables, model[i], current[i], starts[i + 1], arrival_ms, batch, 0.0)
    now_ms, window = 0.0, 0
    while window < WINDOWS:
        until_ms = (window + 1) * WINDOW_MS
        for i in range(jobs):
            until_ms = min(until_ms, due_ms[i])
        count = running.sum()
        changed = False
        for i in range(jobs):
            if running[i]:
                on_gpu_ms[i] += until_ms - now_ms
                taken[i, window] += (until_ms - now_ms) / WINDOW_MS / count
                left_ms[i] -= (until_ms - now_ms) / slower[i]
            if due_ms[i] > until_ms:
                continue
            changed = True
            at = current[i]
            if running[i]:
                served[i] += batch[at]
                launches[i] += 1
                current[i] += 1
                running[i] = False
                due_ms[i] = _ready_ms(tables, model[i], at + 1, starts[i + 1], arrival_ms, batch, until_ms)
            else:
                running[i] = True
                left_ms[i] = _alone_ms(tables, model[i], batch[at], tables.share_units)
        now_ms = until_ms
        if now_ms >= (window + 1) * WINDOW_MS:
            window += 1
        if changed:
            slower[:] = 1.0
            if running.sum() > 1:
                _slow_down(tables, model, batch, current, running, slower)
            for i in range(jobs):
                if running[i]:
                    due_ms[i] = now_ms + left_ms[i] * slower[i] if left_ms[i] > 0.0 else now_ms
    return taken, served, launches, on_gpu_ms


@compiled
def _ready_ms(tables: Tables, model: int, at: int, end: int, arrival_ms: Floats, batch: Ints, now_ms: float) -> float:
    """Return the time at which launch ``at`` has arrived and is transferred; infinite after the job's last launch."""
    if at >= end:
        return np.inf
    return max(now_ms, arrival_ms[at]) + tables.transfer_ms[model, batch[at]]


@compiled
def _slow_down(tables: Tables, model: Ints, batch: Ints, current: Ints, running: Flags, slower: Floats) -> None:
    """Write the factor by which each running launch takes longer than alone on the whole GPU."""
    beside = np.flatnonzero(running)
    count = len(beside)
    units = max(1, tables.share_units // count)
    demands = np.empty((count, 3))
    for n in range(count):
        m, b = model[beside[n]], batch[current[beside[n]]]
        demands[n] = tables.l2_pct[m, b, units], tables.dram_pct[m, b, units], tables.power_w[m, b, units]
    for n in range(count):
        m, b = model[beside[n]], batch[current[beside[n]]]
        disturbed_ms = gpu_time_beside_ms(tables, m, b, units, demands, n)
        # At a frequency of 0 no launch advances.
        slower[beside[n]] = count * disturbed_ms / _alone_ms(tables, m, b, units) if disturbed_ms < np.inf else np.inf


@compiled
def _alone_ms(tables: Tables, model: int, batch: int, units: int) -> float:
    """Return the GPU time of a launch alone on the GPU."""
    return gpu_time_ms(tables, model, batch, units, 1, 0.0, 0.0, tables.power_w[model, batch, units])
