"""Kernels of language-model services: a prefill queue in batches, and decoding with continuous batching."""

from typing import NamedTuple

import numpy as np
from numba import njit

from bench.simulation.contention import noise_factor
from bench.simulation.serving_rules import would_be_late
from instances.arrays import Floats
from instances.queueing import next_batch


class Noise(NamedTuple):
    """Noise of the batches of a slot: see ``noise_factor``."""

    deviation: float
    seed: int
    slot: int


@njit(cache=True)
def prefill(
    arrivals_ms: Floats,
    batch: int,
    gpu_ms: Floats,
    promised_ms: Floats,
    slo_ms: float,
    timeout_ms: float,
    dropping: bool,
    noise: Noise,
    done_ms: Floats,
) -> None:
    """Serve prompts in batches, first come first served, as ``bench.simulation.engine`` does alone on a GPU.

    Parameters
    ----------
    arrivals_ms
        Arrival times, nondecreasing, shape (requests,).
    batch, slo_ms, timeout_ms, noise
        Figures of the slot.
    gpu_ms, promised_ms
        Time of a batch by its size, and the time that the planner predicts, for dropping; index 0 is unused.
    dropping
        Whether requests that can no longer meet their SLO are dropped.
    done_ms
        Output: end of each request's prefill; NaN if it was dropped. Shape (requests,).
    """
    count, first, free_ms, batches = len(arrivals_ms), 0, 0.0, 0
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


class Decoded(NamedTuple):
    """Totals of a decoding slot in a window of time.

    ``busy_ms`` is the time in steps, and ``in_flight_ms`` the sum over the requests of their time in the batch.
    """

    steps: int
    tokens: int
    busy_ms: float
    in_flight_ms: float


@njit(cache=True)
def decode(
    ready_ms: Floats,
    steps: int,
    step_ms: Floats,
    from_ms: float,
    to_ms: float,
    noise: Noise,
    joined_ms: Floats,
    finished_ms: Floats,
) -> Decoded:
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
    from_ms, to_ms
        Window of the totals: steps that start in it.
    joined_ms, finished_ms
        Output: the time at which each request takes its place and at which it has all tokens, shape (requests,).
    """
    count, places = len(ready_ms), len(step_ms) - 1
    joined_at = np.empty(count, dtype=np.int64)
    oldest, waiting, number, now_ms = 0, 0, 0, 0.0
    counted, tokens, busy_ms, in_flight_ms = 0, 0, 0.0, 0.0
    while oldest < count:
        if oldest == waiting:
            now_ms = max(now_ms, ready_ms[waiting])
        while waiting < count and waiting - oldest < places and ready_ms[waiting] <= now_ms:
            joined_ms[waiting], joined_at[waiting] = now_ms, number
            waiting += 1
        size = waiting - oldest
        time_ms = step_ms[size] * noise_factor(noise.deviation, noise.seed, noise.slot, number)
        if from_ms <= now_ms < to_ms:
            counted += 1
            tokens += size
            busy_ms += time_ms
            in_flight_ms += size * time_ms
        now_ms += time_ms
        number += 1
        # All requests have equally many steps, so they finish in the order in which they joined.
        while oldest < waiting and joined_at[oldest] + steps == number:
            finished_ms[oldest] = now_ms
            oldest += 1
    return Decoded(counted, tokens, busy_ms, in_flight_ms)
