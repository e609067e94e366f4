"""Kernels of language-model services: a prefill queue in batches, and decoding with continuous batching."""

from typing import NamedTuple

import numpy as np

from bench.simulation.contention import noise_factor
from bench.simulation.serving_rules import would_be_late
from instances.arrays import Floats
from instances.compiled import compiled
from instances.queueing import next_batch


class Noise(NamedTuple):
    """Noise of the batches of a slot: see ``noise_factor``."""

    deviation: float
    seed: int
    slot: int


@compiled
def prefill(
    arrivals_ms: Floats,
    gpu_ms: Floats,
    promised_ms: Floats,
    slo_ms: float,
    timeout_ms: float,
    begin_ms: float,
    dropping: bool,
    noise: Noise,
) -> Floats:
    """Serve prompts in batches, first come, first served.

    The result is that of ``bench.simulation.engine`` for a slot that is alone on its GPU.

    Parameters
    ----------
    arrivals_ms
        Arrival times, nondecreasing, shape (requests,).
    gpu_ms, promised_ms
        Time of a batch by its size, and the time that the planner predicts; index 0 is unused. Dropping uses the
        predicted time.
    slo_ms, timeout_ms, noise
        SLO, dispatch timeout and noise of the slot.
    begin_ms
        Time at which the slot begins to serve.
    dropping
        Whether requests that can no longer meet their SLO are dropped.

    Returns
    -------
    numpy.ndarray
        End of each request's prefill; NaN if it was dropped. Shape (requests,).
    """
    count, batch = len(arrivals_ms), len(gpu_ms) - 1
    first, batches = 0, 0  # first waiting request, number of served batches
    free_ms = begin_ms
    done_ms = np.empty(count)
    while first < count:
        start_ms, end = next_batch(arrivals_ms, first, count, free_ms, batch, timeout_ms)
        oldest = first  # oldest request of the batch that is not dropped
        while (
            dropping
            and oldest < end
            and would_be_late(start_ms + promised_ms[end - oldest] - arrivals_ms[oldest], slo_ms)
        ):
            done_ms[oldest] = np.nan
            oldest += 1
            if end < count and arrivals_ms[end] <= start_ms:
                end += 1
        if oldest > first:  # the smaller batch may not be ready yet
            first, free_ms = oldest, start_ms
            continue
        free_ms = start_ms + gpu_ms[end - first] * noise_factor(noise.deviation, noise.seed, noise.slot, batches)
        done_ms[first:end] = free_ms
        first = end
        batches += 1
    return done_ms


@compiled
def decode(ready_ms: Floats, steps: int, step_ms: Floats, begin_ms: float, noise: Noise) -> tuple[Floats, Floats]:
    """Decode with continuous batching: before every step, waiting requests take the free places in their order.

    Parameters
    ----------
    ready_ms
        End of each request's prefill, nondecreasing, shape (requests,).
    steps
        Steps of every request.
    step_ms
        Time of a step by the number of requests in it, shape (places + 1,). The memory for keys and values limits the
        number of places.
    begin_ms
        Time at which the first step may begin.

    Returns
    -------
    joined_ms, finished_ms
        Times at which each request takes its place and has all its tokens, shape (requests,).
    """
    count, places = len(ready_ms), len(step_ms) - 1
    joined_ms, finished_ms, joining_step = np.empty(count), np.empty(count), np.empty(count, dtype=np.int64)
    # ``oldest`` is the oldest unfinished request, ``waiting`` the first request without a place.
    oldest, waiting, step, now_ms = 0, 0, 0, begin_ms
    while oldest < count:
        if oldest == waiting:
            now_ms = max(now_ms, ready_ms[waiting])
        while waiting < count and waiting - oldest < places and ready_ms[waiting] <= now_ms:
            joined_ms[waiting], joining_step[waiting] = now_ms, step
            waiting += 1
        now_ms += step_ms[waiting - oldest] * noise_factor(noise.deviation, noise.seed, noise.slot, step)
        step += 1
        # All requests have equally many steps, so they finish in the order in which they joined.
        while oldest < waiting and joining_step[oldest] + steps == step:
            finished_ms[oldest] = now_ms
            oldest += 1
    return joined_ms, finished_ms
