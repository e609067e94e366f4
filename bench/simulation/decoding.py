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
    """Serve prompts in batches, first come first served, as ``bench.simulation.engine`` does alone on a GPU.

    Parameters
    ----------
    arrivals_ms
        Arrival times, nondecreasing, shape (requests,).
    gpu_ms, promised_ms
        Time of a batch by its size, and the time that the planner predicts, for dropping; index 0 is unused.
    slo_ms, timeout_ms, noise
        Figures of the slot.
    begin_ms
        Time at which the slot begins to serve.
    dropping
        Whether requests that can no longer meet their SLO are dropped.

    Returns
    -------
    numpy.ndarray
        End of each request's prefill; NaN if it was dropped. Shape (requests,).
    """
    count, batch, first, free_ms, batches = len(arrivals_ms), len(gpu_ms) - 1, 0, begin_ms, 0
    done_ms = np.empty(count)
    while first < count:
        start_ms, last = next_batch(arrivals_ms, first, count, free_ms, batch, timeout_ms)
        kept = first
        while (
            dropping and kept < last and would_be_late(start_ms + promised_ms[last - kept] - arrivals_ms[kept], slo_ms)
        ):
            done_ms[kept] = np.nan
            kept += 1
            if last < count and arrivals_ms[last] <= start_ms:
                last += 1
        if kept > first:  # the smaller batch may not be ready yet
            first, free_ms = kept, start_ms
            continue
        free_ms = start_ms + gpu_ms[last - first] * noise_factor(noise.deviation, noise.seed, noise.slot, batches)
        done_ms[first:last] = free_ms
        first = last
        batches += 1
    return done_ms


@compiled
def decode(ready_ms: Floats, steps: int, step_ms: Floats, begin_ms: float, noise: Noise) -> tuple[Floats, Floats]:
    """Decode with continuous batching: waiting requests take free places before every step, in their order.

    Parameters
    ----------
    ready_ms
        End of each request's prefill, nondecreasing, shape (requests,).
    steps
        Steps of every request.
    step_ms
        Time of a step by the number of requests in it, shape (places + 1,). The memory for keys and values limits the
        places.
    begin_ms
        Time at which the first step may begin.

    Returns
    -------
    joined_ms, finished_ms
        The time at which each request takes its place and at which it has all tokens, shape (requests,).
    """
    count, places = len(ready_ms), len(step_ms) - 1
    joined_ms, finished_ms, joined_at = np.empty(count), np.empty(count), np.empty(count, dtype=np.int64)
    oldest, waiting, number, now_ms = 0, 0, 0, begin_ms
    while oldest < count:
        if oldest == waiting:
            now_ms = max(now_ms, ready_ms[waiting])
        while waiting < count and waiting - oldest < places and ready_ms[waiting] <= now_ms:
            joined_ms[waiting], joined_at[waiting] = now_ms, number
            waiting += 1
        now_ms += step_ms[waiting - oldest] * noise_factor(noise.deviation, noise.seed, noise.slot, number)
        number += 1
        # All requests have equally many steps, so they finish in the order in which they joined.
        while oldest < waiting and joined_at[oldest] + steps == number:
            finished_ms[oldest] = now_ms
            oldest += 1
    return joined_ms, finished_ms
