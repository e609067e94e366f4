"""Queue of one workload over one decision step: InSS's equation (3) for every request that arrives."""

import math

from instances.compiled import compiled


@compiled
def serve_step(
    queued: int,
    running_ms: float,
    arrivals: int,
    step_ms: float,
    batch: int,
    inference_ms: float,
    slo_ms: float,
) -> tuple[int, int, float]:
    """Serve a step's requests first come, first served in full batches, and count the late requests.

    The requests of a step are evenly spaced, and the last arrives at its end. A request that joins a queue of w
    requests, itself included, ends after the remaining execution of the in-flight batch and ``ceil(w / b)`` more
    batches. If its batch is not full yet, it first waits for the missing requests at the step's rate. (InSS, equation
    3, has this wait only for w < b; a later batch that is not full waits as well.)

    Batches that start in this step or later have the numbers 1, 2 and so on. U is the start of batch 1, and A(j) is the
    arrival of request j. Batch n starts at ``max(U + (n - 1) t, A(n b))``: the batches before it have ended, and its
    last request has arrived. Since A is linear, a wait for the requests of batches 2 to n - 1 cannot delay batch n
    further. Therefore one formula counts the late requests at each position in a batch.

    Requests that are older than the SLO at the end of the step have missed it and are dropped. Each request counts as
    late in the step of its arrival.

    Parameters
    ----------
    queued
        G, requests that wait at the start of the step; they were counted in the steps of their arrival.
    running_ms
        Remaining execution time of the in-flight batch at the start of the step.
    arrivals
        Requests of this step.
    batch
        At least 1, or 0 if the workload has no GPU: then all its requests are late.
    inference_ms
        t, the inference time of a batch.

    Returns
    -------
    late : int
        Requests of this step that miss their SLO.
    queued : int
        Requests that wait at the end of the step and are not older than the SLO.
    running_ms : float
        Execution time that remains at the end of the step.
    """
    spacing_ms = step_ms / arrivals if arrivals > 0 else math.inf
    young_arrivals = int(slo_ms / spacing_ms)  # the last arrivals, which are not older than the SLO at the end
    total = queued + arrivals
    if batch == 0 or not inference_ms < math.inf:
        return arrivals, min(total, young_arrivals), max(0.0, running_ms - step_ms)

    first_start_ms = running_ms
    if queued < batch:  # multiply before dividing: the last request arrives exactly at the end of the step
        first_start_ms = max(running_ms, (batch - queued) * step_ms / arrivals) if arrivals > 0 else math.inf
    late = 0
    drift_ms = inference_ms - batch * spacing_ms  # change of the latency from one batch to the next
    for later_in_batch in range(batch if arrivals > 0 else 0):  # number of later requests in the same batch
        first_batch = (queued + later_in_batch) // batch + 1
        last_batch = (total + later_in_batch) // batch
        if last_batch < first_batch:
            continue
        if later_in_batch * spacing_ms + inference_ms > slo_ms:  # late even without a queue
            late += last_batch - first_batch + 1
            continue
        # In batch n, the request that arrives at A is late if U + n t - A > SLO.
        slack_ms = slo_ms - first_start_ms - (later_in_batch + queued) * spacing_ms
        if drift_ms > 0.0:
            late += max(0, last_batch - max(first_batch, math.floor(slack_ms / drift_ms) + 1) + 1)
        elif drift_ms < 0.0:
            late += max(0, min(last_batch, math.ceil(slack_ms / drift_ms) - 1) - first_batch + 1)
        elif slack_ms < 0.0:
            late += last_batch - first_batch + 1

    started_batches = 0
    if first_start_ms <= step_ms:
        started_batches = min(total // batch, math.floor((step_ms - first_start_ms) / inference_ms) + 1)
    if started_batches == 0:
        return late, min(total, young_arrivals), max(0.0, running_ms - step_ms)
    start_ms = first_start_ms + (started_batches - 1) * inference_ms
    if arrivals > 0:
        start_ms = max(start_ms, (started_batches * batch - queued) * step_ms / arrivals)
    return late, min(total - started_batches * batch, young_arrivals), max(0.0, start_ms + inference_ms - step_ms)
