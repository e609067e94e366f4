"""The queue of one workload over one decision step: InSS's equation (3) for every request that arrives."""

import math

from numba import njit


@njit(cache=True)
def serve_step(
    queued: int,
    running_ms: float,
    arrivals: int,
    step_ms: float,
    batch: int,
    inference_ms: float,
    slo_ms: float,
) -> tuple[int, int, float]:
    """Serve a step's requests first come first served in full batches, and count the late ones.

    The requests of a step are evenly spaced and the last comes at its end. A request that joins a queue of w requests,
    itself included, is done after the remaining execution of the batch under way and ``ceil(w / b)`` batches more; if
    that batch is not full yet, it first waits for the missing requests at the step's rate (InSS, equation 3, which has
    the wait only where w < b; a later batch that is not full waits as well). Batch n starts at
    ``max(U + (n - 1) t, A(n b))``, where U is the start of the first and A(j) the arrival of request j: arrivals grow
    linearly, so no batch in between decides. That makes the number of late requests a sum over the places in a batch.

    Requests older than the SLO at the end of the step have missed it and are dropped; each request counts as late in
    the step in which it arrives.

    Parameters
    ----------
    queued
        G, requests that wait at the start of the step; counted in the steps in which they came.
    running_ms
        Remaining execution time at the start of the step.
    arrivals
        Requests of this step.
    step_ms
        Its length.
    batch
        At least 1, or 0 where the workload is not deployed: all its requests are late.
    inference_ms
        t of a batch.
    slo_ms
        Latency objective.

    Returns
    -------
    late : int
        Requests of this step that miss their SLO.
    queued : int
        Requests that wait at the end of the step, at most those of one SLO.
    running_ms : float
        Execution time that remains then.
    """
    spacing_ms = step_ms / arrivals if arrivals > 0 else math.inf
    fresh = int(slo_ms / spacing_ms)
    total = queued + arrivals
    if batch == 0 or not inference_ms < math.inf:
        return arrivals, min(total, fresh), max(0.0, running_ms - step_ms)

    first_ms = running_ms
    if queued < batch:  # in this order of operations the last request comes exactly at the end of the step
        first_ms = max(running_ms, (batch - queued) * step_ms / arrivals) if arrivals > 0 else math.inf
    late = 0
    drift_ms = inference_ms - batch * spacing_ms
    for behind in range(batch if arrivals > 0 else 0):  # requests that come later into the same batch
        first = (queued + behind) // batch + 1
        last = (total + behind) // batch
        if last < first:
            continue
        if behind * spacing_ms + inference_ms > slo_ms:  # assembly alone takes too long
            late += last - first + 1
            continue
        # Late in batch n: U + n t - A > SLO, with A the arrival of the request
        slack_ms = slo_ms - first_ms - (behind + queued) * spacing_ms
        if drift_ms > 0.0:
            late += max(0, last - max(first, math.floor(slack_ms / drift_ms) + 1) + 1)
        elif drift_ms < 0.0:
            late += max(0, min(last, math.ceil(slack_ms / drift_ms) - 1) - first + 1)
        elif slack_ms < 0.0:
            late += last - first + 1

    started = 0
    if first_ms <= step_ms:
        started = min(total // batch, math.floor((step_ms - first_ms) / inference_ms) + 1)
    if started == 0:
        return late, min(total, fresh), max(0.0, running_ms - step_ms)
    start_ms = first_ms + (started - 1) * inference_ms
    if arrivals > 0:
        start_ms = max(start_ms, (started * batch - queued) * step_ms / arrivals)
    return late, min(total - started * batch, fresh), max(0.0, start_ms + inference_ms - step_ms)
